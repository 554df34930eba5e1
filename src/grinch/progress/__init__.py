"""Progress, shown on the error stream."""

from grinch.progress.bar import progress_bar

__all__ = ["progress_bar"]
