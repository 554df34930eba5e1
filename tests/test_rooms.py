"""Rooms keep their insides to themselves: no private names across rooms, no imports by string, no name everywhere."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import grinch

SOURCE = Path(grinch.__file__).parent
FILES = {path.relative_to(SOURCE): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
# Documented, and public all the same: of namedtuples, of os, and of transformers of scikit-learn.
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit", "_n_features_out"}
# The lazy public face; modules of the user (--import), and a user's encoder: their names are data.
IMPORTS_BY_STRING = {"__init__.py", "cli/app.py", "text/encoders.py"}
MAX_PRIVATE_READS = 60


def is_private(name):
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__")) and name not in PUBLIC


def defined_in(tree):
    """Return the private names that a file gives to something: attributes, methods, functions, fields, variables."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_of_itself(node):
            found.add(node.attr)
    return found


def is_of_itself(node):
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def foreign(source):
    """Return private names of other modules that a file reads or sets, as ``(name, "line: expression")``."""
    tree = ast.parse(source)
    own = defined_in(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_of_itself(node):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grinch."):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr"):
            names = [node.args[1].value] if isinstance(node.args[1], ast.Constant) else []
        else:
            continue
        found += [
            (name, f"{node.lineno}: {ast.unparse(node)}") for name in names if is_private(name) and name not in own
        ]
    return found


def room_of(path):
    return path.parts[0]


def test_no_room_reads_private_names_of_another():
    homes = defaultdict(set)
    for path, source in FILES.items():
        for name in filter(is_private, defined_in(ast.parse(source))):
            homes[name].add(room_of(path))
    reads = {path: foreign(source) for path, source in FILES.items()}
    across = {
        str(path): [where for name, where in found if homes[name] and room_of(path) not in homes[name]]
        for path, found in reads.items()
    }
    assert {path: found for path, found in across.items() if found} == {}
    assert sum(map(len, reads.values())) < MAX_PRIVATE_READS


def test_nothing_is_imported_by_string():
    calls = ("import_module", "__import__")
    found = {
        str(path)
        for path, source in FILES.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in calls
    }
    assert found <= IMPORTS_BY_STRING


def test_a_name_says_where_something_is():
    files, classes = defaultdict(set), defaultdict(set)
    for path, source in FILES.items():
        files[path.name].add(room_of(path))
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].add(room_of(path))
    del files["__init__.py"]
    assert {name: rooms for name, rooms in files.items() if len(rooms) > 3} == {}
    assert {name: rooms for name, rooms in classes.items() if len(rooms) > 2} == {}


FOREIGN = ["store._rows", "self.store._rows.file", "self._store._rows = 1", "super_of(x)._name"]
FOREIGN += ["def f(model):\n    return model._fitted.builder", "getattr(model, '_fitted')"]
FOREIGN += ["from grinch.store.rows import _parsed"]
OWN = ["class A:\n    def f(self, other):\n        self._rows = 1\n        return other._rows", "self._name, cls._name"]
OWN += ["class A:\n    def __init__(self):\n        self._rows = self._made()\n    def _made(self):\n        return 1"]
OWN += ["place._replace(x=1)._asdict()", "x.__class__, x.__dict__", "from grinch import _compile"]
OWN += ["from grinch._checks import check_count"]


@pytest.mark.parametrize(("source", "n"), [*((source, 1) for source in FOREIGN), *((source, 0) for source in OWN)])
def test_names_of_others_and_ones_own(source, n):
    assert len(foreign(source)) == n


# How a docstring begins that names a thing instead of saying what the function does.
NO_VERB = re.compile(
    r"(what|how|whether|where|which|who|the|an?|all|no|those|this|that|of|by|for|if|as|every|each|some|two)\b", re.I
)


def test_docstrings_of_functions_begin_with_a_verb():
    """Those of properties name a thing, and those of routes are the descriptions of the API."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent.name == "api":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
            if not is_property and NO_VERB.match(ast.get_docstring(node) or ""):
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}")
    assert found == []
