"""Take the results of the paper's experiments into the documentation: tables, pictures, docs/experiments.md.

    GRINCH_DATA=folder grinch bench all --out results
    python benchmarks/take_experiments.py results

Curves stay in the folder of the results; they are in the pictures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from PIL import Image

from experiment_tables import FOLDER, IMAGES
from fill import fill_pages
from written import write_figures

WIDTH = 1500


def take(folder: Path) -> list[str]:
    """Copy the results and pictures of a folder, and return the names of the experiments."""
    FOLDER.mkdir(exist_ok=True)
    IMAGES.mkdir(exist_ok=True)
    taken = []
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        result.pop("curves")
        write_figures(FOLDER / path.name, result)
        if (picture := path.with_suffix(".png")).exists():
            _shrink(picture, IMAGES / picture.name)
        taken.append(path.stem)
    return taken


def _shrink(picture: Path, to: Path) -> None:
    """Few colours and a width for a page: a tenth of the bytes."""
    with Image.open(picture) as image:
        small = image.convert("RGB")
        small.thumbnail((WIDTH, 10 * WIDTH), Image.Resampling.LANCZOS)
        small.quantize(64).save(to, optimize=True)


if __name__ == "__main__":
    print("taken:", ", ".join(take(Path(sys.argv[1]))))
    fill_pages()
