"""Texts that every machine has: the docstrings of the scientific packages that are installed."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("numpy", "scipy", "sklearn", "matplotlib", "pandas", "networkx")
# Folders and files whose functions are nobody's to read about.
NOT_READ = re.compile(r"tests?|_?testing|test_.*|conftest\.py|externals|_?vendor(ed)?|.*_lib|setup\.py")
# A shorter text says too little.
SHORTEST = 60

SECTION = re.compile(r"^[^\n]*\n[ \t]*(-{3,}|={3,})[ \t]*$", re.M)
FORMULA = re.compile(r":math:`[^`]*`|\$[^$\n]*\$")
ROLE = re.compile(r":[\w:]+:`~?([^`<]*)(?:<[^`]*>)?`")
PLACEHOLDER = re.compile(r"%\(\w+\)s|\{\w*\}")
BOILERPLATE = re.compile(r"Read more in the\s+User Guide\s*\.?|Refer to [^.]*for full documentation\.?", re.I)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Docstrings(NamedTuple):
    """What functions and classes say of themselves, their names, each once, and the packages that they are in."""

    texts: list[str]
    names: list[str]
    packages: list[str]


def load_docstrings(packages: Sequence[str] = PACKAGES) -> Docstrings:
    r"""Return the descriptions of public functions and classes, from the sources of those packages that are installed.

    Sources are read and parsed, and nothing is imported or run. Of a docstring only the description counts, without
    lists of parameters and examples; of equal ones, the first.

    >>> found = load_docstrings(["numpy"])
    >>> at = found.names.index("numpy.linalg.norm")
    >>> found.texts[at].split("\n")[0]
    'Matrix or vector norm.'
    """
    found: dict[str, tuple[str, str]] = {}
    names: set[str] = set()
    for package in packages:
        for file in _sources(package):
            for own, docstring in _documented(file):
                text, name = description(docstring), f"{_module(package, file)}.{own}"
                if name in names:  # there are two of that name, in private modules
                    name = f"{_module(package, file, is_public=False)}.{own}"
                if len(text) >= SHORTEST and text not in found and name not in names:
                    found[text] = name, package
                    names.add(name)
    return Docstrings([*found], [name for name, _ in found.values()], [package for _, package in found.values()])


def description(docstring: str) -> str:
    r"""Return what a docstring says before its first section, as plain text.

    >>> description("Sum of :math:`x`, see :func:`~numpy.dot`.\n\nParameters\n----------\nx : array")
    'Sum of  , see numpy.dot.'
    """
    text = inspect.cleandoc(docstring)
    section = SECTION.search(text)
    text = text if section is None else text[: section.start()]
    lines = (line for line in text.splitlines() if not line.lstrip().startswith((">>>", "... ", ".. ")))
    text = ROLE.sub(r"\1", FORMULA.sub(" ", "\n".join(lines)))
    return BOILERPLATE.sub("", PLACEHOLDER.sub("", text)).strip()


def _sources(package: str) -> list[Path]:
    """Return the Python files of a package, in alphabetical order; none if it is not installed."""
    spec = importlib.util.find_spec(package)
    folder = None if spec is None else next(iter(spec.submodule_search_locations or ()), None)
    if folder is None:
        return []
    files = (path.relative_to(folder) for path in Path(folder).rglob("*.py"))
    return [Path(folder) / file for file in sorted(files) if not any(map(NOT_READ.fullmatch, file.parts))]


def _module(package: str, file: Path, is_public: bool = True) -> str:
    """Return the name of a module, or its public part: ``scipy.optimize`` for scipy/optimize/_root.py."""
    parts = file.with_suffix("").parts
    inside = parts[len(parts) - parts[::-1].index(package) :]
    return ".".join([package, *(part for part in inside if not (is_public and part.startswith("_")))])


def _documented(file: Path) -> Iterator[tuple[str, str]]:
    """Yield public functions, classes and methods with their docstrings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the strings of others
            waiting: list[tuple[str, ast.stmt]] = [("", node) for node in ast.parse(file.read_bytes()).body]
    except (SyntaxError, ValueError, OSError):
        return
    while waiting:
        inside, node = waiting.pop(0)
        if isinstance(node, Definition) and not node.name.startswith("_"):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield inside + node.name, docstring
            if isinstance(node, ast.ClassDef):
                waiting += [(f"{inside}{node.name}.", member) for member in node.body]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from _added(node.value)


def _added(call: ast.Call) -> Iterator[tuple[str, str]]:
    """Yield what ``add_newdoc("numpy", "ravel", "Return a flat array ...")`` says of a function in C.

    Of a method, ``("sort", "sort(axis=-1)", "Sort ...")`` is in the place of the text.
    """
    if not isinstance(call.func, ast.Name) or not call.func.id.startswith("add_newdoc"):
        return
    values = [part for argument in call.args for part in getattr(argument, "elts", [argument])]
    texts = [part.value for part in values if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    names = [text for text in texts[:-1] if text.isidentifier()]
    if len(call.args) > 2 and len(names) > 1 and names[0] == texts[0]:  # the module
        names = names[1:]
    if names and not any(name.startswith("_") for name in names):
        yield ".".join(names), texts[-1]
