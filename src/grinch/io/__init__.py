"""Points from files, and files that are replaced whole."""

from grinch.io.read import FORMATS, FileError, Points, read_points
from grinch.io.write import harmless, replacing

__all__ = ["FORMATS", "FileError", "Points", "harmless", "read_points", "replacing"]
