"""Models in files. A file is checked field by field, and nothing in it is executed.

A file may come from anywhere, so sizes are checked before anything is read, and only what belongs in a model is read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from grinch.errors import SavedModelError
from grinch.linkage import Learned
from grinch.resolve.authors.features import FEATURES, N_SLOTS, N_TOPIC_SLOTS, RecordFeatures, Statistics
from grinch.resolve.authors.predictors import PREDICTORS, Predictor
from grinch.saving import container

KIND = "coreference model"
# Bytes of a file. The largest array that training makes has 2 MB.
MOST_BYTES = 1 << 25
MOST_TOPICS = 256
STATISTICS = ("counts", "topics")

Arrays = dict[str, npt.NDArray[Any]]


class ModelFileError(SavedModelError):
    """A file that cannot be used as a model: it is damaged, made by another version, or something else."""


class _Flaw(ValueError):
    """A field of a file, and what is wrong with it."""

    def __init__(self, field: str, complaint: str):
        super().__init__(f"{field} {complaint}")


def write_model(path: str | os.PathLike[str], about: Mapping[str, Any], arrays: Arrays) -> None:
    """Write what a model consists of; an incomplete file never takes the place of ``path``."""
    container.write(path, KIND, about, arrays)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Predictor, Statistics | None]:
    """What a file says about a model, its predictor, and its statistics if it is a model of records."""
    try:
        size = os.stat(path).st_size
        if size > MOST_BYTES:
            raise _Flaw("the file", f"must have at most {MOST_BYTES:,} bytes; it has {size:,}")
        file = container.read(path, KIND)
        file.verify()
        _check(file.header)
        return file.header, *_parts(file.arrays, file.header)
    except container.OldFormat:
        raise
    except (SavedModelError, ValueError) as error:
        raise ModelFileError(
            f"{os.fspath(path)!r} is not a complete model file: {error}. Copy it again, or train the model again"
        ) from error


# Fields of the header ---------------------------------------------------------------------------------------------


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


def _parts(arrays: Arrays, about: dict[str, Any]) -> tuple[Predictor, Statistics | None]:
    predictor_class = PREDICTORS[about["kind"]]
    expected = [f"predictor/{part}" for part in predictor_class.PARTS]
    if "n_records" in about:
        expected += [f"statistics/{part}" for part in STATISTICS]
    odd = sorted(set(arrays) ^ set(expected))
    if odd:
        raise _Flaw(f"{odd[0]!r:.60}", "is missing" if odd[0] in expected else "does not belong in a model")
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
    """

    predictor: Predictor
    features: tuple[str, ...]
    threshold: float = 0.5
    calibration: tuple[float, float] = (1.0, 0.0)
    statistics: Statistics | None = None
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.predictor.kind

    def score(self, features: Matrix) -> Matrix:
        """The calibrated precision of each merge, between 0 and 1; one row of features each."""
        return self.predictor.scores(features, *self.calibration)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file."""
        about: dict[str, Any] = {
            "kind": self.kind,
            "features": list(self.features),
            "threshold": self.threshold,
            "calibration": list(self.calibration),
            "report": self.report,
        }
        arrays = {f"predictor/{name}": value for name, value in self.predictor.arrays().items()}
        if self.statistics is not None:
            about["n_records"] = self.statistics.n_records
            arrays |= {"statistics/counts": self.statistics.counts, "statistics/topics": self.statistics.topics}
        write_model(path, about, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], features: Sequence[str] | None = None) -> Model:
        """Read a model from a file; nothing in the file is executed.

        ``features`` are those it must have been trained on (default for a model of records: those computed today).
        A file that is damaged, of another version or of other features raises ``ModelFileError``, a ValueError.
        """
        about, predictor, statistics = read_model(path)
        if features is None and statistics is not None:
            features = FEATURES
        if features is not None and list(features) != about["features"]:
            raise _other_features(path, about["features"], features)
        slope, intercept = map(float, about["calibration"])
        threshold, report = float(about["threshold"]), about["report"]
        return cls(predictor, tuple(about["features"]), threshold, (slope, intercept), statistics, report)


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
