"""The orders in which points can arrive."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch._checks import check_name
from grinch._labels import label_codes

ORDERS = ("random", "sorted", "round-robin")


def arrival(labels: npt.ArrayLike, order: str = "random", random_state: int | None = 0) -> npt.NDArray[np.int64]:
    """Return the positions of all points in an order of arrival, as in the paper's experiment on robustness.

    ``sorted`` is class after class, ``round-robin`` one point of each class in turn; a class that has run out is
    skipped. The order of the classes, and of the points within each, is random.

    >>> labels = np.array(["a", "a", "a", "b", "b", "c"])
    >>> "".join(labels[arrival(labels, "sorted")])
    'aaabbc'
    >>> "".join(labels[arrival(labels, "round-robin")])
    'abcaba'
    """
    check_name("order", order, ORDERS)
    values = np.asarray(labels)
    if values.ndim != 1:
        raise ValueError(f"labels must be a list with one class for each point; got shape {values.shape}")
    rng = np.random.default_rng(random_state)
    shuffled = rng.permutation(len(values))
    if order == "random":
        return shuffled
    codes = label_codes(values.astype(str) if values.dtype == object else values)
    # Points without a class make one more.
    codes[codes < 0] = codes.max(initial=-1) + 1
    n_classes = int(codes.max(initial=-1)) + 1
    places = rng.permutation(n_classes)[codes[shuffled]]
    by_class = np.argsort(places, kind="stable")
    if order == "sorted":
        return shuffled[by_class]
    # The turn of a point is how many of its class come before it.
    sizes = np.bincount(places, minlength=n_classes)
    turns = np.arange(len(values)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return shuffled[by_class][np.argsort(turns, kind="stable")]
