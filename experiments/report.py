"""A page of all results in a folder."""

from __future__ import annotations

import base64
import html
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments import EXPERIMENTS
from experiments.setting import Result, read_result

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1.5rem; }
table { border-collapse: collapse; font-size: .88rem; margin: 1rem 0; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid #eee; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; } .about { color: #777; font-size: .85rem; } .scroll { overflow-x: auto; }
"""


def write_report(folder: Path) -> Path:
    """Write report.html with the results in ``folder``; pictures are inside it, so the page can be sent around."""
    results = []
    for path in sorted(folder.glob("*.json")):
        with suppress(ValueError, TypeError):  # it is another file
            results.append(read_result(path))
    if not results:
        raise FileNotFoundError(
            f"folder {str(folder)!r} has no results; make some with: grinch bench all --quick --out {folder}"
        )
    order = list(EXPERIMENTS)
    results.sort(key=lambda result: order.index(result.name) if result.name in order else len(order))
    sections = "".join(_section(result, folder) for result in results)
    page = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>grinch: the paper's experiments</title>"
        f"<style>{STYLE}</style></head><body><h1>The paper's experiments, reproduced</h1>"
        "<p>Scalable Hierarchical Clustering with Tree Grafting (Monath, Kobren et al., KDD 2019); ours beside the"
        f" paper's figures.</p>{sections}</body></html>\n"
    )
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def _section(result: Result, folder: Path) -> str:
    parts = [f"<h2 id='{html.escape(result.name)}'>{html.escape(result.title)}</h2>"]
    parts += [f"<p>{html.escape(remark)}</p>" for remark in result.remarks]
    picture = folder / f"{result.name}.png"
    if picture.exists():
        code = base64.b64encode(picture.read_bytes()).decode()
        parts.append(f"<img alt='{html.escape(result.title)}' src='data:image/png;base64,{code}'>")
    head = "".join(f"<th>{html.escape(column)}</th>" for column in result.columns)
    body = "".join("<tr>" + "".join(_cell(row.get(c, "")) for c in result.columns) + "</tr>" for row in result.rows)
    parts.append(f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>")
    about = ", ".join(f"{key} {value}" for key, value in result.about.items())
    parts.append(f"<p class='about'>{html.escape(result.name)}: {html.escape(about)}</p>")
    return "\n".join(parts)


def _cell(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    text = f"{value:,}" if is_number else str(value)
    return f"<td class='number'>{text}</td>" if is_number else f"<td>{html.escape(text)}</td>"
