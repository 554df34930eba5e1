"""Demonstrations on data that every machine has: handwritten digits, and the docstrings of packages."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from grinch import Grinch
from grinch.cli.app import Out, app, console, make_folder
from grinch.cli.fitting import fit_points
from grinch.cli.report import print_branches, report
from grinch.cli.results import write_results
from grinch.cli.texts import named_branches
from grinch.io.read import Points
from grinch.metrics import dendrogram_purity
from grinch.store.inputs import TEXT_FILE
from grinch.tree import Tree


@app.command(short_help="Cluster digits, or docstrings (--text), to see that all works.")
def demo(
    out: Out = Path("grinch-out"),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the arrival order.")] = 0,
    text: Annotated[
        bool, typer.Option("--text", help="Cluster the docstrings of the scientific packages that are installed.")
    ] = False,
) -> None:
    """Cluster the handwritten digits that come with scikit-learn, and HAC beside it, to see that all works.

    With --text, cluster what the functions and classes of NumPy, SciPy, scikit-learn, Matplotlib, pandas and networkx
    say of themselves (of those that are installed), some 8,000 texts, and name the branches by keywords.
    """
    make_folder(out)
    if text:
        _docstrings(out, seed)
    else:
        _digits(out, seed)


def _digits(out: Path, seed: int) -> None:
    from scipy.cluster.hierarchy import linkage
    from sklearn.datasets import load_digits

    vectors, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(vectors))
    points = Points(vectors[order], None, digits[order])
    console.print(
        f"The handwritten digits of scikit-learn: {len(vectors):,} images of 8 x 8 pixels, in random order.\n"
        "Average linkage of squared Euclidean distances.\n"
    )
    model = Grinch(verbose=True)
    seconds = fit_points(model, points)
    start = time.perf_counter()
    hac = Tree.from_scipy(linkage(points.vectors, "average", metric="sqeuclidean"))
    hac_seconds = time.perf_counter() - start
    purities = [_shuffled_purity(vectors, digits, other) for other in range(5)]
    beside = {
        "grinch, mean of 5 orders": (seconds, float(np.mean(purities))),
        "HAC, all at once (scipy)": (hac_seconds, dendrogram_purity(hac, digits[order])),
    }
    flat = model.labels_
    report("grinch", model, flat, points, seconds, beside)
    write_results(model, flat, points, seconds, out, picture=True)


def _shuffled_purity(vectors: Any, labels: Any, seed: int) -> float:
    return dendrogram_purity(Grinch(shuffle=True, random_state=seed).fit(vectors).tree_, labels)


def _docstrings(out: Path, seed: int) -> None:
    from grinch.datasets.docstrings import load_docstrings
    from grinch.text import TextVectors

    console.print("Reading the sources of the scientific packages that are installed …")
    found = load_docstrings()
    order = np.random.default_rng(seed).permutation(len(found.texts)).tolist()
    texts = [found.texts[i] for i in order]
    made_by = TextVectors()
    points = Points(
        made_by.fit_transform(texts),
        np.array([found.names[i] for i in order], object),
        np.array([found.packages[i] for i in order], object),
        {"text": texts},
    )
    console.print(
        f"{len(texts):,} docstrings of {', '.join(sorted(set(found.packages)))}, in random order;"
        f" {points.vectors.shape[1]:,} words. Average linkage under cosine similarity of TF-IDF.\n"
    )
    model = Grinch(metric="cosine", verbose=True)
    seconds = fit_points(model, points)
    flat = model.labels_
    report("grinch", model, flat, points, seconds, {})
    branches = named_branches(model.tree_, flat, points, made_by)
    print_branches(branches)
    made_by.save(out / TEXT_FILE)
    write_results(model, flat, points, seconds, out, picture=True, branches=branches)
