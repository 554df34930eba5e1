"""Take the results of the paper's experiments into the documentation: tables, pictures, docs/experiments.md.

    GRINCH_DATA=folder grinch bench all --out results
    python benchmarks/experiments.py results

Curves stay in the folder of the results; they are in the pictures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from PIL import Image

from experiment_tables import FOLDER, IMAGES
from fill import fill_pages
from grinch.experiments import EXPERIMENTS
from grinch.experiments.setting import read_result

WIDTH = 1500


def take(folder: Path) -> list[str]:
    """Copy what is there of a folder; the names of the experiments."""
    FOLDER.mkdir(exist_ok=True)
    IMAGES.mkdir(exist_ok=True)
    taken = []
    for name in EXPERIMENTS:
        path, picture = folder / f"{name}.json", folder / f"{name}.png"
        if not path.exists():
            continue
        result = read_result(path)
        kept = {key: value for key, value in vars(result).items() if key != "curves"}
        (FOLDER / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        if picture.exists():
            _shrink(picture, IMAGES / f"{name}.png")
        taken.append(name)
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
