"""Texts as vectors, by their words or by ready-made embeddings; and the keywords of groups of them."""

from grinch.text.encoders import EncodedTexts, find_encoder
from grinch.text.keywords import Keywords, branch_terms, cluster_terms, keywords
from grinch.text.vectors import TextVectors

__all__ = ["EncodedTexts", "Keywords", "TextVectors", "branch_terms", "cluster_terms", "find_encoder", "keywords"]
