"""One tree by many workers, on Dask (``pip install 'grinch[dask]'``)."""

from grinch.sharded.estimator import ShardedGrinch

__all__ = ["ShardedGrinch"]
