"""Files and scikit-learn sources of data sets, read as vectors and classes: one reader for each format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.io.read import FileError, read_points


class Labelled(NamedTuple):
    """Vectors (float32, dense or CSR), one row for each point, and their classes.

    Classes are whole numbers or strings, as the source has them.
    """

    vectors: Any
    labels: npt.NDArray[Any]


NPZ = ".npz with the arrays X and y"
NPY = ".npy with the vectors, and NAME_labels.npy beside it"
CSV = ".csv with a header; the column label holds the classes, all others are features"
TSV = ".tsv without a header: id, label, numbers (the lists that PERCH reads)"
LIBSVM = "libsvm lines: label index:value …, also .bz2 or .gz"


def read(path: Path) -> Labelled:
    """Read a file by its ending; one that is none of .npz, .npy, .csv, .tsv is read as libsvm.

    Vectors keep the type they have in the file, so that a sample of them can be taken before they are widened.
    """
    readers = {".npz": read_npz, ".npy": read_npy, ".csv": read_csv, ".tsv": read_tsv}
    ending = Path(path.stem).suffix if path.suffix in (".gz", ".bz2") else path.suffix
    return readers.get(ending, read_libsvm)(path)


def arrays_of(path: Path, *names: str) -> list[npt.NDArray[Any]]:
    """Read arrays of an .npz file, which must have all of them."""
    # Opened here: numpy leaves a damaged file open.
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
        absent = [name for name in names if name not in arrays.files]
        if absent:
            raise FileError(
                f"{path.name} must hold {' and '.join(names)}, one entry for each point;"
                f" it holds {', '.join(arrays.files)}. Save it with numpy.savez({', '.join(f'{n}=…' for n in names)})"
            )
        return [arrays[name] for name in names]


def read_npz(path: Path) -> Labelled:
    vectors, labels = arrays_of(path, "X", "y")
    return _paired(path, vectors, labels)


def read_npy(path: Path) -> Labelled:
    beside = path.with_name(f"{path.stem}_labels.npy")
    if not beside.exists():
        raise FileError(f"{path.name} holds vectors only; put their classes beside it, as {beside.name}")
    return _paired(path, np.load(path, mmap_mode="r"), np.load(beside))


def read_csv(path: Path) -> Labelled:
    points = read_points(path, label="label")
    assert points.labels is not None, "read_points refuses a file without the column it is given"
    return _paired(path, points.vectors, points.labels)


def read_tsv(path: Path) -> Labelled:
    width = np.loadtxt(path, str, delimiter="\t", max_rows=1, comments=None).size
    if width < 3:
        raise FileError(f"{path.name} must have the columns id, label and at least one number; it has {width}")
    columns = range(2, width)
    vectors = np.loadtxt(path, np.float32, delimiter="\t", usecols=columns, ndmin=2, comments=None)
    return _paired(path, vectors, np.loadtxt(path, str, delimiter="\t", usecols=1, ndmin=1, comments=None))


def read_libsvm(path: Path) -> Labelled:
    from sklearn.datasets import load_svmlight_file

    vectors, labels = load_svmlight_file(str(path), dtype=np.float32)
    whole = labels.astype(np.int64)
    return _paired(path, vectors.toarray(), whole if (whole == labels).all() else labels)


def read_speaker_digits(path: Path) -> Labelled:
    """Read recordings with a class for every pair of speaker and digit."""
    vectors, speakers, digits = arrays_of(path, "X", "y", "digit")
    return _paired(path, vectors, speakers.astype(np.int64) * 10 + digits)


def read_clinc150(path: Path) -> Labelled:
    """Read the names of the intents, without the sentences that have none ("oos", out of scope)."""
    vectors, labels = arrays_of(path, "X", "y")
    if labels.dtype.kind in "iu":
        (names,) = arrays_of(path, "classes")
        labels = names[labels]
    return _paired(path, vectors[labels != "oos"], labels[labels != "oos"])


def _paired(path: Path, vectors: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Labelled:
    if vectors.ndim > 2:
        vectors = vectors.reshape(len(vectors), -1)  # images
    if vectors.ndim < 2 or labels.shape != (len(vectors),):
        raise FileError(
            f"{path.name} must hold a matrix of points x features and one class for each point;"
            f" it holds shapes {vectors.shape} and {labels.shape}"
        )
    return Labelled(vectors, labels)


def from_sklearn(name: str) -> Labelled:
    """Return a data set that scikit-learn ships, or fetches and keeps."""
    import sklearn.datasets as source

    if name == "covtype":
        return Labelled(*source.fetch_covtype(return_X_y=True))
    if name == "mnist":
        return Labelled(
            *source.fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False, parser="liac-arff")
        )
    return Labelled(*getattr(source, f"load_{name}")(return_X_y=True))


def needs_download(name: str) -> bool:
    """Return whether scikit-learn would have to fetch a data set; by its files, as asking would create its folder."""
    home = Path(os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")).expanduser() / "covertype"
    has_covtype = all(any(home.glob(f"{part}*")) for part in ("samples", "targets"))
    return name == "mnist" or (name == "covtype" and not has_covtype)
