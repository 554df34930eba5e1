from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch, tmp_path):
    monkeypatch.delenv("GRINCH_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "no-cache"))
