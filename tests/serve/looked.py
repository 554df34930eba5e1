"""Things to look at: scenes of random trees, points with payloads, and viewers that see the latest at once."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import linkage

from grinch import Grinch, Tree
from grinch.serve.background import Computing
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views.icicle import unpack_arrays
from grinch.serve.views.scene import Scene
from grinch.serve.views.viewer import Viewer
from grinch.store.queries import Look

WORDS = (("rain", "storm"), ("goal", "match"), ("vote", "party"), ("stock", "market"))


def points(n: int, seed: int = 0, n_features: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Points around four centres that are the same for every seed, and their classes."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(4, n_features)) * 4
    classes = rng.integers(4, size=n)
    return (centres[classes] + rng.normal(size=(n, n_features))).astype(np.float32), classes


def news(n: int, seed: int = 0) -> tuple[np.ndarray, list[dict[str, object]]]:
    """Points with a title that has the words of their class, and the class as a label."""
    X, classes = points(n, seed)
    payload = [
        {"title": f"{WORDS[c][i % 2]} report item{seed}x{i}", "label": WORDS[c][0]} for i, c in enumerate(classes)
    ]
    return X, payload


def tree_of(n: int, seed: int = 0) -> Tree:
    """A tree that knows its heights."""
    X, _ = points(n, seed)
    return Tree.from_scipy(linkage(X, "average"))


def chain(n: int) -> Tree:
    """A tree in which every point joins all that came before it."""
    pairs = np.column_stack([np.arange(n, 2 * n - 1) - 1, np.arange(1, n)])
    pairs[0, 0] = 0
    return Tree.from_merges(pairs, -np.arange(1.0, n), ceiling=0.0)


def viewer_on(X, *, payload=None, labels=None, **settings) -> Viewer:
    """A viewer on a model of these points."""
    return Viewer(ModelBackend(Grinch(**settings).fit(X), payload=payload), labels=labels)


def map_of(viewer: Viewer, method: str | None = None) -> bytes:
    """The map, once it is computed."""
    while True:
        try:
            return viewer.map(method)
        except Computing:
            continue


def scene_of(tree: Tree, *, arrived=None, times=None, labels=None, **cuts) -> Scene:
    leaves = np.arange(tree.n_leaves)
    names = None if labels is None else [f"class {i}" for i in range(max(labels) + 1)]
    look = Look(1, tree, leaves, leaves if arrived is None else arrived, times, cuts, {})
    return Scene(look, None if labels is None else np.asarray(labels), names)


def now(viewer: Viewer) -> Viewer:
    """The viewer, showing what is there by now, however long the last picture took."""
    viewer.refresh(now=True)
    return viewer


def view(viewer: Viewer, **asked):
    """The header and the arrays of the blocks in view."""
    return unpack_arrays(viewer.view(**asked))


def labels_of_cut(scene: Scene, cut) -> np.ndarray:
    """By leaf, the cluster of a cut."""
    found = cut.at(scene.place)
    return np.where(found < 0, -1, np.append(cut.clusters, -1)[found])


def groups_of(labels) -> set[frozenset[int]]:
    """The clusters, whatever their numbers; points with -1 are in none."""
    values = np.asarray(labels)
    return {frozenset(np.flatnonzero(values == label).tolist()) for label in set(values.tolist()) if label >= 0}
