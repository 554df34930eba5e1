"""The figures on the pages: everything between two comments is filled in from the files that the benchmarks wrote.

    <!-- figures: speed -->
    what is here is replaced
    <!-- end of figures -->

By itself: python benchmarks/fill.py (page.py does it too)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev

import claims
import experiment_tables
import sets
import sharded_tables
import sparse_tables
import system_tables
from tables import seconds, share, size, table
from written import FILES_READ, code_of, read

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
END = "<!-- end of figures -->"
MARKED = re.compile(rf"<!-- figures: ([\w-]+)[^>]*-->\n.*?{END}", flags=re.S)
# The last section of a page with figures, which says what code wrote them.
CODE_OF_PAGE = "code"

Rows = Mapping[str, Mapping[str, float]]


# From results.json --------------------------------------------------------------------------------------------------

BESIDE = {
    "grinch": "**grinch**",
    "grinch, refined once": "**grinch, refined once**",
    "HAC": "HAC",
    "MB-HAC, 2,000": "MB-HAC, a buffer of 2,000",
    "BIRCH": "BIRCH",
    "PERCH": "PERCH",
    "SCC": "SCC",
}


def speed() -> str:
    sizes = read("results.json")["systems"]
    cells = []
    for name, title in BESIDE.items():
        found = [rows.get(name) for rows in sizes.values()]
        cells.append([title, *(f"{seconds(r['seconds'])}, {share(r['purity'])}" if r else "–" for r in found)])
    return table(["", *(f"{int(n):,} points" for n in sizes)], cells)


def speed_notes() -> str:
    results = read("results.json")
    hac, n = results["systems"]["20000"]["HAC"], "100000"
    grinch, changes = results["systems"][n]["grinch"], results["changes"]
    return (
        f"HAC takes {hac['memory'] / 1e9:.1f} GB at 20,000 points and does not fit in memory beyond. At 100,000 points"
        f" grinch takes {grinch['memory'] / 1e6:.0f} MB besides the points, and 1,000 points are inserted in"
        f" {changes['insert']:.2f} s and removed in {changes['remove']:.2f} s. The first fit compiles for some"
        f" {results['start_up']['cold_compile_s']:.0f} s, once."
        + " PERCH and SCC were timed later, on a busy machine: their times are overstated."
        * ("perch" in results.get("measured_later", ()))
        + "\n"
    )


def targets() -> str:
    rows = read("results.json")["targets"]
    return table(
        ["", "measured", "limit", "met"],
        (
            [name, f"{row['value']:.3g}", f"{row['limit']:g}", "yes" if row["met"] else "**no**"]
            for name, row in rows.items()
        ),
    )


def tree_part() -> str:
    stages = ("rotate", "graft", "restructure", "upkeep", "rest")
    cells = []
    for n, rows in read("results.json")["tree_part"].items():
        for name, row in rows.items():
            parts = [f"{row['us_' + stage]:.1f}" for stage in stages]
            counts = [f"{row['scores_per_insert']:.0f}", f"{row['merges_per_insert']:.0f}"]
            cells.append([f"{int(n):,}, {name}", f"{row['us_per_insert']:.1f}", *parts, *counts])
    return table(["points, settings", "total", *stages, "scores", "merges"], cells)


# From search.json ---------------------------------------------------------------------------------------------------

SEARCHES = {"exact": "exact", "cells": "cells", "faiss": "faiss, IVF", "usearch": "usearch, HNSW"}


def _mixtures(show: Callable[[Mapping[str, float]], str], names: Sequence[str]) -> str:
    """A row for every size of the mixture that these searches were measured on."""
    results = read("search.json")
    sizes = sorted({(int(key.split(", ")[2]), int(key.split(", ")[1])) for key in results if key.startswith("mixture")})
    rows = []
    for d, n in sizes:
        found = [results.get(f"mixture, {n}, {d}, {name}") for name in names]
        rows.append([f"{n:,} × {d}", *(show(row) if row else "–" for row in found)])
    return table(["points × dimensions", *(SEARCHES[name] for name in names)], rows)


def search_mixture() -> str:
    return _mixtures(_search_and_purity, list(SEARCHES))


def search_stalls() -> str:
    return _mixtures(lambda row: f"{row['longest_entry_ms']:,.0f} ms", ["cells", "faiss", "usearch"])


def search_recall() -> str:
    return _mixtures(lambda row: share(row["recall"]), ["cells", "faiss", "usearch"])


def search_settings() -> str:
    rows = {key.removeprefix("settings, "): row for key, row in read("search.json").items() if key[:9] == "settings,"}
    return table(
        ["", "CPU per point", "recall", "purity"],
        (
            [name, f"{row['search_us']:.0f} µs", share(row["recall"]), share(row["purity"])]
            for name, row in rows.items()
        ),
    )


def search_nsw() -> str:
    rows = []
    for key, row in read("nsw.json").items():
        kind, n = key.split(", ")[:2]
        if kind != "tree":
            calls = f"{row['calls']:,.0f}, {row['calls_at_end']:,.0f}"
            rows.append([f"{kind}, {int(n):,}", share(row["recall"]), calls, f"{row['us']:,.0f} µs"])
    return table(["points", "recall of 25", "calls of f per insert: mean, last 500", "CPU per insert"], rows)


def search_nsw_trees() -> str:
    rows = []
    for key, row in read("nsw.json").items():
        if key.startswith("tree"):
            _, data, n, search = key.split(", ")
            pairs = int(n) * (int(n) - 1) / 2
            calls = [f"{row['calls'] / 1e6:,.1f} million", share(row["calls"] / pairs)]
            rows.append([f'{data}, {int(n):,}, `search="{search}"`', *calls, share(row["purity"])])
    return table(["strings", "calls", "share of all pairs", "purity"], rows)


def search_real() -> str:
    results = read("search.json")
    real = [key.split(", ") for key in results if not key.startswith(("mixture", "settings"))]
    rows = []
    for name, n in dict.fromkeys((key[0], int(key[1])) for key in real):
        found = [results.get(f"{name}, {n}, {search}") for search in SEARCHES]
        rows.append([f"{name}, {n:,}", *(_search_and_purity(row) if row else "–" for row in found)])
    return table(["", *SEARCHES.values()], rows)


def _search_and_purity(row: Mapping[str, float]) -> str:
    return f"{row['search_us']:,.0f} µs, {share(row['purity'])}"


# From scale.json ----------------------------------------------------------------------------------------------------


def scale_tree() -> str:
    rows = read("scale.json")["tree_part"]
    header = ["points", "tree part", "scores", "merges", "search, CPU per point", "purity"]
    cells = (
        [
            f"{int(n):,}",
            f"{row['us_per_insert']:.1f} µs",
            f"{row['scores_per_insert']:.0f}",
            f"{row['merges_per_insert']:.0f}",
            f"{row['search_cpu_us_per_point']:.0f} µs",
            share(row["purity"]),
        ]
        for n, row in rows.items()
    )
    return table(header, cells)


def scale_fit() -> str:
    found = read("scale.json")
    rows = {f"{int(n):,} × 64": row for n, row in found["fit"].items()}
    if "five" in found:
        rows["5,000,000 × 32, from a memory map"] = found["five"][""]
    cells = (
        [name, seconds(row["seconds"]), seconds(row["cpu_seconds"]), f"{row['memory']:.2f}", share(row["purity"])]
        for name, row in rows.items()
    )
    return table(["points", "seconds", "CPU seconds", "memory / points", "purity"], cells)


def scale_after() -> str:
    found = read("scale.json").get("after", {}).get("100000", {})
    cells = (
        [name, seconds(row["seconds"]), seconds(row["cpu_seconds"]), share(row["ari"]) if "ari" in row else ""]
        for name, row in found.items()
    )
    return table(["", "seconds", "CPU seconds", "adjusted Rand"], cells)


def scale_single() -> str:
    found = read("scale.json")
    rows = dict(found["single"]["100000"])
    rows["partial_fit, 100,000 in a row"] = found["stream"]["100000"]["partial_fit"]
    window = found["window"]["100000"]
    rows |= {f"window: {name}": window[name] for name in ("partial_fit", "remove")}
    cells = ([f"`{n}`", *(f"{row[part]:.2f}" for part in ("p50", "p99", "longest"))] for n, row in rows.items())
    megabytes = ", ".join(f"{mb:.0f}" for mb in window["megabytes"].values())
    return (
        table(["", "p50", "p99", "longest"], cells) + f"\nMemory of the window's process on the way, MB: {megabytes}.\n"
    )


def scale_peers() -> str:
    cells = []
    for name, row in read("scale.json")["peers"].items():
        if "error" not in row:
            purity = share(row["purity"]) if "purity" in row else "–"
            cells.append([name, seconds(row["seconds"]), purity, share(row["ari"]), f"{row['clusters']:,}"])
    return table(["", "seconds", "purity of the tree", "adjusted Rand index", "clusters"], cells)


# From before.json ---------------------------------------------------------------------------------------------------

SINCE = {
    ("linkages", "object"): ("points per second, a linkage object with merge and scores", "{:,.0f}"),
    ("linkages", "function"): ("points per second, a plain function", "{:,.0f}"),
    ("linkages", "compiled"): ("points per second, a function compiled by numba", "{:,.0f}"),
    ("linkages", "built_in"): ("points per second, built in", "{:,.0f}"),
    ("linkages", "insert_over_inside"): ("an insert / the time inside the methods of a linkage object", "{:.2f}"),
    ("coreference", "seconds_per_1000_records"): ("author coreference, seconds per 1,000 records of a name", "{:.2f}"),
    ("start", "cold_compile_cpu_s"): ("first fit from an empty cache, CPU seconds more than a second", "{:.1f}"),
    ("start", "warm_first_fit_extra_s"): ("first fit, warm cache, seconds more than a second", "{:.2f}"),
    ("start", "load_s"): ("loading the estimators, most of it scikit-learn, seconds", "{:.2f}"),
    ("start", "import_s"): ("`import grinch`, seconds", "{:.3f}"),
}


def since() -> str:
    found = read("before.json")
    cells = (
        [title, *(form.format(found[version][part][name]) for version in ("before", "after"))]
        for (part, name), (title, form) in SINCE.items()
    )
    return table(["", f"0.1.0 ({found['commit']})", "one compiled core"], cells)


# From frontier.json -------------------------------------------------------------------------------------------------


def wins() -> str:
    sets, sizes = read("frontier.json"), read("results.json")["systems"]["20000"]
    default, refined = (sum(gain(rows, name) > 0 for rows in sets.values()) for name in ("default", "refined once"))
    return (
        "Under average linkage of cosines, Grinch's trees are purer than those of agglomerative clustering (HAC) on"
        f" {default} of\n{len(sets)} data sets as the points arrive, and on {refined} after one call of `refine`."
        f" 20,000 points take {seconds(sizes['grinch']['seconds'])} (HAC: {seconds(sizes['HAC']['seconds'])}).\n"
    )


def gain(rows: Rows, name: str) -> float:
    return rows[name]["purity"] - rows["HAC"]["purity"]


def below_hac() -> str:
    """List the sets on which each variant is below HAC."""
    lines = []
    for variant in ("default", "refined once"):
        losses = {name: -gain(rows, variant) for name, rows in read("frontier.json").items() if gain(rows, variant) < 0}
        named = (f"{plain(name)} ({share(loss)})" for name, loss in sorted(losses.items(), key=lambda loss: -loss[1]))
        lines.append(f"- {variant}: {', '.join(named)}")
    return "\n".join(lines) + "\n"


def plain(name: str) -> str:
    return name.replace("_", " ")


def frontier() -> str:
    cells = []
    for name, rows in read("frontier.json").items():
        others = (share(rows[variant]["purity"]) for variant in ("HAC", "the paper's", "the authors'"))
        ours = (
            f"{share(rows[variant]['purity'])} ± {share(rows[variant]['deviation'])}"
            for variant in ("default", "refined once")
        )
        taken = (f"{rows[v]['seconds']:.2f}" for v in ("HAC", "the paper's", "the authors'", "default", "refined once"))
        cells.append([plain(name), *others, *ours, " / ".join(taken)])
    modes = ('`mode="paper"`', '`mode="authors"`', "default", "`refine_passes=1`")
    return table(["data", "HAC", *modes, "CPU seconds, in the same order"], cells)


def orders() -> str:
    names = ("refined once", "refined once, sorted", "refined once, round-robin")
    cells = (
        [plain(name), *(share(rows[variant]["purity"]) for variant in names)]
        for name, rows in read("frontier.json").items()
    )
    return table(["data", "random order", "sorted by class", "round-robin"], cells)


# From hints.json ----------------------------------------------------------------------------------------------------

LINKAGES = ("average (cosine)", "average (sqeuclidean)", "cosine", "ward", "centroid")


def linkage_choice() -> str:
    """Purity of every linkage on every set as it is read, and centred where that makes a difference."""
    cells, as_read = [], {}
    for row in read("hints.json")["rows"]:
        if row["scaling"] == "as read":
            as_read = row["purity"]
        elif row["scaling"] == "standardised" or not any(abs(row["purity"][k] - as_read[k]) > 0.01 for k in LINKAGES):
            continue
        best = max(row["purity"].values())
        bold = (f"**{share(p)}**" if p == best else share(p) for p in (row["purity"][name] for name in LINKAGES))
        centred = ", centred" if row["scaling"] == "centred" else ""
        cells.append([plain(row["data"]) + centred, *bold, row["suggested"]])
    return table(["data", *LINKAGES, "suggested"], cells)


def hint_loss() -> str:
    found = read("hints.json")["rows"]
    rows = [{"`suggest_linkage`": row["suggested"], **{f"always {name}": name for name in LINKAGES}} for row in found]
    cells = []
    for chooser in rows[0]:
        lost = [max(row["purity"].values()) - row["purity"][by[chooser]] for row, by in zip(found, rows, strict=True)]
        fresh = [loss for loss, row in zip(lost, found, strict=True) if not row["is_chosen_on"]]
        small = sum(loss <= 0.01 for loss in fresh) / len(fresh)
        cells.append([chooser, share(sum(fresh) / len(fresh)), share(max(fresh)), f"{100 * small:.0f} %"])
    return table(["choice", "mean loss of purity", "worst", "at most .01 lost"], cells)


# From experiments/*.json --------------------------------------------------------------------------------------------

SYSTEMS = {
    "grinch": "Grinch",
    "hac": "HAC",
    "mb-hac-med": "MB-HAC, half a block",
    "mb-hac-sm": "MB-HAC, a tenth",
    "rotate": "Rotate",
    "online": "Online",
}


def authors() -> str:
    rows = read("experiments/table3.json")["rows"]
    cells = []
    for data in dict.fromkeys(row["data"] for row in rows):
        of_data = {row["method"]: row for row in rows if row["data"] == data}
        if isinstance(of_data["grinch"]["f1"], str):  # not run
            continue
        cells.append([data, *(of_data[name]["F1"].replace("0.", ".") for name in SYSTEMS)])
        if of_data["grinch"]["paper (F1)"]:
            cells.append(["*the paper*", *(f"*{share(of_data[name]['paper (F1)'])}*" for name in SYSTEMS)])
    return table(["", *SYSTEMS.values()], cells)


def authors_orders() -> str:
    rows = read("experiments/table3.json")["rows"]
    cells = []
    for data in dict.fromkeys(row["data"] for row in rows):
        orders = {row["method"]: row.get("orders") for row in rows if row["data"] == data}
        for split, (hac, grinch) in enumerate(zip(orders["hac"] or (), orders["grinch"] or (), strict=True)):
            found = (hac[0], fmean(grinch), pstdev(grinch), min(grinch), max(grinch))
            cells.append([data.partition(",")[0], str(split), *map(share, found)])
    return table(["", "split", "HAC", "Grinch, mean", "deviation", "lowest order", "highest order"], cells)


# --------------------------------------------------------------------------------------------------------------------

# From cuts.json -----------------------------------------------------------------------------------------------------


CUTTERS = ("HDBSCAN", "EVoC", "PLSCAN", "default", "refined")


def _cut_rows(names: Sequence[str]) -> str:
    results = read("cuts.json")
    rows = []
    for name in names:
        if name in results:
            one = results[name]
            found = [one[method].get("ari") for method in CUTTERS]
            others = [one["refined"]["best layer"], one["refined"]["best cut"]]
            cells = ["–" if value is None else share(value) for value in (*found, *others)]
            rows.append([name.replace("_", " "), f"{one['classes']:,}", *cells])
    header = [
        "data",
        "classes",
        "HDBSCAN",
        "EVoC",
        "PLSCAN",
        "default",
        "refined",
        "its best layer",
        "its best cut, by labels",
    ]
    return table(header, rows)


def _cut_means(names: Sequence[str]) -> list[str]:
    results = read("cuts.json")
    of_sets = ([results[name][method].get("ari", 0.0) for name in names if name in results] for method in CUTTERS)
    return [share(sum(found) / len(found)) for found in of_sets]


def _means_line(names: Sequence[str]) -> str:
    means = zip(CUTTERS, _cut_means(names), strict=True)
    return f"\nMeans: {', '.join(f'{method} {mean}' for method, mean in means)}.\n"


def cuts_means() -> str:
    halves = {"used to choose the rule": sets.CHOOSING, "not used": sets.REPORTING}
    cells = [[f"{len(names)} sets {title}", *_cut_means(names)] for title, names in halves.items()]
    return table(["mean adjusted Rand index", *CUTTERS[:3], "Grinch", "Grinch, refined"], cells)


def cuts_choosing() -> str:
    return _cut_rows(sets.CHOOSING) + _means_line(sets.CHOOSING)


def cuts_reporting() -> str:
    return _cut_rows(sets.REPORTING) + _means_line(sets.REPORTING)


# From defaults.json -------------------------------------------------------------------------------------------------


def defaults() -> str:
    """Toy sets, mixtures, texts, disturbances, noise and n_clusters, a line or a table each."""
    found = read("defaults.json")
    toy = [[name, *map(share, row.values())] for name, row in found["toy"].items()]
    mixed = {
        **{f"mixture, {name}": row for name, row in found["mixtures"].items()},
        "TF-IDF of 4,000 questions": found["texts"]["default"],
    }
    rows = [[name, f"{row['classes']:,}", f"{row['clusters']:,}", share(row["ari"])] for name, row in mixed.items()]
    steady = found["stability"]
    shaken = [[name, *map(share, row.values())] for name, row in steady.items() if name != "mean"]
    noise = [[name, *(f"{value:.0f}" for value in row.values())] for name, row in found["noise"].items()]
    number = {name: row for name, row in found["number"].items() if "sizeable" in row}
    split = [[name, share(row["sizeable"]), share(row["height"])] for name, row in number.items()]
    return "\n".join(
        [
            table(["toy set, five seeds", "default", "its best cut, by labels", "HDBSCAN, min_cluster_size 15"], toy),
            table(["", "classes", "clusters", "ARI"], rows),
            table(["agreement of ten disturbed fits", "1 % left out", "noise of 1e-4"], shaken)
            + f"\nMean agreement {share(steady['mean'])}.\n",
            table(["-1 of 200 between ten blobs of 100", "between", "of the blobs", "HDBSCAN", "of the blobs"], noise),
            table(["`n_clusters` as there are classes", "sizeable", "height"], split),
        ]
    )


# From identity.json -------------------------------------------------------------------------------------------------


def _mean(rows: Sequence[Mapping[str, float]], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)


def identity_days() -> str:
    names = ("kept_by_number", "kept", "share_steady", "kept_if_steady", "ari_day_to_day")
    cells = [
        [f"{name}, {cut}", *(share(_mean(rows, column)) for column in names)]
        for name, found in read("identity.json")["sets"].items()
        for cut, rows in found["cuts"].items()
    ]
    return table(["", "same number in `labels_`", "same id", "steady", "same id, if steady", "ARI day to day"], cells)


def identity_removed() -> str:
    cells = [
        [f"{name}, {cut}", *(f"{row[column]:.4f}" for column in ("renumbered", "renamed", "renamed_if_steady"))]
        for name, found in read("identity.json")["sets"].items()
        for cut, row in found["one_removed"].items()
    ]
    return table(["", "another number in `labels_`", "another id", "another id, if steady"], cells)


def identity_automatic() -> str:
    cells = []
    for name, found in read("identity.json")["sets"].items():
        rows = found["cuts"]["automatic"]
        means = [share(_mean(rows, column)) for column in ("ari_classes", "ari_classes_fresh", "ari_with_fresh")]
        cells.append([name, *means, f"{rows[-1]['n_clusters']:,}", f"{rows[-1]['n_clusters_fresh']:,}"])
    header = ["", "ARI with the classes, followed", "cut again", "ARI of the two", "clusters at the end", "cut again"]
    return table(header, cells)


def identity_times() -> str:
    times = read("identity.json")["times"]
    cells = []
    for name in ("n_clusters", "threshold", "automatic"):
        row = times[name]
        clocks = [f"{row[clock][which]:.1f}" for clock in ("commit_cpu_ms", "commit_ms") for which in row[clock]]
        cells.append([name, f"{row['clusters']:,}", *clocks, f"{row['insert_ms']['median']:.1f}"])
    header = ["", "clusters", "commit, CPU ms", "slowest", "commit, wall ms", "slowest", "inserting them, wall ms"]
    return table(header, cells)


# From saving.json ---------------------------------------------------------------------------------------------------


def saving() -> str:
    cells = []
    for row in read("saving.json"):
        sizes = [f"{row['times the vectors']:.2f}", f"{row['bytes a point']:,.0f}"]
        times = [f"{row[what]:.2f} s" for what in ("save, s", "load, s")]
        cells.append([row["points"].replace(" x ", " × "), row["linkage"], *sizes, *times])
    return table(["points", "linkage", "bytes, as a multiple of the vectors", "bytes a point", "save", "load"], cells)


# From store.json and kills.json -------------------------------------------------------------------------------------


def store_rates() -> str:
    rates = read("store.json")["rates"]
    cells = []
    for batch in (10_000, 100, 1):
        row = rates[f"batches of {batch}"]
        speeds = [f"{row[f'{name}, points a second']:,.0f}" for name in ("estimator", "store")]
        cells.append([f"batches of {batch:,}", *speeds, f"{row['ratio']:.2f}"])
    return table(["points a second", "`partial_fit`", "a store", "ratio"], cells)


def store_notes() -> str:
    found = read("store.json")
    opened, size, stall, changes = found["reopen"], found["bytes"], found["stall"], found["changes"]["automatic cut"]
    milliseconds = min(row["open, ms"] for row in opened["as closed"])
    cold = opened["as closed, not in the cache of the system"]["open, ms"]
    parts = size["ids of 12 characters"]
    beside, n = stall["beside a snapshot"], found["changes"]["points"]
    return (
        f"A store of {opened['points']:,} points is opened in {milliseconds:.0f} ms ({cold:.0f} ms if nothing of it is"
        f" in memory). At {size['points']:,} points of 64 float32, a point takes {parts['in all']:,.0f} bytes on disk:"
        f" {parts['vectors']:.0f} for the vector, {parts['snapshot']:.0f} in the snapshot, {parts['database']:.0f} in"
        f" the database. The slowest of {beside['inserts']:,} single inserts beside a snapshot took"
        f" {beside['slowest, ms']:.0f} ms. Of a commit of 100 points at {n:,}, matching the clusters takes"
        f" {changes['matching, ms']:.1f} ms, and `changes` after it {changes['store.changes, ms']:.1f} ms.\n"
    )


def store_kills() -> str:
    kills = read("kills.json")
    powered = sum(count for moment, count in kills["by moment"].items() if "power lost" in moment)
    return (
        f"{kills['kills']} kills of a writer at random moments, {powered} of them with all that was not synchronised"
        f" lost, in {kills['operations']:,} operations: {len(kills['failures']) or 'no'} failures.\n"
    )


# From days.json -----------------------------------------------------------------------------------------------------

DAY_SETS = {
    "intents": "intents, 22,500 × 384, 20 days",
    "images": "images, 50,000 × 384, 20 days",
    "digits": "digits, 1,797 × 64, 10 days",
    "separated": "separated mixture, 200,000 × 32, 10 days",
    "overlapping": "overlapping mixture, 200,000 × 32, 10 days",
}


def _fed() -> dict[str, list[dict[str, float]]]:
    found = read("days.json")
    return {title: found[name] for name, title in DAY_SETS.items() if name in found}


def days() -> str:
    cells = []
    for title, rows in _fed().items():
        worst = max(max(ratio := row["clusters"] / row["clusters_fresh"], 1 / ratio) for row in rows)
        lowest = min(row["ari"] - row["ari_fresh"] for row in rows)
        cells.append(
            [
                title.replace(" x ", " × "),
                f"{rows[-1]['clusters']:,}",
                f"{rows[-1]['clusters_fresh']:,}",
                f"{worst:.2f}",
                share(_mean(rows, "ari")),
                share(_mean(rows, "ari_fresh")),
                f"{lowest:+.3f}" if round(lowest, 3) else "0",
                f"{sum(row['cut'] for row in rows)}",
            ]
        )
    header = ["", "clusters at the end", "from nothing", "ratio, worst day", "ARI, mean", "from nothing"]
    return table([*header, "difference, worst day", "days with a cut"], cells)


def days_ids() -> str:
    cells = []
    for title, rows in _fed().items():
        later, n = rows[1:], len(rows)
        cells.append(
            [
                title.partition(",")[0],
                share(_mean(later, "stayed")),
                share(_mean(later, "steady")),
                share(min(row["stayed_if_steady"] for row in later)),
                share(rows[-1]["flapped"]),
                f"{sum(row['records'] for row in later) / (n - 1):,.0f}",
                f"{sum(row['told'] for row in later) / (n - 1):,.0f}",
                f"{max(row['insert_cpu'] for row in later):.1f}",
            ]
        )
    header = ["", "same id as the day before", "steady", "same id, if steady, worst day", "flapped"]
    return table([*header, "changes a day", "in the digest", "longest insert, CPU s"], cells)


def days_notes() -> str:
    found = read("days.json")
    stalls, cost = found["stalls"], found["cost"]
    again, once = cost["made again"], cost["made once"]
    less = {key: 1 - again[key] / once[key] for key in ("commits_per_cpu_second", "commits_per_cpu_second_of_all")}
    per_second, only_once = (each["commits_per_cpu_second"] for each in (again, once))
    return (
        f"Of {stalls['inserts']:,} inserts of 100 points, up to {stalls['n']:,} points in all, with {stalls['cuts']}"
        f" cuts and the snapshots beside them, the median took {1000 * stalls['median_cpu']:.0f} ms of processor time,"
        f" the longest {1000 * stalls['longest_cpu']:.0f} ms. From {cost['n'] // 10:,} to {cost['n']:,} points in"
        f" commits of {cost['batch']}, the writer makes {per_second:.0f} commits in a second of processor time, and"
        f" {only_once:.0f} if the cut is made once ({100 * less['commits_per_cpu_second']:.0f} % less). With the cuts"
        f" that are made beside it on another core, all processes need"
        f" {1 / (1 - less['commits_per_cpu_second_of_all']):.1f} times as much.\n"
    )


# From explorer.json -------------------------------------------------------------------------------------------------


def explorer() -> str:
    found = read("explorer.json")
    server, page = found["server"], found["page"]
    step, bytes_, nodes, drawn = (server[name] for name in ("zoom_step_ms", "view_bytes", "node_page_ms", "cut_ms"))
    cells = [
        ["from the command to a page that can be opened", f"{server['seconds_until_it_listens']:.1f} s", ""],
        ["from opening the page to the tree", f"{page['first_picture_ms'] / 1e3:.1f} s", ""],
        ["until the map is there, too", f"{page['first_picture_and_map_ms'] / 1e3:.1f} s", ""],
        ["a step of zooming, on the server", f"{step['p50']:.0f} ms", f"{step['max']:.0f} ms"],
        [
            "from the request to the picture",
            f"{page['zoom_step_ms']['p50']:.0f} ms",
            f"{page['zoom_step_ms']['max']:.0f} ms",
        ],
        ["sent for a step", f"{bytes_['p50'] / 1e3:.0f} KB", f"{bytes_['max'] / 1e3:.0f} KB"],
        ["another cut", f"{drawn['p50']:.0f} ms", f"{drawn['max']:.0f} ms"],
        ["the page of a node", f"{nodes['p50']:.0f} ms", f"{nodes['max']:.0f} ms"],
        [
            "memory of the server",
            f"{server['memory_mb']['now'] / 1e3:.1f} GB",
            f"{server['memory_mb']['most'] / 1e3:.1f} GB",
        ],
        ["memory of the page", f"{page['memory_mb']['now']:.0f} MB", f"{page['memory_mb']['most']:.0f} MB"],
    ]
    head = f"{found['n']:,} points, {found['dims']} dimensions"
    return table([head, "median", "most"], cells)


# From first_screen.json ---------------------------------------------------------------------------------------------


def first_screen() -> str:
    found, cells = read("first_screen.json"), []
    for title, row in found["screens"].items():
        cold, warm, step = row["cold"], row["warm"], row["zoom_step_ms"]
        by_umap = f"{share(row['umap_kept'])} in {row['umap_seconds']:.0f} s" if "umap_kept" in row else ""
        cells.append(
            [
                title.replace(" x ", " × "),
                *(f"{cold[part] / 1e3:.1f} / {warm[part] / 1e3:.1f} s" for part in ("tree_ms", "names_ms", "map_ms")),
                f"{step['p50']:.0f} / {step['p99']:.0f} ms",
                f"{row['neighbors_seconds']:.1f} s ({row['neighbors_cpu_seconds']:.1f} s)",
                share(row["neighbors_kept"]),
                share(row["pca_kept"]),
                by_umap,
                size(row.get("export_bytes", 0)),
                f"{row['load']:.0f}",
            ]
        )
    head = ["", "tree, cold / warm", "names", "map", "step of zooming, median / 99 of 100", "map made (processor time)"]
    parts = table([*head, "neighbours kept", "by PCA", "by umap-learn", "export", "load"], cells)
    machine, page = found["machine"], size(found["page_bytes"])
    return f"{parts}\nOn {machine}. Without compression the page itself is {page}.\n"


# From service.json --------------------------------------------------------------------------------------------------


def service() -> str:
    found = read("service.json")
    names = {"predict": ("model.predict", "store.predict"), "insert": ("model.partial_fit", "store.insert")}
    cells = []
    for what, bare in names.items():
        rows = {f"`{name}`, no service": found["bare"][name] for name in bare}
        rows |= {f"{what}, {n}": found[f"{what}, {n}"] for n in ("1 client", "32 clients")}
        for name, row in rows.items():
            cells.append([name, f"{row['per second']:,.0f}", f"{row['p50 ms']:.1f} ms", f"{row['p99 ms']:.1f} ms"])
    return table(["", "a second", "median", "99 of 100 within"], cells)


def service_notes() -> str:
    found = read("service.json")
    beside, batches = found["beside an insert of 10,000"], found["batches"]
    return (
        f"On average {batches['requests per commit']:.1f} inserts were written together. While 10,000 points were"
        f" inserted at once, which took {beside['insert s']:.1f} s, a client that predicted one row after the other"
        f" waited {beside['longest predict ms']:.0f} ms at most.\n"
    )


# From files_run.json ------------------------------------------------------------------------------------------------


def way(of: str) -> str:
    """Return the files that run, in the order in which they are entered, with what each is."""
    lines = []
    for name in read("files_run.json")[of]:
        path = ROOT / "src" / "grinch" / name
        about = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n")[0]
        lines.append(f"1. [{name}]({path.relative_to(ROOT).as_posix()}): {about}\n")
    return "".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    **{f"way-of-{of}": partial(way, of) for of in ("fit", "insert", "zoom")},
    "speed": speed,
    "explorer": explorer,
    "first-screen": first_screen,
    "speed-notes": speed_notes,
    "tree-part": tree_part,
    "search-mixture": search_mixture,
    "search-stalls": search_stalls,
    "search-recall": search_recall,
    "search-settings": search_settings,
    "search-real": search_real,
    "search-nsw": search_nsw,
    "search-nsw-trees": search_nsw_trees,
    "scale-tree": scale_tree,
    "scale-fit": scale_fit,
    "scale-single": scale_single,
    "scale-after": scale_after,
    "scale-peers": scale_peers,
    "targets": targets,
    "since": since,
    "wins": wins,
    "below-hac": below_hac,
    "frontier": frontier,
    "orders": orders,
    "linkage-choice": linkage_choice,
    "hint-loss": hint_loss,
    "authors": authors,
    "authors-orders": authors_orders,
    "cuts-means": cuts_means,
    "cuts-choosing": cuts_choosing,
    "cuts-reporting": cuts_reporting,
    "defaults": defaults,
    "days": days,
    "days-ids": days_ids,
    "days-notes": days_notes,
    "identity-days": identity_days,
    "identity-removed": identity_removed,
    "identity-automatic": identity_automatic,
    "identity-times": identity_times,
    "saving": saving,
    "store": store_rates,
    "store-notes": store_notes,
    "store-kills": store_kills,
    "service": service,
    "service-notes": service_notes,
    "claims": claims.claims,
    **experiment_tables.PARTS,
    **sharded_tables.PARTS,
    **sparse_tables.PARTS,
    **system_tables.PARTS,
}


def filled(text: str) -> str:
    """Return the text of a page with the figures as they are in the files now, and which code wrote them."""
    codes: list[str] = []

    def with_code(marked: re.Match[str]) -> str:
        name = marked[1]
        if name == CODE_OF_PAGE:
            return marked[0]
        FILES_READ.clear()
        part = _part(name)
        found = code_of(FILES_READ)
        codes.extend(found)
        return f"<!-- figures: {name}{'; code: ' * bool(found)}{', '.join(found)} -->\n{part}{END}"

    text = MARKED.sub(with_code, text)
    note = f"<!-- figures: {CODE_OF_PAGE} -->\n{code_note(codes)}{END}"
    if codes and f"<!-- figures: {CODE_OF_PAGE} -->" not in text:
        return f"{text.rstrip()}\n\n{note}\n"
    return MARKED.sub(lambda marked: note if marked[1] == CODE_OF_PAGE else marked[0], text)


def code_note(digests: Iterable[str]) -> str:
    """Say which code wrote the figures of a page; which of them stands beside each, in the page's source.

    >>> code_note(["1a2b", "earlier", "1a2b"]), code_note(["1a2b"])
    ('*Figures written by different code: 1a2b, earlier.*\\n', '*Figures written by code 1a2b.*\\n')
    """
    codes = sorted(set(digests))
    return f"*Figures written by {'different code:' if len(codes) > 1 else 'code'} {', '.join(codes)}.*\n"


def _part(name: str) -> str:
    try:
        return PARTS[name]()
    except FileNotFoundError as missing:
        name = Path(missing.filename).relative_to(HERE).as_posix()
        return f"*Not measured yet for this version (benchmarks/{name}).*\n"


def fill_pages() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if MARKED.search(text):
            page.write_text(filled(text), encoding="utf-8")


if __name__ == "__main__":
    fill_pages()
