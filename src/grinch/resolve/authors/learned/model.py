"""A learned linkage as a thing to keep: a predictor, its calibration and threshold, in one file."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.resolve.authors.groups.statistics import Statistics
from grinch.resolve.authors.learned.predictors import PREDICTORS, Predictor

VERSION = 1
FORMAT = "grinch coref model"

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """How likely it is that two groups of records are one author's.

    Made by :func:`~grinch.resolve.authors.training.train`.

    Parameters
    ----------
    predictor : Predictor
        From features to log-odds.
    features : tuple of str
        What each feature is.
    threshold : float
        Groups that score at least this are one author's.
    calibration : (slope, intercept)
        Platt's: the score is the logistic function of slope · log-odds + intercept.
    statistics : Statistics, optional
        What is rare; None for a model of precomputed features of pairs.
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

    # One file -----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file: a zip of JSON and arrays. An unfinished file never takes its place."""
        about = {
            "format": FORMAT,
            "version": VERSION,
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
        path = Path(path)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("model.json", json.dumps(about, indent=1))
                for name, value in arrays.items():
                    buffer = io.BytesIO()
                    np.save(buffer, value, allow_pickle=False)
                    archive.writestr(f"{name}.npy", buffer.getvalue())
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str], features: Sequence[str] | None = None) -> Model:
        """Read a model back; nothing in the file is executed.

        ``features`` are those it must have been trained on; if not given, a model of records must have today's.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                about = json.loads(archive.read("model.json"))
                if not isinstance(about, dict) or about.get("format") != FORMAT:
                    raise ValueError("it says it is something else")
                if about.get("version") != VERSION:
                    raise OtherVersion(path, about.get("version"))
                arrays = {name[:-4]: _array(archive, name) for name in archive.namelist() if name.endswith(".npy")}
            return cls._of(about, arrays)._expecting(path, features)
        except (OtherVersion, OtherFeatures, FileNotFoundError, PermissionError, IsADirectoryError):
            raise
        except (zipfile.BadZipFile, EOFError, KeyError, OSError, TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"{os.fspath(path)!r} is not a whole model file ({type(error).__name__}: {error});"
                " save it again, or train the model again"
            ) from error

    @classmethod
    def _of(cls, about: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Model:
        if about["kind"] not in PREDICTORS:
            raise ValueError(f"kind {about['kind']!r} is none of {', '.join(PREDICTORS)}")
        parts = {name.split("/")[1]: value for name, value in arrays.items() if name.startswith("predictor/")}
        predictor = PREDICTORS[about["kind"]](**parts)
        if predictor.n_features != len(about["features"]):
            raise ValueError(f"{predictor.n_features} features are weighed and {len(about['features'])} are named")
        statistics = None
        if "n_records" in about:
            counts, topics = arrays["statistics/counts"], arrays["statistics/topics"]
            statistics = Statistics(int(about["n_records"]), counts, topics)
        slope, intercept = map(float, about["calibration"])
        return cls(
            predictor,
            tuple(about["features"]),
            float(about["threshold"]),
            (slope, intercept),
            statistics,
            about["report"],
        )

    def _expecting(self, path: str | os.PathLike[str], features: Sequence[str] | None) -> Model:
        if features is None and self.statistics is not None:
            from grinch.resolve.authors.groups.features import FEATURES as features
        if features is not None and tuple(features) != self.features:
            raise OtherFeatures(path, self.features, features)
        return self


class OtherVersion(ValueError):
    """A model file of another version of grinch."""

    def __init__(self, path: str | os.PathLike[str], version: object):
        super().__init__(
            f"{os.fspath(path)!r} is a model of version {version!r}, and this grinch reads version {VERSION};"
            " train it again, or use the grinch it was trained with"
        )


class OtherFeatures(ValueError):
    """A model trained on other features."""

    def __init__(self, path: str | os.PathLike[str], received: Sequence[str], accepted: Sequence[str]):
        odd = sorted(set(received) ^ set(accepted))
        told = f"; they differ in {', '.join(odd[:5])}" if odd else "; they come in another order"
        super().__init__(
            f"{os.fspath(path)!r} was trained on {len(received)} features, and {len(accepted)} are computed here{told}."
            " Train it again"
        )


def _array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    return np.asarray(np.load(io.BytesIO(archive.read(name)), allow_pickle=False))
