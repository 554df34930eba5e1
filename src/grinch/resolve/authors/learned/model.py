"""A trained model: a predictor with its calibration, its threshold and what it knows of rare words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.resolve.authors.groups.features import FEATURES
from grinch.resolve.authors.groups.statistics import Statistics
from grinch.resolve.authors.learned.model_file import ModelFileError, read_model, write_model
from grinch.resolve.authors.learned.predictors import Predictor

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
