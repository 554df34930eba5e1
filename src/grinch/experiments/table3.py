"""Table 3 of the paper: author coreference under a learned linkage."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from grinch.coref.clustering import cluster_block
from grinch.coref.evaluation import evaluate, one_per_block, one_per_name
from grinch.coref.model import Model
from grinch.coref.pairs import PairFeatures
from grinch.coref.records import Record
from grinch.coref.rehearsal import Block
from grinch.coref.training import train, train_blocks

FILES = {
    "psu-dblp": "psu_dblp_han/psu_dblp_han.jsonl.gz",
    "qian-dblp": "qian_dblp/qian_dblp.jsonl.gz",
    "dblp-people": "dblp_people/dblp_people.jsonl.xz",
}
REXA = "rexa_pairs/rexa_pairs.npz"
# F1 in the paper.
PAPER = {
    "psu-dblp": {
        "grinch": 0.701,
        "rotate": 0.678,
        "online": 0.255,
        "mb-hac-med": 0.461,
        "mb-hac-sm": 0.247,
        "hac": 0.664,
    },
    "rexa": {"grinch": 0.844, "rotate": 0.734, "online": 0.331, "mb-hac-med": 0.843, "mb-hac-sm": 0.483, "hac": 0.844},
}
# The paper does not say how large its buffers are: a half and a tenth of the block here.
METHODS: dict[str, Callable[[int], dict[str, Any]]] = {
    "grinch": lambda n: {"method": "grinch"},
    "rotate": lambda n: {"method": "rotate"},
    "online": lambda n: {"method": "online"},
    "mb-hac-med": lambda n: {"method": "mb-hac", "buffer_size": max(n // 2, 2)},
    "mb-hac-sm": lambda n: {"method": "mb-hac", "buffer_size": max(n // 10, 2)},
    "hac": lambda n: {"method": "hac"},
}


def run(folder: str | os.PathLike[str] | None = None, quick: bool = False, names: Any = None) -> dict[str, Any]:
    """F1 of every method on every set, on names that were not trained on: mean and deviation over splits and shuffles.

    ``folder`` holds the data (default: the environment variable GRINCH_DATA); sets that are not there are left out.
    """
    where = folder or os.environ.get("GRINCH_DATA")
    if where is None:
        raise ValueError("folder must name the folder with the data sets; got None, and GRINCH_DATA is not set either")
    results: dict[str, Any] = {}
    for name in names or (*FILES, "rexa"):
        path = Path(where) / (REXA if name == "rexa" else FILES[name])
        if path.exists():
            results[name] = _rexa(path, quick) if name == "rexa" else _records(path, quick)
    return results


def table(results: dict[str, Any]) -> str:
    """The results as text, with the paper's beside ours."""
    lines = []
    for name, found in results.items():
        lines += [f"{name}: {found['n_test']} records of held-out names in a split, {found['n_splits']} splits"]
        lines += [f"  {'':<14}{'P':>6}{'R':>7}{'F1':>7}{'±':>7}{'macro':>7}{'B3':>7}{'s':>8}{'paper':>8}"]
        for method, row in found["methods"].items():
            paper = PAPER.get(name, {}).get(method)
            lines += [
                f"  {method:<14}{row['precision']:>6.3f}{row['recall']:>7.3f}{row['f1']:>7.3f}{row['deviation']:>7.3f}"
                f"{row['macro']:>7.3f}{row['bcubed']:>7.3f}{row['seconds']:>8.2f}{'' if paper is None else paper:>8}"
            ]
    return "\n".join(lines)


def read_blocks(path: Path) -> dict[str, list[Record]]:
    """The labelled records of a file, by block."""
    blocks: dict[str, list[Record]] = defaultdict(list)
    opened = lzma.open if path.suffix == ".xz" else gzip.open
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            blocks[row["block"]].append(
                Record(
                    id=str(row["mention_id"]),
                    name=row.get("author_name") or row["block"],
                    title=row["title"] or "",
                    coauthors=tuple(row["coauthors"]),
                    venue=row["venue"] or "",
                    year=int(row["year"]) if row.get("year") else None,
                    affiliation=row.get("author_org") or "",
                    abstract=row.get("abstract") or " ".join(row.get("abstract_words") or ()),
                    keywords=tuple(row.get("keywords") or row.get("study_fields") or ()),
                    author=row["label"],
                    block=row["block"],
                )
            )
    return dict(blocks)


def _records(path: Path, quick: bool) -> dict[str, Any]:
    blocks = {name: records for name, records in read_blocks(path).items() if len(records) > 1}
    everything = [record for records in blocks.values() for record in records]
    tally = _Tally()
    for split in range(1 if quick else 2):
        names = np.random.default_rng(split).permutation(sorted(blocks)).tolist()
        # Of many names some are enough, and keep a run within minutes.
        names = names[: 40 if quick else 120]
        model = train({name: blocks[name] for name in names[::2]}, random_state=split, unlabelled=everything)
        for shuffle in range(2 if quick else 5):
            tally.add(model, {name: (blocks[name], None) for name in names[1::2]}, shuffle)
    return tally.told(1 if quick else 2)


def _rexa(path: Path, quick: bool) -> dict[str, Any]:
    """Two or three of seven names held out in turn."""
    with np.load(path, allow_pickle=False) as data:
        names = sorted({key.split("__")[0] for key in data if key.endswith("__feat")})
        parts = {name: [data[f"{name}__{part}"] for part in ("gt", "pairs", "feat")] for name in names}
    groups = {name: PairFeatures.of_list(pairs, feat, len(true)) for name, (true, pairs, feat) in parts.items()}
    blocks = {
        name: Block(list(range(len(parts[name][0]))), parts[name][0].astype(np.int64), partial(_same, groups[name]))
        for name in names
    }
    tally, n_splits = _Tally(), 1 if quick else 3
    for split in range(n_splits):
        test = names[split::3]
        model = train_blocks({name: blocks[name] for name in names if name not in test}, random_state=split)
        for shuffle in range(2 if quick else 5):
            tally.add(model, {name: (blocks[name].records, blocks[name]) for name in test}, shuffle)
    return tally.told(n_splits)


def _same(groups: PairFeatures) -> PairFeatures:
    return groups


class _Tally:
    def __init__(self) -> None:
        self.rows: dict[str, list[list[float]]] = defaultdict(list)
        self.n_test: list[int] = []

    def add(self, model: Model, blocks: dict[str, tuple[list[Any], Block | None]], shuffle: int) -> None:
        """All methods on all blocks, in one random order of the records."""
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        seconds: dict[str, float] = defaultdict(float)
        for name, (records, block) in blocks.items():
            order = np.random.default_rng(shuffle).permutation(len(records))
            shuffled = [records[i] for i in order]
            true = [r.author for r in shuffled] if block is None else block.authors[order].tolist()
            for method, settings in METHODS.items():
                groups = None if block is None else block.new_groups()
                began = time.process_time()
                result = cluster_block(shuffled, model, groups=groups, n_close_calls=0, **settings(len(records)))
                seconds[method] += time.process_time() - began
                found[method][name] = true, list(result.authors.values())
            found["one-per-block"][name] = true, one_per_block(shuffled)
            if block is None:
                found["one-per-name"][name] = true, one_per_name(shuffled)
        for method, by_block in found.items():
            told = evaluate(by_block)
            row = [*told.pairwise, told.pairwise_macro.f1, told.bcubed.f1, seconds[method]]
            self.rows[method].append(row)
        self.n_test.append(sum(len(records) for records, _ in blocks.values()))

    def told(self, n_splits: int) -> dict[str, Any]:
        methods = {}
        for method, rows in self.rows.items():
            precision, recall, f1, macro, cubed, seconds = np.mean(rows, axis=0).tolist()
            # Of the shuffles; splits differ by their names, not by what the method does.
            by_split = np.array([row[2] for row in rows]).reshape(n_splits, -1)
            methods[method] = {
                "precision": precision,
                "recall": recall,
                "f1": f1,
                "deviation": float(by_split.std(axis=1).mean()),
                "macro": macro,
                "bcubed": cubed,
                "seconds": seconds,
                "f1_by_split": by_split.mean(axis=1).tolist(),
            }
        return {"methods": methods, "n_test": int(np.mean(self.n_test)), "n_splits": n_splits}
