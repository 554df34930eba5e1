"""All systems side by side on one data set."""

from grinch.compare.methods import MEASURES, Row, compare, write_csv

__all__ = ["MEASURES", "Row", "compare", "write_csv"]
