"""Files of figures, and the code that wrote them.

code.json keeps, for each part of each file, the digest of the package's code that measured it: comments and docstrings
do not count. A figure that comes out as it was keeps the code that found it first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CODE = HERE / "code.json"
SHOWN = 8
EARLIER = "earlier"
# The files that were read since this was last emptied.
FILES_READ: set[str] = set()


def read(name: str) -> Any:
    """Return what is in a file of figures, and note that it was read."""
    FILES_READ.add(name)
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def write_figures(path: Path, found: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write figures into a file, and note the code of those that are new; in another folder, only write them."""
    path = path.resolve()
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if path.is_relative_to(HERE):
        name, known = path.relative_to(HERE).as_posix(), _known()
        earlier, old = known.get(name, {}), _parts(before)
        now = _digest()
        known[name] = {
            part: earlier.get(part, EARLIER) if part in old and old[part] == value else now
            for part, value in _parts(json.loads(path.read_text(encoding="utf-8"))).items()
        }
        CODE.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8")


def code_of(names: Iterable[str]) -> list[str]:
    """Return the digests of the code that wrote files, shortened; "earlier" is what was written before any was kept.

    >>> code_of(["there is no such file.json"])
    ['earlier']
    """
    known = _known()
    return sorted({digest[:SHOWN] for name in names for digest in known.get(name, {"": EARLIER}).values()})


def _known() -> dict[str, dict[str, str]]:
    return json.loads(CODE.read_text(encoding="utf-8")) if CODE.exists() else {}


def _parts(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {"": found}


def _digest() -> str:
    # The experiments stand beside the benchmarks, and are imported where something was measured.
    sys.path.append(str(HERE.parent))
    try:
        from experiments.keys import code_digest
    finally:
        sys.path.remove(str(HERE.parent))
    return code_digest()
