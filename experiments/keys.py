"""Keys of cells: digests of all that a figure is computed from, for it counts as long as nothing of that changes."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import grinch

PACKAGE = Path(grinch.__file__).parent
LIBRARIES = ("numpy", "numba", "scikit-learn")
# What every tree and its purity are computed by, in any system.
COMMON = ("_vectors.py", "linkage", "metrics", "summaries", "tree")
ENGINE = ("core", "estimators/grinch.py", "neighbors", "refine")
HAC = ("baselines/agglomeration.py", "baselines/distance_rows.py", "baselines/hac.py", "estimators/hac.py")
_PERCH = ("baselines/perch.py", "baselines/perch_moves.py", "estimators/perch.py", "neighbors/exact.py")
_SCC = ("baselines/scc.py", "estimators/scc.py")
ROOMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("grinch", "rotate", "online"), ENGINE),
    **dict.fromkeys(("hac", "mb-hac"), HAC),
    **dict.fromkeys(("perch", "perch-b", "perch-c", "perch-bc"), _PERCH),
    **dict.fromkeys(("scc", "affinity", "rnn"), _SCC),
    "birch": ("baselines/birch.py", "estimators/birch.py"),
}
ALL = tuple(sorted({room for rooms in ROOMS.values() for room in rooms}))
COREFERENCE = (*ENGINE, *HAC, "cuts/flat.py", "cuts/labels.py", "resolve/authors")


def key_of(function: Callable[..., Any], arguments: tuple[Any, ...], data: str, rooms: Iterable[str]) -> str:
    """Return the key of a cell: of its code, arguments and data, and the versions of libraries."""
    parts = [source_of(function), code_digest(*sorted({*COMMON, *rooms})), text_of(arguments), data, *versions()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@cache
def versions() -> list[str]:
    """Return the libraries that figures depend on, with their versions."""
    return [f"{name} {version(name)}" for name in LIBRARIES]


@cache
def code_digest(*rooms: str) -> str:
    """Return a digest of the syntax of files and folders of the package; comments and docstrings do not count.

    >>> code_digest("tree") == code_digest("tree"), code_digest("tree") == code_digest("core")
    (True, False)
    """
    digest = hashlib.sha256()
    for room in rooms or (".",):
        path = PACKAGE / room
        if not path.exists():
            raise FileNotFoundError(f"there is no {room!r} in the package: a room that cells depend on was renamed")
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            digest.update(f"{file.relative_to(PACKAGE).as_posix()}\0".encode())
            digest.update(plain(ast.parse(file.read_text(encoding="utf-8"))).encode())
    return digest.hexdigest()[:16]


def plain(tree: ast.AST) -> str:
    """Return code as one writes it, without comments and docstrings.

    >>> plain(ast.parse("one =  1  # always"))
    'one = 1'
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def source_of(function: Callable[..., Any]) -> str:
    """Return the code of a function of the experiments, and of all functions and constants there that it uses.

    Of what is built in, the name will do:

    >>> source_of(dict)
    'dict'
    """
    if inspect.isbuiltin(function) or function.__module__ == "builtins":
        return function.__name__
    found: dict[str, str] = {}
    _collect(sys.modules[function.__module__], function.__name__, found)
    return "\n".join(found[name] for name in sorted(found))


def _collect(module: ModuleType, name: str, found: dict[str, str]) -> None:
    under_way = [(module, name)]
    while under_way:
        module, name = under_way.pop()
        title = f"{module.__name__}.{name}"
        if title in found:
            continue
        definitions, imports = _names_of(module.__name__)
        if name in imports:
            under_way.append((sys.modules[imports[name]], name))
        elif name in definitions:
            node = ast.parse(definitions[name])
            found[title] = definitions[name]
            under_way += [(module, each.id) for each in ast.walk(node) if isinstance(each, ast.Name)]


@cache
def _names_of(module: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return what a module defines, as code, and what it has from other modules of the same package, by name."""
    definitions: dict[str, str] = {}
    imports: dict[str, str] = {}
    package = module.partition(".")[0]
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == package:
            imports |= {each.asname or each.name: str(node.module) for each in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions[node.name] = plain(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for each in ast.walk(target):
                    if isinstance(each, ast.Name):
                        definitions[each.id] = plain(node)
    return definitions, imports


def text_of(value: Any) -> str:
    """Return arguments as text: paths by their last name, since what is in a file counts and not where it stands.

    >>> text_of(({"b": 1, "a": Path("/data/x.npz")}, 0.5))
    "({'a': x.npz, 'b': 1}, 0.5)"
    """
    if isinstance(value, Path):
        return value.name
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {text_of(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, tuple | list):
        fields = getattr(value, "_fields", None)
        if fields is None:
            return f"({', '.join(map(text_of, value))})"
        inside = (f"{name}={text_of(each)}" for name, each in zip(fields, value, strict=True) if name != "folder")
        return f"{type(value).__name__}({', '.join(inside)})"
    return repr(value)
