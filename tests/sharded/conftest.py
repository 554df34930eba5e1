"""Two real worker processes for all tests of this folder."""

from __future__ import annotations

import pytest

from grinch.sharded.running import Workers


@pytest.fixture(scope="session")
def cluster():
    pytest.importorskip("distributed", reason="dask is not installed: pip install 'grinch[dask]'")
    with Workers(n_workers=2) as workers:
        yield workers


@pytest.fixture
def workers(cluster):
    with Workers(cluster.client) as workers:
        yield workers
