"""Saved models with something wrong in them, and all checksums right."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from grinch.estimators.saved import KIND
from grinch.saving import container
from grinch.saving.state import flatten


class Parts(NamedTuple):
    """What the file of a model holds, free to be changed."""

    header: dict[str, Any]
    arrays: dict[str, Any]


def parts_of(model) -> Parts:
    header, arrays = flatten(model.to_state())
    return Parts(copy.deepcopy(header), {name: array.copy() for name, array in arrays.items()})


def written(path, parts: Parts) -> None:
    """Write parts as ``save`` does, whatever they are."""
    container.write(path, KIND, *parts)
