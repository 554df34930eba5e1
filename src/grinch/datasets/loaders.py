"""Data sets by name, from a folder or from scikit-learn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count, check_name
from grinch.datasets.catalog import CATALOG, Description
from grinch.datasets.readers import Labelled, from_sklearn, needs_download
from grinch.io.points import blaming

FOLDER = "GRINCH_DATA"


def load(
    name: str,
    folder: str | Path | None = None,
    n: int | None = None,
    random_state: int | None = 0,
    download: bool = False,
) -> Labelled:
    """Load a data set by its name in :data:`CATALOG`, with values as float32.

    Parameters
    ----------
    name : str
        A name in :data:`CATALOG`.
    folder : path, optional
        The folder of the files, or of folders with them; default is the environment variable GRINCH_DATA.
    n : int, optional
        Take this many random rows, in random order. Without it: all rows, in the order of the source, which often
        has class after class; :func:`arrival` gives other orders.
    random_state : int or None, default=0
        The source of the rows that ``n`` takes.
    download : bool, default=False
        Let scikit-learn fetch the set, if it can and there is no file. Nothing is ever downloaded without it.

    Examples
    --------
    >>> X, y = load("digits", n=500)
    >>> X.shape, X.dtype, len(set(y))
    ((500, 64), dtype('float32'), 10)
    """
    check_name("name", name, CATALOG)
    description = CATALOG[name]
    _check_n(n, None, name)
    vectors, labels = _whole(description, folder, download)
    if description.standardise is not None:
        vectors = _standardised(vectors, description.standardise)
    if n is not None:
        _check_n(n, len(vectors), name)
        rows = np.random.default_rng(random_state).permutation(len(vectors))[:n]
        vectors, labels = vectors[rows], labels[rows]
    return Labelled(np.ascontiguousarray(vectors, np.float32), labels)


def available(folder: str | Path | None = None) -> list[str]:
    """Return the names that :func:`load` can load here without a download.

    >>> set(available()) >= {"breast_cancer", "digits", "iris", "wine"}
    True
    """
    home = _folder(folder)
    return [
        d.name for d in CATALOG.values() if (home and _find(d, home)) or (d.in_sklearn and not needs_download(d.name))
    ]


def _whole(description: Description, folder: str | Path | None, download: bool) -> Labelled:
    home = _folder(folder) if description.files else None
    path = _find(description, home) if home else None
    if path is not None:
        with blaming(path.name, description.format):
            return description.reader(path)
    if description.in_sklearn and (download or not needs_download(description.name)):
        return from_sklearn(description.name)
    raise _not_found(description, home)


def _folder(folder: str | Path | None) -> Path | None:
    """Return the given folder, which must exist; or the one in the environment, if any."""
    name, given = ("folder", folder) if folder is not None else (FOLDER, os.environ.get(FOLDER))
    if not given:
        return None
    if not Path(given).is_dir():
        raise FileNotFoundError(f"{name} must be a folder with data sets; got {str(given)!r}, which is not there")
    return Path(given)


def _find(description: Description, home: Path) -> Path | None:
    """Return the first of the files that is in the folder, or in a folder in it."""
    for file in description.files:
        found = [path for path in (home / file, *sorted(home.glob(f"*/{file}"))) if path.is_file()]
        if found:
            return found[0]
    return None


def _not_found(description: Description, home: Path | None) -> FileNotFoundError:
    place = f"it is not in {str(home)!r} or a folder in it" if home else f"give its folder as folder= or in {FOLDER}"
    fetch = ". Or let scikit-learn fetch it: download=True" if description.in_sklearn else ""
    return FileNotFoundError(
        f"name={description.name!r} needs the file {' or '.join(description.files)}: {place}."
        f" Get it from {description.where}; format: {description.format}{fetch}"
    )


def _standardised(vectors: npt.NDArray[Any], columns: slice) -> npt.NDArray[np.float32]:
    result = np.array(vectors, np.float32)
    chosen = result[:, columns].astype(np.float64)
    deviations = chosen.std(axis=0)
    result[:, columns] = (chosen - chosen.mean(axis=0)) / np.where(deviations > 0, deviations, 1)
    return result


def _check_n(n: Any, rows: int | None, name: str) -> None:
    if n is None:
        return
    check_count("n", n, 1, ", or None for all rows")
    if rows is not None and n > rows:
        raise ValueError(f"n must be at most the {rows:,} rows of {name!r}, or None for all of them; got {n!r}")
