"""The state of a store as one file: arrays that are memory-mapped when it is opened, and what they are.

The file has the arrays first, each at the beginning of a page, then a header in JSON, and last where the header is.
Parts of arrays that are all zero are left out (the file has holes there). Every chunk of an array has a checksum.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import struct
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.store import disk
from grinch.store.damage import DamagedStore, LaterFormat, damaged
from grinch.store.disk import CHUNK

FORMAT = 1
MAGIC = b"grinch\x00\x01"
# Where the header begins, its length, its checksum, and the magic again.
FOOTER = struct.Struct("<QQI8s")
PAGE = 4096
# Kinds of numbers that an array may hold: nothing that is an object, or runs code.
DTYPES = re.compile(r"[<|](?:b1|[iu][1248]|f[48])")
LONGEST_HEADER = 2**28

Arrays = dict[str, npt.NDArray[Any]]


class Snapshot(NamedTuple):
    """What a snapshot holds; ``arrays`` can be written to, and the file stays as it is."""

    path: Path
    manifest: dict[str, Any]
    arrays: Arrays
    checksums: dict[str, list[int | None]]

    def verify(self, names: Iterable[str] | None = None) -> None:
        """Compare arrays with their checksums; before anything is written to them."""
        for name in self.arrays if names is None else names:
            for i, (piece, expected) in enumerate(zip(_pieces(self.arrays[name]), self.checksums[name], strict=True)):
                is_right = not piece.any() if expected is None else disk.checksum(piece) == expected
                if not is_right:
                    raise damaged(self.path, f"the checksum of {name!r} is wrong at byte {i * CHUNK:,} of it")


def _pieces(array: npt.NDArray[Any]) -> list[npt.NDArray[np.uint8]]:
    flat = np.frombuffer(disk.as_bytes(array), np.uint8)
    return [flat[start : start + CHUNK] for start in range(0, len(flat), CHUNK)]


# Writing ------------------------------------------------------------------------------------------------------------


def write_snapshot(path: Path, manifest: dict[str, Any], arrays: Arrays) -> None:
    """Write a snapshot whole or not at all; it is on disk when this returns."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o644)
    try:
        with disk.naming(path):
            try:
                _write(file, manifest, arrays)
                disk.sync(file)
            finally:
                os.close(file)
            os.replace(temporary, path)
            disk.sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _write(file: int, manifest: dict[str, Any], arrays: Arrays) -> None:
    disk.write_at(file, MAGIC, 0)
    described, at = {}, PAGE
    for name, array in arrays.items():
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        checksums: list[int | None] = []
        for i, piece in enumerate(_pieces(array)):
            checksums.append(disk.checksum(piece) if piece.any() else None)
            if checksums[-1] is not None:
                disk.write_at(file, piece, at + i * CHUNK)
        described[name] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "offset": at,
            "checksums": checksums,
        }
        at = -(-(at + array.nbytes) // PAGE) * PAGE
    header = json.dumps({"format": FORMAT, "manifest": manifest, "arrays": described}).encode()
    disk.write_at(file, header, at)
    disk.write_at(file, FOOTER.pack(at, len(header), zlib.crc32(header), MAGIC), at + len(header))


# Reading ------------------------------------------------------------------------------------------------------------


def read_snapshot(path: Path) -> Snapshot:
    """Map a snapshot into memory; what is in the arrays is read when it is looked at."""
    size = path.stat().st_size
    if size < PAGE + FOOTER.size:
        raise damaged(path, "it is too short")
    whole = disk.mapped(path, private=True)
    start, length, checksum, magic = FOOTER.unpack(whole[size - FOOTER.size :])
    if whole[: len(MAGIC)] != MAGIC or magic != MAGIC:
        raise damaged(path, "it does not begin and end as a snapshot does")
    if length > LONGEST_HEADER or start + length + FOOTER.size != size:
        raise damaged(path, "its header is not where it says")
    header = bytes(whole[start : start + length])
    if zlib.crc32(header) != checksum:
        raise damaged(path, "the checksum of its header is wrong")
    try:
        return _read(path, whole, start, json.loads(header))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DamagedStore):
            raise
        raise damaged(path, f"its header makes no sense ({type(error).__name__}: {error})") from None


def _read(path: Path, whole: Any, end: int, header: dict[str, Any]) -> Snapshot:
    if header["format"] > FORMAT:
        raise LaterFormat(
            f"{path} is of format {header['format']}, written by a later version of grinch; this one reads up to"
            f" {FORMAT}. Upgrade grinch"
        )
    arrays, checksums = {}, {}
    for name, about in header["arrays"].items():
        dtype, shape, offset = about["dtype"], tuple(about["shape"]), about["offset"]
        if not DTYPES.fullmatch(dtype) or not all(isinstance(n, int) and 0 <= n < 2**48 for n in shape):
            raise damaged(path, f"{name!r} cannot be an array of {dtype} in shape {shape}")
        count = math.prod(shape)
        n_bytes = count * np.dtype(dtype).itemsize
        if not isinstance(offset, int) or offset % PAGE or offset < PAGE or offset + n_bytes > end:
            raise damaged(path, f"{name!r} is not inside the file")
        flat = np.frombuffer(whole, dtype, count, offset) if count else np.empty(0, dtype)
        arrays[name], checksums[name] = flat.reshape(shape), about["checksums"]
        if len(checksums[name]) != -(-n_bytes // CHUNK):
            raise damaged(path, f"{name!r} has not one checksum for each of its parts")
    return Snapshot(path, header["manifest"], arrays, checksums)


# In the background --------------------------------------------------------------------------------------------------

CAN_FORK = hasattr(os, "fork")


def run_aside(work: Callable[[], None]) -> int:
    """Run ``work`` on the memory as it is now, in a process of its own; its number. It ends with 0 if all went well.

    The process is a fork: memory is shared with it, and a page is copied when this process writes to it. ``work`` may
    write files and nothing else, for other threads, with whatever they hold, are not there.
    """
    import gc
    import signal
    import warnings

    with warnings.catch_warnings():
        # Python warns of forks beside threads, whose locks are never opened in the fork; this one takes none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        gc.disable()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work()
        code = 0
    finally:
        os._exit(code)
