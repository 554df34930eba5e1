"""A tree and its clusters as files."""

from grinch.export.writers import write_clusters, write_newick, write_scipy, write_tsv

__all__ = ["write_clusters", "write_newick", "write_scipy", "write_tsv"]
