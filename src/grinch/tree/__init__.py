"""The cluster tree: arrays, operations, formats. It knows structure and nothing of similarity."""

from grinch.tree.links import NONE
from grinch.tree.tree import Tree

__all__ = ["NONE", "Tree"]
