"""What is known of points beside their numbers: the rows of a table as they are."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from grinch.errors import missing_extra
from grinch.files.points import FileError
from grinch.files.tables import open_text

DELIMITERS = {".csv": ",", ".tsv": "\t"}
# Cells may hold whole documents.
LONGEST_CELL = 2**27


def read_rows(path: str | Path) -> list[Any]:
    r"""The rows of a .csv or .tsv (with a header; also gzipped), a .parquet, or the lines of a .txt.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "news.csv"
    >>> _ = file.write_text("title,day\nRain,Monday\n")
    >>> read_rows(file)
    [{'title': 'Rain', 'day': 'Monday'}]
    """
    path = Path(path)
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    if not path.is_file():
        raise FileError(f"the table {str(path)!r} does not exist")
    if ending == ".parquet":
        try:
            import pyarrow.parquet
        except ImportError:
            raise missing_extra("reading Parquet", "pyarrow", "parquet") from None
        found: list[Any] = pyarrow.parquet.read_table(path).to_pylist()
        return found
    if ending not in (*DELIMITERS, ".txt"):
        raise FileError(f"the table {str(path)!r} must be a .csv, .tsv, .parquet or .txt file")
    with open_text(path) as lines:
        if ending == ".txt":
            return [line.rstrip("\r\n") for line in lines]
        limit = csv.field_size_limit(LONGEST_CELL)
        try:
            reader = csv.DictReader(lines, delimiter=DELIMITERS[ending], restkey="")
            return [{str(name): value for name, value in row.items() if name} for row in reader]
        finally:
            csv.field_size_limit(limit)  # it is that of the whole process
