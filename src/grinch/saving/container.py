"""The one file format of grinch: named arrays and a JSON header; reading one runs nothing that is in it.

A file begins with eight bytes that say what it is. Then come the arrays, each at the beginning of a page (those
smaller than a page at a multiple of 64), so that they can be memory-mapped; blocks of zeros are not written, and the
file has holes there. Last is the header: JSON that names the kind of contents, the arrays in their order with dtype,
shape and a CRC-32 for each block of 1 MiB, and further data of the contents. The final bytes say where the header
begins, its length, the number of the format and a CRC-32 of all that.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
import struct
import weakref
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.errors import SavedModelError
from grinch.saving import disk

FORMAT = 2
MAGIC = b"\x8aGRINCH\n"
# Where the header begins, its length, the format; then the checksum of header and these, and the magic again.
_PLACE, _END = struct.Struct("<QQI"), struct.Struct("<I8s")
FOOTER_SIZE = _PLACE.size + _END.size
PAGE, LINE = 4096, 64
BLOCK = disk.CHUNK
LONGEST_HEADER = 2**28
# Numbers and flags: nothing that is an object, or runs code.
_DTYPE = re.compile(r"<[iu][248]|<f[248]|\|[biu]1")
# How files of format 1 begin: saved models and snapshots of stores; text vectors and coreference models are zips, whose
# first member has one of these names.
OLD_MODEL, OLD_SNAPSHOT, ZIP = b"\x8agrinch\n", b"grinch\x00\x01", b"PK\x03\x04"
OLD_MEMBERS = (b"about.npy", b"model.json")

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
PathLike = str | os.PathLike[str]


class LaterFormat(SavedModelError):
    """A file that only a later version of grinch can read."""


class OldFormat(SavedModelError):
    """A file of an earlier format, which ``grinch convert`` reads."""


def damaged(path: PathLike, why: str) -> SavedModelError:
    """Return the error for a file that is not as it was written."""
    return SavedModelError(f"{os.fspath(path)} is damaged: {why}")


# Writing ------------------------------------------------------------------------------------------------------------


def write(path: PathLike, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a file whole or not at all; it is on disk when this returns, in place of one of that name.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.grinch"
    >>> write(path, "numbers", {"of": "primes"}, {"few": np.array([2, 3, 5])})
    >>> found = read(path, "numbers")
    >>> found.header, found.arrays["few"].tolist()
    ({'of': 'primes'}, [2, 3, 5])
    """
    with disk.replacing(Path(path), "wb") as file:
        _write(file.fileno(), kind, header, arrays)


def _write(file: int, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    disk.write_at(file, MAGIC, 0)
    about, at = {}, len(MAGIC)
    for name, array in arrays.items():
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
        if not _DTYPE.fullmatch(array.dtype.str):
            raise ValueError(f"array {name!r} must hold numbers or flags; it is of {array.dtype}")
        at, checksums = _start_of(at, array.nbytes), list[int | None]()
        flat = np.frombuffer(disk.as_bytes(array.reshape(-1)), np.uint8)
        for start in range(0, len(flat), BLOCK):
            block = flat[start : start + BLOCK]
            checksums.append(disk.checksum(block) if block.any() else None)
            if checksums[-1] is not None:
                disk.write_at(file, block, at + start)
        about[name] = [array.dtype.str, list(array.shape), checksums]
        at += array.nbytes
    at = _start_of(at, 0)
    text = json.dumps({"kind": kind, "header": header, "arrays": about}, allow_nan=False, separators=(",", ":"))
    place = _PLACE.pack(at, len(text), FORMAT)
    content = text.encode("ascii") + place
    disk.write_at(file, content + _END.pack(zlib.crc32(content), MAGIC), at)


def _start_of(at: int, n_bytes: int) -> int:
    """Return where an array of this many bytes begins if all before it ends at ``at``."""
    unit = PAGE if n_bytes >= PAGE else LINE
    return -(-at // unit) * unit


# Reading ------------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """The place of the bytes of an array in its file."""

    offset: int
    n_bytes: int


class Container:
    """The contents of a file.

    ``arrays`` are private to this process: they can be written to, and the file stays as it is. They are read from
    disk when they are used. Checksums are compared on request (:meth:`verify`), with the bytes in the file.
    """

    def __init__(self, path: Path, kind: str, header: dict[str, Any], file: int):
        self.path, self.kind, self.header = path, kind, header
        self.arrays: Arrays = {}
        self.block_checksums: dict[str, list[int | None]] = {}
        """CRC-32 of each block of 1 MiB of each array; None for a block of zeros."""
        self.places: dict[str, Place] = {}
        self._file = file
        weakref.finalize(self, os.close, file)

    def verify(self, names: Iterable[str] | None = None) -> None:
        """Compare arrays with their checksums; all of them, and the space between, if none is named."""
        for name in self.arrays if names is None else names:
            for block in range(len(self.block_checksums[name])):
                self.verify_block(name, block)
        if names is None:
            self._verify_gaps()

    def verify_block(self, name: str, block: int) -> None:
        """Compare one block of 1 MiB of an array with its checksum."""
        offset, n_bytes = self.places[name]
        expected, start = self.block_checksums[name][block], block * BLOCK
        content = self._bytes(offset + start, min(BLOCK, n_bytes - start))
        is_right = not np.frombuffer(content, np.uint8).any() if expected is None else zlib.crc32(content) == expected
        if not is_right:
            raise damaged(self.path, f"the checksum of {name!r} is wrong at byte {start:,} of it")

    def _verify_gaps(self) -> None:
        ends = [len(MAGIC), *(place.offset + place.n_bytes for place in self.places.values())]
        starts = [*(place.offset for place in self.places.values()), _start_of(ends[-1], 0)]
        if any(any(self._bytes(end, start - end)) for end, start in zip(ends, starts, strict=True)):
            raise damaged(self.path, "there is something between its arrays")

    def _bytes(self, offset: int, length: int) -> bytes:
        # Not by a map: on file systems in memory, reading a mapped hole takes memory.
        with disk.naming(self.path):
            found = _read_at(self._file, length, offset)
        if len(found) != length:
            raise damaged(self.path, "it is cut off")
        return found


def read(path: PathLike, kind: str | None = None) -> Container:
    """Read the header of a file and map its arrays; ``kind`` is the only kind of contents that is accepted.

    Places and sizes are checked before anything is allocated. Checksums of arrays are not compared
    (:meth:`Container.verify`).
    """
    path = Path(path)
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        with disk.naming(path):
            head, end = _header_of(path, file, os.fstat(file).st_size)
        found = Container(path, head["kind"], head["header"], file)
    except BaseException:
        os.close(file)
        raise
    if kind is not None and found.kind != kind:
        raise SavedModelError(f"{path} holds {found.kind!r}, not {kind!r}")
    about = _checked_arrays(path, head["arrays"], end)
    try:
        if disk.is_in_memory(path):
            whole: mmap.mmap | bytearray = bytearray(_read_at(file, end, 0))
        else:
            whole = mmap.mmap(file, end, access=mmap.ACCESS_COPY)
    except (MemoryError, OverflowError, OSError) as error:
        raise SavedModelError(f"{path} does not fit into memory ({error})") from error
    for name, (dtype, shape, checksums, place) in about.items():
        count = math.prod(shape)
        flat = np.frombuffer(whole, dtype, count, place.offset) if count else np.empty(0, dtype)
        found.arrays[name], found.block_checksums[name], found.places[name] = flat.reshape(shape), checksums, place
    return found


def _read_at(file: int, length: int, offset: int) -> bytes:
    pieces: list[bytes] = []
    while length:
        if hasattr(os, "pread"):
            piece = os.pread(file, length, offset)
        else:
            os.lseek(file, offset, os.SEEK_SET)
            piece = os.read(file, length)
        if not piece:
            break
        pieces.append(piece)
        length, offset = length - len(piece), offset + len(piece)
    return b"".join(pieces)


def _header_of(path: Path, file: int, size: int) -> tuple[dict[str, Any], int]:
    """Return the JSON of a file's header, checked as a whole, and where it begins."""
    begins = _read_at(file, 64, 0)
    is_old_zip = begins.startswith(ZIP) and begins[30:].startswith(OLD_MEMBERS)
    if begins.startswith((OLD_MODEL, OLD_SNAPSHOT)) or is_old_zip:
        raise OldFormat(f"{path} is of an earlier format of grinch. Convert it: grinch convert {path} NEW")
    if not begins.startswith(MAGIC):
        raise SavedModelError(f"{path} is not a file that grinch wrote")
    if size < LINE + FOOTER_SIZE:
        raise damaged(path, "it is cut off")
    footer = _read_at(file, FOOTER_SIZE, size - FOOTER_SIZE)
    start, length, number = _PLACE.unpack(footer[: _PLACE.size])
    checksum, magic = _END.unpack(footer[_PLACE.size :])
    if magic != MAGIC:
        raise damaged(path, "it does not end as it should; it may be cut off")
    if length > LONGEST_HEADER or start < LINE or start % LINE or start + length + FOOTER_SIZE != size:
        raise damaged(path, "its header is not where it says")
    text = _read_at(file, length, start)
    if zlib.crc32(footer[: _PLACE.size], zlib.crc32(text)) != checksum:
        raise damaged(path, "the checksum of its header is wrong")
    if number > FORMAT:
        raise LaterFormat(
            f"{path} is of format {number}, written by a later version of grinch; this one reads up to {FORMAT}."
            " Upgrade grinch"
        )
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its header is no JSON ({error})") from None
    kinds = {"kind": str, "header": dict, "arrays": dict}
    if not isinstance(found, dict) or not all(isinstance(found.get(name), kind) for name, kind in kinds.items()):
        raise damaged(path, "its header does not say what is in it")
    return found, start


def _checked_arrays(path: Path, about: dict[str, Any], end: int) -> dict[str, tuple[str, list[int], list[Any], Place]]:
    """Return dtype, shape, checksums and place of each array: one after the other, and all of them inside the file."""
    found, at = {}, len(MAGIC)
    for name, each in about.items():
        if not (isinstance(each, list) and len(each) == 3 and isinstance(each[1], list) and isinstance(each[2], list)):
            raise damaged(path, f"{name!r:.60} is no array")
        dtype, shape, checksums = each
        if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype) or len(shape) > 32:
            raise damaged(path, f"{name!r:.60} cannot be an array of {dtype!r:.60}")
        if not all(type(n) is int and 0 <= n < 2**48 for n in shape):
            raise damaged(path, f"{name!r:.60} cannot be of shape {shape!r:.60}")
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        place = Place(_start_of(at, n_bytes), n_bytes)
        at = place.offset + n_bytes
        if at > end:
            raise damaged(path, f"{name!r:.60} is not inside it")
        if len(checksums) != -(-place.n_bytes // BLOCK) or not all(n is None or type(n) is int for n in checksums):
            raise damaged(path, f"{name!r:.60} has not one checksum for each of its blocks")
        found[name] = dtype, shape, checksums, place
    if _start_of(at, 0) != end:
        raise damaged(path, "there is something behind its arrays")
    return found
