"""What "similar" means for two groups of points or records."""

from grinch.linkage.base import Linkage, VectorLinkage

__all__ = ["Linkage", "VectorLinkage"]
