"""Learned models, their linkage and their files, which are checked field by field; nothing in them is executed.

A file may come from anywhere, so sizes are checked before anything is read, and only what belongs in a model is read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from grinch.errors import SavedModelError
from grinch.linkage import Learned
from grinch.resolve.authors.features import FEATURES, N_SLOTS, N_TOPIC_SLOTS, RecordFeatures, Statistics
from grinch.resolve.authors.predictors import PREDICTORS, Predictor
from grinch.resolve.authors.record import FIELDS
from grinch.saving import container

KIND = "coreference model"
# Bytes of a file. The largest array that training makes has 2 MB.
MAX_BYTES = 1 << 25
MAX_TOPICS = 256
STATISTICS = ("counts", "topics")

Arrays = dict[str, npt.NDArray[Any]]


class ModelFileError(SavedModelError):
    """A file that cannot be used as a model: it is damaged, made by another version, or something else."""


def _need(is_so: bool, complaint: str) -> None:
    if not is_so:
        raise ValueError(complaint)


def _read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Predictor, Statistics | None]:
    """Return the header of a file, its predictor, and its statistics if it is a model of records."""
    try:
        size = os.stat(path).st_size
        _need(size <= MAX_BYTES, f"the file must have at most {MAX_BYTES:,} bytes; it has {size:,}")
        file = container.read(path, KIND)
        file.verify()
        _check_header(file.header)
        return file.header, *_parts(file.arrays, file.header)
    except container.OldFormat:
        raise
    except (SavedModelError, ValueError) as error:
        raise ModelFileError(
            f"{os.fspath(path)!r} is not a complete model file: {error}. Copy it again, or train the model again"
        ) from error


def _check_header(about: dict[str, Any]) -> None:
    kind, features, calibration = about.get("kind"), about.get("features"), about.get("calibration")
    threshold, report, n_records = about.get("threshold"), about.get("report"), about.get("n_records", 0)
    is_list = isinstance(features, list) and features and all(isinstance(each, str) for each in features)
    is_pair = isinstance(calibration, list) and len(calibration) == 2 and all(map(_is_finite, calibration))
    columns = about.get("columns", {})
    are_columns = isinstance(columns, dict) and all(
        field in FIELDS and isinstance(column, str) for field, column in columns.items()
    )
    for name, value, is_so, wanted in (
        ("kind", kind, isinstance(kind, str) and kind in PREDICTORS, f"one of {', '.join(map(repr, PREDICTORS))}"),
        ("features", features, is_list, "a list of names"),
        ("threshold", threshold, _is_finite(threshold) and 0 <= about["threshold"] <= 1, "a number from 0 to 1"),
        ("calibration", calibration, is_pair, "two finite numbers"),
        ("report", report, isinstance(report, dict), "an object"),
        ("columns", columns, are_columns, "an object of columns by field"),
        ("n_records", n_records, type(n_records) is int and 0 <= n_records < 2**63, "a whole number of at least 0"),
    ):
        _need(bool(is_so), f"{name} must be {wanted}; it is {value!r:.60}")


def _is_finite(value: object) -> bool:
    # Larger integers are no float.
    return type(value) in (int, float) and -1e300 < value < 1e300 and math.isfinite(value)  # type: ignore[operator, arg-type]


def _parts(arrays: Arrays, about: dict[str, Any]) -> tuple[Predictor, Statistics | None]:
    predictor_class, has_statistics = PREDICTORS[about["kind"]], "n_records" in about
    expected = [f"predictor/{part}" for part in predictor_class.PARTS]
    expected += [f"statistics/{part}" for part in STATISTICS if has_statistics]
    for name in sorted(set(arrays) ^ set(expected)):
        raise ValueError(f"{name!r:.60} {'is missing' if name in expected else 'does not belong in a model'}")
    try:
        predictor: Predictor = predictor_class(**{part: arrays[f"predictor/{part}"] for part in predictor_class.PARTS})
    except ValueError as error:
        raise ValueError(f"predictor {error}") from error
    n_features = len(about["features"])
    _need(
        predictor.n_features == n_features, f"features must name {predictor.n_features} features; it names {n_features}"
    )
    if not has_statistics:
        return predictor, None
    return predictor, _statistics(about["n_records"], *(arrays[f"statistics/{part}"] for part in STATISTICS))


def _statistics(n_records: int, counts: npt.NDArray[Any], topics: npt.NDArray[Any]) -> Statistics:
    _need(
        counts.shape == (N_SLOTS,) and counts.dtype.kind == "i" and not (counts < 0).any(),
        f"statistics/counts must be {N_SLOTS:,} whole numbers, none below 0; it is {_kind_of(counts)}",
    )
    is_table = topics.ndim == 2 and len(topics) == N_TOPIC_SLOTS and topics.shape[1] <= MAX_TOPICS
    _need(
        is_table and topics.dtype.kind == "f" and bool(np.isfinite(topics).all()),
        f"statistics/topics must be {N_TOPIC_SLOTS:,} rows of at most {MAX_TOPICS:,} finite numbers;"
        f" it is {_kind_of(topics)}",
    )
    return Statistics(n_records, counts.astype(np.int32, copy=False), topics.astype(np.float32, copy=False))


def _kind_of(array: npt.NDArray[Any]) -> str:
    return f"an array of {array.dtype} of shape {array.shape}"


Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """How likely it is that two groups of records are of one author.

    Made by :func:`~grinch.resolve.authors.training.train`; :meth:`save` and :meth:`load` keep it in a file.

    Parameters
    ----------
    predictor : Predictor
        From features to log-odds.
    features : tuple of str
        The names of the features.
    threshold : float
        The precision at which putting a pair of records together pays off.
    calibration : (slope, intercept)
        Platt scaling: the score is the logistic function of slope · log-odds + intercept.
    statistics : Statistics, optional
        How rare words and names are; None for a model of precomputed features of pairs.
    report : dict
        How it was trained.
    columns : dict from field to column
        What fields are called in the file it was trained on, where they have other names.
    """

    predictor: Predictor
    features: tuple[str, ...]
    threshold: float = 0.5
    calibration: tuple[float, float] = (1.0, 0.0)
    statistics: Statistics | None = None
    report: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.predictor.kind

    def score(self, features: Matrix) -> Matrix:
        """Return the calibrated precision of each merge, between 0 and 1; one row of features each."""
        return self.predictor.scores(features, *self.calibration)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file."""
        about: dict[str, Any] = {
            "kind": self.kind,
            "features": list(self.features),
            "threshold": self.threshold,
            "calibration": list(self.calibration),
            "report": self.report,
            "columns": self.columns,
        }
        arrays = {f"predictor/{name}": value for name, value in self.predictor.arrays().items()}
        if self.statistics is not None:
            about["n_records"] = self.statistics.n_records
            arrays |= {"statistics/counts": self.statistics.counts, "statistics/topics": self.statistics.topics}
        container.write(path, KIND, about, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], features: Sequence[str] | None = None) -> Model:
        """Read a model from a file; nothing in the file is executed.

        ``features`` are those it must have been trained on (default for a model of records: those computed today).
        A file that is damaged, of another version or of other features raises ``ModelFileError``, a ValueError.
        """
        about, predictor, statistics = _read_model(path)
        if features is None and statistics is not None:
            features = FEATURES
        if features is not None and list(features) != about["features"]:
            raise _other_features(path, about["features"], features)
        slope, intercept = map(float, about["calibration"])
        # Models of 0.1.0 have none.
        threshold, report, columns = float(about["threshold"]), about["report"], about.get("columns", {})
        return cls(predictor, tuple(about["features"]), threshold, (slope, intercept), statistics, report, columns)


def _other_features(path: str | os.PathLike[str], found: Sequence[str], needed: Sequence[str]) -> ModelFileError:
    odd = sorted(set(found) ^ set(needed))
    difference = (
        f"they differ in {', '.join(f'{name!r:.40}' for name in odd[:5])}" if odd else "they come in another order"
    )
    return ModelFileError(
        f"{os.fspath(path)!r} was trained on {len(found)} features, and {len(needed)} are computed here; {difference}."
        " Train it again"
    )


class Groups(Protocol):
    """Summaries of groups, and the features of two of them: of records, or from precomputed features of pairs."""

    names: tuple[str, ...]

    def leaf(self, record: Any) -> Any: ...

    def merge(self, a: Any, b: Any) -> Any: ...

    def features(self, a: Any, others: Sequence[Any]) -> Matrix: ...


class CorefLinkage(Learned):
    """The precision that a model expects of merging two groups.

    Parameters
    ----------
    model : Model
        Trained by :func:`~grinch.resolve.authors.training.train`.
    groups : Groups, optional
        What is kept of a group (default:
        :class:`~grinch.resolve.authors.features.RecordFeatures` with the model's statistics). Every clustering
        needs an object of its own.

    Examples
    --------
    >>> from grinch.resolve.authors.kernels import PairFeatures
    >>> from grinch.resolve.authors.predictors import Logistic
    >>> near = PairFeatures(np.array([[0, 4], [4, 0]], float)[:, :, None], ["near"])
    >>> mean_of_near = Logistic(np.array([1.0, 0, 0, 0, 0]), np.array([-4.0]))
    >>> linkage = CorefLinkage(Model(mean_of_near, near.names), near)
    >>> linkage.score(linkage.leaf(0), linkage.leaf(1))
    0.5
    """

    def __init__(self, model: Model, groups: Groups | None = None):
        if groups is None:
            if model.statistics is None:
                raise ValueError("groups must be given for a model of precomputed features of pairs: PairFeatures(...)")
            groups = RecordFeatures(model.statistics)
        if groups.names != model.features:
            raise ValueError(
                f"groups must give the {len(model.features)} features that the model was trained on; they give"
                f" {len(groups.names)}: {', '.join(groups.names[:4])} …"
            )
        super().__init__(model.score, groups, groups.features)
