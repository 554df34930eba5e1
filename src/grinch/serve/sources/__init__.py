"""Where the trees come from that are looked at: stores, models, and files of other programs."""

from grinch.serve.sources.base import MOST_FOR_LAYERS, Layer, Place, Seen, Source, metric_of, sampled
from grinch.serve.sources.memory import MemorySource, all_text
from grinch.serve.sources.opening import is_run, open_source
from grinch.serve.sources.store import StoreSource

__all__ = [
    "MOST_FOR_LAYERS",
    "Layer",
    "MemorySource",
    "Place",
    "Seen",
    "Source",
    "StoreSource",
    "all_text",
    "is_run",
    "metric_of",
    "open_source",
    "sampled",
]
