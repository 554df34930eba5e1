"""What a module keeps to itself, other modules do not touch."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import grinch

ROOMS = ("store", "saving", "serve")
# Documented, and public all the same: of namedtuples and of os.
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit"}


def is_private(name):
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__")) and name not in PUBLIC


def defined_in(tree):
    """The private names that a file gives to something: attributes, methods, functions, fields and variables."""
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
    """Private attributes of other modules that a file reads or sets, as ``line: expression``."""
    tree = ast.parse(source)
    own = defined_in(tree)
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and is_private(node.attr)
            and node.attr not in own
            and not is_of_itself(node)
        ):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grinch"):
            found += [f"{node.lineno}: import {alias.name}" for alias in node.names if is_private_object(node, alias)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr"):
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
            if is_private(name) and name not in own:
                found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def is_private_object(node, alias):
    """Whether it is something of a module; modules that are private to the package may be imported within it."""
    return is_private(alias.name) and node.module != "grinch"


@pytest.mark.parametrize("room", ROOMS)
def test_no_private_attribute_of_another_module_is_read(room):
    folder = Path(grinch.__file__).parent / room
    files = sorted(folder.rglob("*.py"))
    assert files
    assert {path.name: found for path in files if (found := foreign(path.read_text()))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "store._rows",
        "self.store._rows.file",
        "self._store._rows = 1",
        "def f(model):\n    return model._fitted.builder",
        "getattr(model, '_fitted')",
        "from grinch.store.rows import _parsed",
        "super_of(x)._name",
    ],
)
def test_what_is_found(source):
    assert len(foreign(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def f(self, other):\n        self._rows = 1\n        return other._rows",
        "class A:\n    def __init__(self):\n        self._rows = self._made()\n    def _made(self):\n        return 1",
        "place._replace(x=1)._asdict()",
        "x.__class__, x.__dict__",
        "self._name, cls._name",
        "from grinch import _compile",
        "from grinch._checks import check_count",
    ],
)
def test_what_is_allowed(source):
    assert foreign(source) == []
