"""Texts as vectors: TF-IDF or hashing of their words, or embeddings that are ready."""

from grinch.text.encoders import EncodedTexts, find_encoder
from grinch.text.vectors import TextVectors

__all__ = ["EncodedTexts", "TextVectors", "find_encoder"]
