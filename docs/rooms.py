"""Draw docs/images/rooms.svg: the rooms of the package in the layers that import-linter holds them to.

    python docs/rooms.py            (or: make docs-figures)

Layers are those of pyproject.toml, descriptions are the first sentences of the packages, and arrows are imports: one
that follows from two others is left out.
"""

from __future__ import annotations

import ast
import tomllib
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
WIDTH, BOX, HEIGHT, GAP, LINE, SHIFT = 1180, 184, 62, 46, 26, 110
STYLE = (
    "text{font-family:system-ui,sans-serif;fill:#222}.name{font-size:15px;font-weight:600}.about{font-size:10px;fill:#555}"
    "rect{fill:#f4f6fa;stroke:#8899bb}path{fill:none;stroke:#8899bb;stroke-opacity:.55}.shared{font-size:12px;fill:#555}"
)


def layers() -> list[list[str]]:
    """Return the layers of the package, from the top, by import-linter's first contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [[name.strip() for name in layer.split("|")] for layer in contracts[0]["layers"]]


def about(room: str) -> str:
    """Return the first sentence of a package's docstring."""
    text = ast.get_docstring(ast.parse((ROOT / "src" / "grinch" / room / "__init__.py").read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".")


def arrows(rooms: list[str]) -> list[tuple[str, str]]:
    """Return which room imports which, without what follows from others."""
    graph = grimp.build_graph("grinch", exclude_type_checking_imports=True, cache_dir=None)
    uses = {
        room: {
            other
            for other in rooms
            if other != room
            and graph.direct_import_exists(importer=f"grinch.{room}", imported=f"grinch.{other}", as_packages=True)
        }
        for room in rooms
    }
    # Rooms come from the top layer down, so from the last one up all that a room reaches is known.
    reached: dict[str, set[str]] = {}
    for room in reversed(rooms):
        reached[room] = set().union(uses[room], *(reached[other] for other in uses[room]))
    return [
        (room, other)
        for room in rooms
        for other in sorted(uses[room])
        if not any(other in reached[between] for between in uses[room])
    ]


def lines(text: str, width: int) -> list[str]:
    """Break a text into lines of at most ``width`` characters."""
    found = [""]
    for word in text.split():
        if len(found[-1]) + len(word) >= width and found[-1]:
            found.append("")
        found[-1] = f"{found[-1]} {word}".strip()
    return found


def picture() -> str:
    """Return the picture as SVG."""
    is_room = {name: (ROOT / "src" / "grinch" / name).is_dir() for layer in layers() for name in layer}
    rows = [row for layer in layers() if (row := [name for name in layer if is_room[name]])]
    shared = sorted(name for name in is_room if not is_room[name])
    place = {}
    for number, row in enumerate(rows):
        step = WIDTH / len(row)
        for column, room in enumerate(row):
            # A room that is alone stands aside, so that arrows pass it.
            aside = SHIFT * (-1) ** number if len(row) == 1 else 0
            place[room] = (step * (column + 0.5) + aside, 20 + number * (HEIGHT + GAP))
    bottom = 20 + len(rows) * (HEIGHT + GAP)
    parts = []
    for room, other in arrows(list(place)):
        (x, y), (x1, y1) = place[room], place[other]
        bend = (y1 - y) / 2
        parts.append(
            f'<path d="M{x:.0f} {y + HEIGHT}C{x:.0f} {y + bend:.0f} {x1:.0f} {y1 - bend / 2:.0f} {x1:.0f} {y1}" '
            'marker-end="url(#head)"/>'
        )
    for room, (x, y) in place.items():
        parts.append(f'<rect x="{x - BOX / 2:.0f}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="6"/>')
        parts.append(f'<text class="name" x="{x:.0f}" y="{y + 18}" text-anchor="middle">{escape(room)}</text>')
        for number, line in enumerate(lines(about(room), LINE + 6)[:3]):
            parts.append(
                f'<text class="about" x="{x:.0f}" y="{y + 32 + 12 * number}" text-anchor="middle">{escape(line)}</text>'
            )
    parts.append(
        f'<text class="shared" x="20" y="{bottom + 4}">Modules beside the rooms: {escape(", ".join(shared))}</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 20}"><style>{STYLE}</style>'
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#8899bb;stroke:none"/></marker></defs>'
        f'<rect width="100%" height="100%" style="fill:#fff;stroke:none"/>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
