"""Points from files."""

from grinch.files.read import FORMATS, FileError, Points, read_points

__all__ = ["FORMATS", "FileError", "Points", "read_points"]
