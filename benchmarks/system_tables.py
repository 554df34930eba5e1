"""The tables of the other systems, of patents, and of the paper's modes; fill.py puts them into the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tables import share, table
from written import read


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


# From paper_modes.json ----------------------------------------------------------------------------------------------


def paper_modes() -> str:
    modes = {name: f'`mode="{name}"`' for name in ("authors", "paper")}
    titles = {"Rotate": "Rotate, cap 100", **modes, "default": "default"}
    cells = []
    for name, row in read("paper_modes.json").items():
        found = [row["systems"][system] for system in titles]
        head = f"{name}, {row['points']:,} ({len(found[0]['purity'])})"
        seconds = " / ".join(f"{mean(each['seconds']):.1f}" for each in found)
        cells.append([head, *(share(mean(each["purity"])) for each in found), seconds])
    return table(["data", *titles.values(), "CPU seconds"], cells)


# From perch.json ----------------------------------------------------------------------------------------------------

BESIDE_AUTHORS = {
    "Online": "Online",
    "PERCH": "`Perch`",
    "authors": "the authors' Python, without its balance rotations",
    "PERCH-B": "`Perch(balance=True)`",
    "authors' Scala, balanced": "the authors' Scala, which always balances",
    "authors, balanced": "the authors' Python, which balances by another measure",
}


def perch_authors() -> str:
    found = read("perch.json")["authors"]
    cells = (
        [title, *(share(row["purity"][system]) if system in row["purity"] else "–" for row in found.values())]
        for system, title in BESIDE_AUTHORS.items()
    )
    return table(["", *(f"{name}, {row['points']:,}" for name, row in found.items())], cells)


def perch_online() -> str:
    found = read("perch.json")["online"]
    titles = {"Online": "`Online`", "PERCH": "`Perch`", "PERCH-B": "`Perch(balance=True)`"}
    cells = (
        [title, *(share(mean(row["purity"][system])) for row in found.values())] for system, title in titles.items()
    )
    return table(["", *(f"{name}, {row['points']:,}" for name, row in found.items())], cells)


def perch_time() -> str:
    results = read("perch.json")
    timed, lowest = results["time"], min(results["separated"].values())
    seconds = ", ".join(f"{name} {row['seconds']:.0f}" for name, row in timed["systems"].items())
    return (
        f"CPU seconds for {timed['points']:,} points of {timed['features']} features: {seconds}. On"
        f" {', '.join(results['separated'])} the lowest purity of PERCH is {share(lowest)}.\n"
    )


# From scc.json ------------------------------------------------------------------------------------------------------


def scc() -> str:
    found = read("scc.json")
    systems = next(iter(found.values()))["systems"]
    cells = [
        [f"`{system.partition(',')[0]}`{system[len(system.partition(',')[0]) :]}"]
        + [share(row["systems"][system]["purity"]) for row in found.values()]
        for system in systems
    ]
    seconds = [f"{row['systems']['scc']['seconds']:.1f}" for row in found.values()]
    header = ["", *(f"{name}, {row['points']:,}" for name, row in found.items())]
    return table(header, [*cells, ["CPU seconds of `scc`", *seconds]])


def scc_binary() -> str:
    rows = [row["systems"] for row in read("scc.json").values()]
    gains = {
        title: max(row[system]["purity of the binary tree"] - row[system]["purity"] for row in rows)
        for system, title in (("scc", "SCC"), ("affinity", "Affinity"), ("rnn", "reciprocal nearest neighbours"))
    }
    most = ", ".join(f"{share(gain)} for {title}" for title, gain in gains.items())
    return f"The purity of the binary tree is higher, on these sets by at most {most}.\n"


# From patents.json --------------------------------------------------------------------------------------------------

SCORES = ("precision", "recall", "f1")


def _three(row: Mapping[str, float], of: str = "") -> str:
    return " / ".join(share(row[of + name]) for name in SCORES)


def _date(release: str) -> str:
    return f"{release[:4]}-{release[4:6]}-{release[6:]}"


def patents_releases() -> str:
    cells = []
    for release, row in read("patents.json")["all"]["releases"].items():
        official, ours = row["official"], row["grinch"]
        systems = [_three(official), _three(ours), _three(official, "bcubed "), _three(ours, "bcubed ")]
        cells.append([_date(release), f"{official['mentions']:,}", *systems])
    of_pairs, of_mentions = ([f"{name}, {kind}" for name in ("release", "Grinch")] for kind in ("pairs", "B-cubed"))
    return table(["release", "mentions", *of_pairs, *of_mentions], cells)


def patents_wins() -> str:
    releases = read("patents.json")["all"]["releases"].values()
    above = [sum(row["grinch"][f1] > row["official"][f1] for row in releases) for f1 in ("f1", "bcubed f1")]
    return (
        f"On the same mentions, Grinch's F1 is above that of {above[0]} of {len(releases)} releases by pairs, and of"
        f" {above[1]} by B-cubed.\n"
    )


def patents_methods() -> str:
    results = read("patents.json")
    part, seconds = results["small"], results["seconds"]
    last = max(part["releases"])
    cells = [
        [title, _three(row), _three(row, "bcubed "), f"{seconds[name]:.0f}" if name in seconds else "–"]
        for title, name, row in (
            ("Grinch", "grinch", part["methods"]["grinch"]),
            ("HAC", "hac", part["methods"]["hac"]),
            (f"release of {_date(last)}", "", part["releases"][last]["official"]),
            *((title, "", row) for title, row in results["baselines"].items()),
        )
    ]
    return table(["", "pairs", "B-cubed", "CPU seconds"], cells)


def patents_notes() -> str:
    results = read("patents.json")
    everything, small = results["all"], results["small"]
    return (
        f"Learned from {results['training']['inventors']} inventors, tested on {everything['inventors']} others:"
        f" {everything['methods']['grinch']['mentions']:,} mentions of theirs\namong {everything['all mentions']:,} in"
        f" {everything['blocks']} blocks; {small['blocks']} of these, with {small['all mentions']:,} mentions, have at"
        " most 3,000.\n"
    )


PARTS: dict[str, Callable[[], str]] = {
    "paper-modes": paper_modes,
    "patents-methods": patents_methods,
    "patents-notes": patents_notes,
    "patents-releases": patents_releases,
    "patents-wins": patents_wins,
    "perch-authors": perch_authors,
    "perch-online": perch_online,
    "perch-time": perch_time,
    "scc": scc,
    "scc-binary": scc_binary,
}
