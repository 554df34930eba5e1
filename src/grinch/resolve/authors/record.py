"""Records of publications, each with one author to be identified, and how they are read from files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from grinch._checks import check_name
from grinch.errors import unknown_name
from grinch.io.read import FileError
from grinch.io.tables import Row, iter_rows
from grinch.resolve.authors.names import folded, parsed


@dataclass(frozen=True, slots=True)
class Record:
    """One author's name on one publication; only ``id`` and ``name`` must be known.

    ``coauthors`` are the other names on the publication. ``author`` is the true author, where it is known: an id of any
    kind, the same for all records of one person. ``paper`` identifies the publication, so that two of its authors are
    never merged. ``block`` is a group of records, made by others, that no author reaches beyond.

    >>> Record("1", "Wei Wang", coauthors=("Na Li",), year=2019).year
    2019
    """

    id: str
    name: str
    title: str = ""
    coauthors: tuple[str, ...] = ()
    venue: str = ""
    year: int | None = None
    affiliation: str = ""
    abstract: str = ""
    keywords: tuple[str, ...] = ()
    author: str | None = None
    block: str | None = None
    orcid: str | None = None
    paper: str | None = None


FIELDS = tuple(field.name for field in fields(Record))

# Other names that a column may have, the first one found counts; case, spaces and underscores do not matter.
ALIASES: dict[str, tuple[str, ...]] = {
    "id": ("record_id", "mention_id", "signature_id"),
    "name": ("author_name", "full_name"),
    "title": ("paper_title", "publication_title"),
    "coauthors": ("co_authors", "coauthor_names", "authors"),
    "venue": ("journal", "conference", "booktitle", "venue_name", "container_title"),
    "year": ("publication_year", "pub_year"),
    "affiliation": ("affiliations", "author_org", "author_affiliation", "orgs", "org", "organization", "institution"),
    "abstract": ("abstract_words",),
    "keywords": ("keyword", "study_fields", "fields_of_study", "subjects", "topics"),
    "author": ("author_id", "label", "person_id"),
    "block": ("name_block",),
    "orcid": ("orcid_id", "author_orcid"),
    "paper": ("paper_id", "publication_id", "work_id", "doi", "pmid"),
}


class Problem(NamedTuple):
    """What was wrong with a line of a file, and whether its record was left out or only repaired."""

    line: int
    reason: str
    left_out: bool

    def __str__(self) -> str:
        return f"line {self.line:,} {self.reason}"


class Reading(NamedTuple):
    """The records of a file, and the problems it had."""

    records: list[Record]
    problems: list[Problem]


class Flaw(ValueError):
    """What is wrong with a cell or a line; the text continues "line 7 …"."""


def read_records(
    path: str | Path,
    columns: Mapping[str, str] = {},
    on_error: Literal["raise", "skip"] = "raise",
    needs: Collection[str] = (),
    remembered: Mapping[str, str] = {},
) -> Reading:
    r"""Read records from JSON lines (.jsonl, .json; .gz, .xz), a table (.csv, .tsv; .gz, .xz) or .parquet.

    Parameters
    ----------
    path : path
        A file with one record per line. In a table a list is one cell, its parts separated by semicolons or bars:
        ``Na Li; Wei Wang``.
    columns : mapping of str to str
        Fields whose column has another name: ``{"name": "creator"}``. Common names are known (``ALIASES``).
    on_error : "raise" or "skip"
        At a broken line, a record without id or name, an id seen before, or a year that is not a year: stop with an
        error, or go on. Then the line is left out, or the year left empty, and either is listed in ``problems``.
    needs : collection of str
        Further fields that every record must have, such as "author" for training.
    remembered : mapping of str to str
        Columns of other files, such as ``model.columns``: as ``columns``, but only where the file has them.

    Returns
    -------
    Reading
        ``records``, and ``problems`` with line and reason.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "records.csv")
    ...     _ = path.write_text("nr,Author Name,coauthors,year\n1,Wei Wang,Na Li; J. Doe,2019\n2,,,2020\n")
    ...     reading = read_records(path, columns={"id": "nr"}, on_error="skip")
    >>> reading.records[0].coauthors, reading.records[0].year
    (('Na Li', 'J. Doe'), 2019)
    >>> print(*reading.problems)
    line 3 has no name
    """
    check_name("on_error", on_error, ("raise", "skip"))
    for field in (*columns, *needs, *remembered):
        check_name("a field of a record", field, FIELDS)
    path = Path(path)
    records: list[Record] = []
    problems: list[Problem] = []
    reader = _Reader(columns, {"id", "name", *needs}, remembered)
    with closing(iter_rows(path)) as lines:
        for row in lines:
            found = len(problems)
            record = reader.record(row, problems)
            if on_error == "raise" and len(problems) > found:
                raise FileError(
                    f"FILE {path.name!r}, {problems[-1]}{reader.hint(row)};"
                    " on_error='skip' (--on-error skip) leaves out such lines and reports them"
                )
            if record is not None:
                records.append(record)
    reader.check_columns(path)
    if not records:
        lost = f" that can be used; the first of {len(problems):,} problems: {problems[0]}" if problems else ""
        raise FileError(f"FILE {path.name!r} has no records{lost}")
    return Reading(records, problems)


class _Reader:
    """Makes records from rows; keeps the columns and ids that it has seen."""

    def __init__(self, columns: Mapping[str, str], needed: set[str], remembered: Mapping[str, str]):
        self.columns, self.needed, self.remembered = columns, needed, remembered
        self.sources: dict[tuple[str, ...], dict[str, str]] = {}
        self.seen_columns: dict[str, None] = {}
        self.lines: dict[str, int] = {}

    def record(self, row: Row, problems: list[Problem]) -> Record | None:
        """Return the record of a row, or None if there is none in it; what is wrong is added to ``problems``."""
        try:
            if row.complaint:
                raise Flaw(row.complaint)
            values = {}
            for field, column in self._source(row.cells).items():
                try:
                    values[field] = value_of(field, row.cells[column])
                except Flaw as flaw:
                    if field != "year":
                        raise
                    problems.append(Problem(row.line, str(flaw), left_out=False))
            record = self._make(values, row.line)
        except Flaw as flaw:
            problems.append(Problem(row.line, str(flaw), left_out=True))
            return None
        self.lines[record.id] = row.line
        return record

    def hint(self, row: Row) -> str:
        """Return a hint at the columns there are, for a row that lacks a required field."""
        lacking = sorted(self.needed - set(self._source(row.cells)))
        if row.complaint or not lacking:
            return ""
        return (
            f" (its columns are {', '.join(map(repr, row.cells))}; name the right one with"
            f" columns={{{lacking[0]!r}: COLUMN}} or --columns {lacking[0]}=COLUMN)"
        )

    def check_columns(self, path: Path) -> None:
        for field, column in self.columns.items():
            if self.seen_columns and column not in self.seen_columns:
                raise FileError(
                    f"{unknown_name(f'the column of {field!r}', column, self.seen_columns)} in {path.name!r}"
                )

    def _source(self, cells: dict[str, Any]) -> dict[str, str]:
        """Return the column of each field."""
        names = tuple(cells)
        if names not in self.sources:
            self.seen_columns.update(dict.fromkeys(names))
            known = {_simple(name): name for name in reversed(names)}
            found = {}
            for field in FIELDS:
                wanted = [self.columns[field]] if field in self.columns else []
                usual = [known.get(_simple(each), "") for each in (field, *ALIASES[field])]
                guesses = [self.remembered.get(field, ""), *usual]
                column = next((name for name in (wanted or guesses) if name in cells), None)
                if column is not None:
                    found[field] = column
            self.sources[names] = found
        return self.sources[names]

    def _make(self, values: dict[str, Any], line: int) -> Record:
        for field in sorted(self.needed):
            if not values.get(field):
                raise Flaw(f"has no {field}")
        name = values["name"]
        if not parsed(name).last:
            raise Flaw(f"has a name without letters, {name!r}")
        if values["id"] in self.lines:
            raise Flaw(f"has the id {values['id']!r}, which line {self.lines[values['id']]:,} has too")
        own = folded(name)
        values["coauthors"] = tuple(each for each in values.get("coauthors", ()) if folded(each) != own)
        return Record(**values)


def _simple(column: str) -> str:
    return re.sub(r"[\W_]", "", column).lower()


# From the cell of a table or the value of a JSON field to the value of a record's field -------------------------------

LISTS = ("coauthors", "keywords")
OPTIONAL = ("author", "block", "orcid", "paper")
# JSON has escapes for them, and no text can be written with them.
HALF_CHARACTERS = re.compile("[\ud800-\udfff]")


def value_of(field: str, cell: Any) -> Any:
    """Return the value of a field; raises Flaw if the cell does not hold one.

    >>> value_of("coauthors", "Na Li; J. Doe"), value_of("year", "2019-05-01"), value_of("orcid", " ")
    (('Na Li', 'J. Doe'), 2019, None)
    """
    if field == "year":
        return _year(cell)
    if field in LISTS:
        return tuple(text for part in _parts(cell) if (text := _text(field, part)))
    if isinstance(cell, list | tuple):
        cell = (" " if field == "abstract" else "; ").join(_text(field, part) for part in cell)
    text = _text(field, cell)
    return text or None if field in OPTIONAL else text


def _parts(cell: Any) -> Iterator[Any]:
    yield from cell if isinstance(cell, list | tuple) else re.split("[;|]", cell) if isinstance(cell, str) else [cell]


def _text(field: str, cell: Any) -> str:
    if isinstance(cell, str):
        if HALF_CHARACTERS.search(cell):
            raise Flaw(f"has half of a surrogate pair in its {field}, which is no character")
        return " ".join(cell.split())
    if cell is None or cell != cell:  # NaN
        return ""
    if isinstance(cell, dict | list | tuple | bool):
        raise Flaw(f"must have a text as {field}; it has a {type(cell).__name__}")
    return str(cell)


def _year(cell: Any) -> int | None:
    """Return the year of 2019, "2019", 2019.0 or "2019-03-01"; None if there is none."""
    text = _text("year", cell)
    if not text:
        return None
    match = re.fullmatch(r"(\d{4})(\.0+|[-/.]\d{1,2}([-/.]\d{1,2})?.*)?", text, flags=re.ASCII)
    if match is None or not 1000 <= int(match[1]) <= 2999:
        raise Flaw(f"has the year {text[:30]!r}, which is not a year")
    return int(match[1])


def block_key(name: str) -> str:
    """Return first initial and last name, so that all spellings of a name meet in one block.

    Of the last name only the last word counts, without particles: "García Márquez", "García-Márquez" and "Márquez"
    meet, and so do "van der Berg" and "Berg". A name of one word is its own block.

    >>> [block_key(name) for name in ("Wang, Wei", "W. Wang", "WANG W", "Wéi Wang")]
    ['w wang', 'w wang', 'w wang', 'w wang']
    >>> block_key("Gabriel García Márquez"), block_key("García-Márquez, G."), block_key("Jan van der Berg")
    ('g marquez', 'g marquez', 'j berg')
    """
    first, core = parsed(name).first, parsed(name).core
    return " ".join([*(word[0] for word in first[:1]), *core[-1:]])


def blocks(records: Iterable[Record], by: Literal["block"] | None = None) -> dict[str, list[Record]]:
    """Return records by block, in the order they come.

    Parameters
    ----------
    records : iterable of Record
        Each with a name.
    by : None or "block"
        None: by first initial and last name, see :func:`block_key`. "block": by the field ``block`` of the records.

    Examples
    --------
    >>> from grinch.resolve.authors import Record
    >>> records = [Record("1", "Wei Wang"), Record("2", "Li, Na"), Record("3", "W. Wang")]
    >>> {block: [record.id for record in group] for block, group in blocks(records).items()}
    {'w wang': ['1', '3'], 'n li': ['2']}
    """
    if by not in (None, "block"):
        raise unknown_name("by", by, ["block"], more=" or None (by name)")
    found: dict[str, list[Record]] = {}
    for record in records:
        key = block_key(record.name) if by is None else record.block
        if not key:
            lacking = (
                "no block; fill it in, or block by name (by=None)"
                if by
                else f"the name {record.name!r}, which has no letters"
            )
            raise ValueError(
                f"every record must have a {by or 'name'} to be put in a block; record {record.id!r} has {lacking}"
            )
        found.setdefault(key, []).append(record)
    return found
