"""Records of any kind, pickled piece by piece into one file."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from grinch.files.write import replacing
from grinch.sharded.inputs.rows import PIECE_BYTES, Pieces, by_piece

# So many of the first records say how large one is.
SAMPLED = 100
MOST_RECORDS = 100_000


@dataclass(frozen=True)
class RecordRows:
    """Records in a file of pickles, one for each piece."""

    path: str
    pieces: Pieces
    offsets: tuple[int, ...]
    stamp: str
    n_features: int = 0

    @property
    def n_rows(self) -> int:
        """The number of records."""
        return self.pieces[-1][1]

    def read(self, piece: int) -> list[Any]:
        """The records of a piece."""
        with open(self.path, "rb") as file:
            file.seek(self.offsets[piece])
            return list(pickle.load(file))

    def take(self, rows: npt.NDArray[np.int64]) -> list[Any]:
        """These records, in ascending order."""

        def some(piece: int, inside: npt.NDArray[np.int64]) -> list[Any]:
            records = self.read(piece)
            return [records[position] for position in inside.tolist()]

        return [record for part in by_piece(self.pieces, rows, some) for record in part]


def record_rows(records: list[Any], folder: Path) -> RecordRows:
    """Records in a file that has their digest for a name."""
    stamp = _digest(records)
    path, index = folder / f"{stamp}.pickles", folder / f"{stamp}.json"
    if not (path.exists() and index.exists()):
        offsets, step = [0], _records_per_piece(records)
        with replacing(path, "wb") as file:
            for start in range(0, len(records), step):
                offsets.append(offsets[-1] + file.write(_pickled(records[start : start + step], start)))
        with replacing(index) as text:
            text.write(json.dumps({"step": step, "offsets": offsets[:-1]}))
    kept = json.loads(index.read_text(encoding="utf-8"))
    pieces = [(start, min(start + kept["step"], len(records))) for start in range(0, len(records), kept["step"])]
    return RecordRows(str(path.resolve()), pieces, tuple(kept["offsets"]), stamp)


def _records_per_piece(records: list[Any]) -> int:
    size = len(_pickled(records[:SAMPLED])) / min(len(records), SAMPLED)
    return max(1, min(MOST_RECORDS, int(PIECE_BYTES / size)))


def _pickled(records: list[Any], first: int = 0) -> bytes:
    """Classes of a script or a notebook go along by what they are, since workers cannot import them."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(records)
    try:
        return bytes(cloudpickle.dumps(records))
    except (TypeError, AttributeError, pickle.PicklingError):
        _refuse(records, first)


def _refuse(records: list[Any], first: int) -> NoReturn:
    import cloudpickle

    for position, record in enumerate(records, first):
        try:
            cloudpickle.dumps(record)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ValueError(
                f"X must hold records that can be pickled to go to workers; number {position}, a"
                f" {type(record).__name__}, cannot: {error}"
            ) from None
    raise ValueError("X must hold records that can be pickled to go to workers; together they cannot")


def _digest(records: list[Any]) -> str:
    found = hashlib.blake2b(str(len(records)).encode(), digest_size=16)
    for content in _contents(records):
        found.update(hashlib.blake2b(content, digest_size=16).digest())
    return found.hexdigest()


def _contents(records: list[Any]) -> Iterator[bytes]:
    """The same bytes for the same record, in every process: not so of pickles, where sets are in any order."""
    for position, record in enumerate(records):
        try:
            yield json.dumps(record, sort_keys=True).encode()
        except (TypeError, ValueError, RecursionError):
            yield _pickled([record], position)
