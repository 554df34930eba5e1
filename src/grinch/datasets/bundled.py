"""Data sets that scikit-learn has: shipped with it, or fetched and kept by it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from grinch.datasets.labelled import Labelled


def always() -> bool:
    return True


def never() -> bool:
    return False


class Bundled(NamedTuple):
    """How to get a data set through scikit-learn."""

    get: Callable[[], Labelled]
    is_here: Callable[[], bool] = always
    """Whether ``get`` needs no network."""


def shipped(name: str) -> Labelled:
    import sklearn.datasets

    return Labelled(*getattr(sklearn.datasets, f"load_{name}")(return_X_y=True))


def covtype() -> Labelled:
    from sklearn.datasets import fetch_covtype

    return Labelled(*fetch_covtype(return_X_y=True))


def has_covtype() -> bool:
    """Whether scikit-learn fetched it before. Asked of the files: asking scikit-learn would create its folder."""
    home = Path(os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")).expanduser() / "covertype"
    return all(any(home.glob(f"{part}*")) for part in ("samples", "targets"))


def mnist() -> Labelled:
    from sklearn.datasets import fetch_openml

    return Labelled(*fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False, parser="liac-arff"))
