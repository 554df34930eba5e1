"""How much may be unpacked: no more than there is memory for."""

from __future__ import annotations

import io
from typing import BinaryIO

from grinch._checks import available_memory
from grinch.files.points import FileError

# Where the system does not say how much memory is free.
USUAL_MEMORY = 8_000_000_000


def check_unpacked_size(name: str, size: int) -> None:
    """Refuse what would not fit in memory once it is unpacked."""
    room = available_memory() or USUAL_MEMORY
    if size > room:
        raise FileError(
            f"FILE {name!r} would unpack to {size:,} bytes, and {room:,} are free;"
            " save a part of it, or give an .npy file, which is read piece by piece"
        )


class Bounded(io.RawIOBase):
    """A stream of unpacked bytes that ends with an error when there are more than there is memory for."""

    def __init__(self, name: str, unpacked: BinaryIO):
        self.name, self.unpacked, self.size = name, unpacked, 0
        self.room = available_memory() or USUAL_MEMORY

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self.unpacked.read(len(buffer))
        self.size += len(piece)
        if self.size > self.room:
            raise FileError(
                f"FILE {self.name!r} unpacks to more than {self.room:,} bytes, all the memory that is free;"
                " unpack it yourself and save a part of it"
            )
        buffer[: len(piece)] = piece
        return len(piece)
