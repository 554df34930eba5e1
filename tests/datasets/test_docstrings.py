"""Docstrings of a package that is made here."""

from __future__ import annotations

from grinch.datasets.docstrings import load_docstrings

LONG = "{} and what else there is to be said of it, in a sentence that is long enough to count."
FUNCTION = 'def {}(x):\n    """{}"""\n'
SOURCES = {
    "__init__.py": "",
    "_one.py": FUNCTION.format("mode", LONG.format("The mode")),
    "_two.py": FUNCTION.format("mode", LONG.format("The mode of a masked sample")),
    "_three.py": f"""
add_newdoc("made._core", "sort", "{LONG.format("The order")}")
add_newdoc("made._core", "grid", ("fill", "(value, /)", "{LONG.format("The value")}"))
add_newdoc("made._core", "grid", ("__len__", "()", "{LONG.format("The length")}"))
add_newdoc("Alike", "typing.Union[int, float]", "{LONG.format("The type")}")
""",
    "_four.py": FUNCTION.format("check", "Short."),
}


def test_names_are_those_of_functions_and_each_is_there_once(tmp_path, monkeypatch):
    (tmp_path / "made").mkdir()
    for name, source in SOURCES.items():
        (tmp_path / "made" / name).write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    found = load_docstrings(["made", "not_installed"])
    assert found.names == ["made.mode", "made.sort", "made.grid.fill", "made.Alike", "made._two.mode"]
    assert found.texts[4].startswith("The mode of a masked sample")
    assert set(found.packages) == {"made"}
