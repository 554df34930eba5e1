"""Models in files: a zip of JSON and arrays. A file is checked field by field, and nothing in it is executed.

A file may come from anywhere, so sizes are checked before anything is read, and only what belongs in a model is read.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from grinch.files.write import replacing
from grinch.resolve.authors.groups.statistics import N_SLOTS, N_TOPIC_SLOTS, Statistics
from grinch.resolve.authors.learned.predictors import PREDICTORS, Predictor

VERSION = 1
FORMAT = "grinch coref model"

# Bytes of a file, and of each of its members unpacked. The largest member that training makes has 2 MB.
MOST_BYTES = 1 << 25
MOST_JSON_BYTES = 1 << 22
MOST_HEADER_BYTES = 10_000
MOST_TOPICS = 256
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
STATISTICS = ("counts", "topics")

Arrays = dict[str, npt.NDArray[Any]]


class ModelFileError(ValueError):
    """A file that cannot be used as a model: it is damaged, made by another version, or something else."""


class _Flaw(ValueError):
    """A field of a file, and what is wrong with it."""

    def __init__(self, field: str, complaint: str):
        super().__init__(f"{field} {complaint}")


def write_model(path: str | os.PathLike[str], about: Mapping[str, Any], arrays: Arrays) -> None:
    """Write what a model consists of; an incomplete file never takes the place of ``path``."""
    with replacing(Path(path), "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", json.dumps({"format": FORMAT, "version": VERSION, **about}, indent=1))
        for name, value in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, value, allow_pickle=False)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Predictor, Statistics | None]:
    """What a file says about a model, its predictor, and its statistics if it is a model of records."""
    name = os.fspath(path)
    try:
        size = os.stat(path).st_size
        if size > MOST_BYTES:
            raise _Flaw("the file", f"must have at most {MOST_BYTES:,} bytes; it has {size:,}")
        with zipfile.ZipFile(path) as archive:
            about = _about(archive)
            if about.get("format") != FORMAT:
                raise _Flaw("format", f"must be {FORMAT!r}; it is {about.get('format')!r:.60}")
            if about.get("version") != VERSION:
                raise ModelFileError(
                    f"{name!r} is a model of version {about.get('version')!r:.60}, and this grinch reads version"
                    f" {VERSION}; train it again, or use the grinch it was trained with"
                )
            _check(about)
            return about, *_parts(archive, about)
    except (ModelFileError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (OSError, EOFError, zipfile.BadZipFile, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ModelFileError(
            f"{name!r} is not a complete model file: {reason}. Copy it again, or train the model again"
        ) from error


# Fields of model.json ---------------------------------------------------------------------------------------------


def _about(archive: zipfile.ZipFile) -> dict[str, Any]:
    with _reading(archive, "model.json", MOST_JSON_BYTES) as file:
        about = json.loads(file.read())
    if not isinstance(about, dict):
        raise _Flaw("model.json", f"must be an object; it is a {type(about).__name__}")
    return about


def _check(about: dict[str, Any]) -> None:
    kind, features, calibration = about.get("kind"), about.get("features"), about.get("calibration")
    if not isinstance(kind, str) or kind not in PREDICTORS:
        raise _Flaw("kind", f"must be one of {', '.join(map(repr, PREDICTORS))}; it is {kind!r:.60}")
    if not isinstance(features, list) or not features or not all(isinstance(each, str) for each in features):
        raise _Flaw("features", "must be a list of names")
    if not _is_finite(about.get("threshold")) or not 0 <= about["threshold"] <= 1:
        raise _Flaw("threshold", f"must be a number from 0 to 1; it is {about.get('threshold')!r:.60}")
    if not isinstance(calibration, list) or len(calibration) != 2 or not all(map(_is_finite, calibration)):
        raise _Flaw("calibration", f"must be two finite numbers; it is {calibration!r:.60}")
    if not isinstance(about.get("report"), dict):
        raise _Flaw("report", f"must be an object; it is {about.get('report')!r:.60}")
    n_records = about.get("n_records", 0)
    if isinstance(n_records, bool) or not isinstance(n_records, int) or not 0 <= n_records < 2**63:
        raise _Flaw("n_records", f"must be a whole number of at least 0; it is {n_records!r:.60}")


def _is_finite(value: object) -> bool:
    is_number = isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool))
    # Larger integers are no float.
    return is_number and -1e300 < value < 1e300 and math.isfinite(value)  # type: ignore[operator, arg-type]


# Arrays -----------------------------------------------------------------------------------------------------------


def _parts(archive: zipfile.ZipFile, about: dict[str, Any]) -> tuple[Predictor, Statistics | None]:
    predictor_class = PREDICTORS[about["kind"]]
    expected = [f"predictor/{part}" for part in predictor_class.PARTS]
    if "n_records" in about:
        expected += [f"statistics/{part}" for part in STATISTICS]
    _check_members(archive, ["model.json", *(f"{name}.npy" for name in expected)])
    arrays = {name: _read_array(archive, f"{name}.npy") for name in expected}
    try:
        predictor: Predictor = predictor_class(**{part: arrays[f"predictor/{part}"] for part in predictor_class.PARTS})
    except ValueError as error:
        raise _Flaw("predictor", str(error)) from error
    if predictor.n_features != len(about["features"]):
        raise _Flaw("features", f"must name {predictor.n_features} features; it names {len(about['features'])}")
    statistics = None
    if "n_records" in about:
        statistics = _statistics(about["n_records"], *(arrays[f"statistics/{part}"] for part in STATISTICS))
    return predictor, statistics


def _statistics(n_records: int, counts: npt.NDArray[Any], topics: npt.NDArray[Any]) -> Statistics:
    if counts.shape != (N_SLOTS,) or counts.dtype.kind != "i" or (counts < 0).any():
        raise _Flaw("statistics/counts", f"must be {N_SLOTS:,} whole numbers, none below 0; it is {_kind_of(counts)}")
    is_table = topics.ndim == 2 and len(topics) == N_TOPIC_SLOTS and topics.shape[1] <= MOST_TOPICS
    if not is_table or topics.dtype.kind != "f" or not np.isfinite(topics).all():
        raise _Flaw(
            "statistics/topics",
            f"must be {N_TOPIC_SLOTS:,} rows of at most {MOST_TOPICS:,} finite numbers; it is {_kind_of(topics)}",
        )
    return Statistics(n_records, counts.astype(np.int32, copy=False), topics.astype(np.float32, copy=False))


def _kind_of(array: npt.NDArray[Any]) -> str:
    return f"an array of {array.dtype} of shape {array.shape}"


def _check_members(archive: zipfile.ZipFile, expected: Sequence[str]) -> None:
    found = archive.namelist()
    for name in expected:
        if found.count(name) != 1:
            raise _Flaw(name, f"must be in it once; it is there {found.count(name)} times")
    odd = next((name for name in found if name not in expected), None)
    if odd is not None:
        raise _Flaw(f"{odd!r:.60}", "does not belong in a model")


@contextmanager
def _reading(archive: zipfile.ZipFile, name: str, most: int) -> Iterator[IO[bytes]]:
    """A member to read from, unless it is too large; all that is wrong with it is said with its name."""
    try:
        info = archive.getinfo(name)
        if info.file_size > most:
            raise _Flaw(name, f"must have at most {most:,} bytes; it has {info.file_size:,}")
        if info.compress_type not in PACKINGS:
            raise _Flaw(name, "must be stored or deflated; it is packed in another way")
        with archive.open(info) as file:
            yield file
    except KeyError:
        raise _Flaw(name, "is missing") from None
    except _Flaw:
        raise
    # An encrypted member is a RuntimeError, and so is JSON that is nested too deep.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise _Flaw(name, f"cannot be read ({str(error) or type(error).__name__})") from error


def _read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """An array of numbers. Its header is checked against its size before memory is taken for it."""
    with _reading(archive, name, MOST_BYTES) as file:
        shape, by_columns, dtype = _header(file)
        if dtype.kind not in "iuf" or len(shape) > 2 or any(n < 0 for n in shape):
            raise _Flaw(name, f"must be an array of numbers; its header says {dtype} of shape {shape}")
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes > MOST_BYTES:
            raise _Flaw(name, f"must have at most {MOST_BYTES:,} bytes; its header says {n_bytes:,}")
        content = file.read(n_bytes + 1)
        if len(content) != n_bytes:
            raise _Flaw(name, f"must have the {n_bytes:,} bytes that its header says; it has more or fewer")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if by_columns else "C").copy(order="C")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file, max_header_size=MOST_HEADER_BYTES)
    raise ValueError(f"a .npy file of version {version}")
