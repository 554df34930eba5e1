"""A tree and its clusters as files."""

from grinch.export.parquet import write_clusters_parquet, write_tree_parquet
from grinch.export.writers import write_clusters, write_newick, write_scipy, write_tsv

__all__ = [
    "write_clusters",
    "write_clusters_parquet",
    "write_newick",
    "write_scipy",
    "write_tree_parquet",
    "write_tsv",
]
