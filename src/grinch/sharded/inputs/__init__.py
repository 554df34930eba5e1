"""Where the points are: on disk, so that every worker reads its own part of them."""

from grinch.sharded.inputs.opening import open_rows
from grinch.sharded.inputs.rows import PIECE_BYTES, Rows

__all__ = ["PIECE_BYTES", "Rows", "open_rows"]
