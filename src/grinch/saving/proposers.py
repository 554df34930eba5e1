"""Where candidates of records come from, as it is kept in a saved model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from grinch.errors import NotSavable, SavedModelError
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.neighbors.sources import ByVector, _NearVectors, _SharedKeys
from grinch.saving.schema import Source, Taken, entry, put_fields, take_fields
from grinch.saving.texts import keep_value, read_value


def take_proposer(
    proposer: Any, number: int, out: Taken, prefix: str, take_summaries: Callable[..., Any], take_search: Any
) -> dict[str, Any]:
    if isinstance(proposer, _NearVectors):
        found = take_fields("near_vectors", proposer, out, prefix)
        found["source"] = _take_source(proposer.source, number)
        if proposer.summaries is None:
            return found | {"summaries": None, "search": None}
        found["summaries"] = take_summaries(proposer.summaries, None, out, f"{prefix}.summaries")
        found["search"] = take_search(proposer.search, out, f"{prefix}.search")
        return found
    if isinstance(proposer, _SharedKeys):
        found = take_fields("shared_keys", proposer, out, prefix)
        found["source"] = {"given": number}
        found["of_record"] = keep_value(out, f"{prefix}.of_record", proposer.of_record, "the keys of a record")
        of_key = [[key, positions] for key, positions in proposer.of_key.items()]
        found["of_key"] = keep_value(out, f"{prefix}.of_key", of_key, "the keys of a record")
        return found
    kind = type(proposer)
    raise NotSavable(
        f"search proposes candidates by {kind.__module__}.{kind.__qualname__}, which cannot be written to a file."
        " ByVector and ByKey can"
    )


def put_proposer(data: Any, source: Source, sources: list[Any], put_summaries: Any, put_search: Any) -> Any:
    if entry(data, "part") == "near_vectors":
        near: _NearVectors = put_fields("near_vectors", data, source)
        near.source = _put_source(entry(data, "source"), sources, ByVector)
        near.coming, near.summaries, near.search = np.empty((0, 0)), None, None
        if data.get("summaries") is not None:
            linkage = VECTOR_LINKAGES["average"][near.source.metric]
            near.summaries = put_summaries(data["summaries"], source, linkage)
            near.search = put_search(entry(data, "search"), source, near.summaries, [])
        return near
    keys: _SharedKeys = put_fields("shared_keys", data, source)
    keys.source = _put_source(entry(data, "source"), sources, None)
    keys.of_record = read_value(entry(data, "of_record"), source)
    keys.of_key = defaultdict(list)
    keys.of_key.update(dict(read_value(entry(data, "of_key"), source)))
    return keys


def _take_source(source: ByVector, number: int) -> dict[str, Any]:
    """Which source of the user's it is; or the one that stands for a distance of vectors."""
    if source.embed is np.stack:
        return {"n": int(source.n), "metric": source.metric, "index": bool(source.index)}
    return {"given": number}


def _put_source(data: Any, sources: list[Any], kind: type | None) -> Any:
    if isinstance(data, dict) and "given" in data:
        number = data["given"]
        if type(number) is not int or not 0 <= number < len(sources):
            raise SavedModelError(f"there is no source of candidates number {number!r}")
        return sources[number]
    if kind is not ByVector:
        raise SavedModelError(f"{data!r:.60} is no source of candidates")
    return ByVector(np.stack, n=entry(data, "n"), metric=entry(data, "metric"), index=entry(data, "index"))
