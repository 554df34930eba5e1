"""One file for a model: written whole or not at all, and opened without running anything in it.

A file begins with eight bytes that say what it is, the version of the format, and the length and the checksum of the
header. The header is JSON: the manifest of the model (:mod:`grinch.saving.parts`, made smaller by
:mod:`grinch.saving.compact`) and the list of arrays, whose bytes follow in that order, each with a checksum.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

import grinch
from grinch._checks import available_memory
from grinch.errors import NotSavable, SavedModelError
from grinch.estimators.base import TreeClusterer, lock_of
from grinch.files.write import replacing
from grinch.saving.coding import code_array, decode_array, unpacked_size
from grinch.saving.compact import pack, unpack
from grinch.saving.parts import Parts, check_model, put_together, take_apart
from grinch.saving.schema import FORMAT

MAGIC = b"\x8agrinch\n"
# Version of the format, length of the header, its checksum.
_START = struct.Struct("<IQI")
# Where the system does not say how much memory is free.
USUAL_MEMORY = 8_000_000_000


def save(model: TreeClusterer, path: str | os.PathLike[str]) -> None:
    """Write a model to a file; a file of that name is replaced when all of the new one is on disk."""

    def write() -> None:
        parts = pack(take_apart(model))
        coded = {name: code_array(array) for name, array in parts.arrays.items()}
        sections = [
            {
                "name": name,
                "dtype": parts.arrays[name].dtype.str,
                "shape": list(parts.arrays[name].shape),
                "steps": steps,
                "size": len(content),
                "crc": zlib.crc32(content),
            }
            for name, (content, steps) in coded.items()
        ]
        header = {"written_by": grinch.__version__, "manifest": parts.manifest, "sections": sections}
        text = json.dumps(header, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
        with replacing(Path(path), "wb") as out:
            out.write(MAGIC + _START.pack(FORMAT, len(text), _checksum(FORMAT, text)) + text)
            for content, _ in coded.values():
                out.write(content)

    if not isinstance(model, TreeClusterer):
        raise NotSavable(f"model must be an estimator of grinch; got {type(model).__name__}")
    # Nobody changes the model meanwhile.
    with lock_of(model):
        write()


def load(path: str | os.PathLike[str], *, linkage: Any = None, search: Any = None) -> Any:
    """Open a model that :meth:`~grinch.estimators.base.TreeClusterer.save` wrote; it goes on where it was.

    Nothing in the file is run, and nothing is imported because a file says so. A linkage or search of your own is
    looked up by its name among the modules that are imported already.

    Parameters
    ----------
    path : str or path
        The file.
    linkage : optional
        The linkage of your own that the model was built with, if the file could not hold it, or to look up nothing.
    search : optional
        The same for ``search``.

    Examples
    --------
    >>> import grinch, tempfile
    >>> path = tempfile.mkdtemp() + "/model.grinch"
    >>> grinch.Grinch(linkage=lambda a, b: -abs(sum(a) / len(a) - sum(b) / len(b))).fit([1, 9, 2, 8]).save(path)
    >>> grinch.load(path)
    Traceback (most recent call last):
    grinch.errors.SavedModelError: ...: the linkage is a function, which a file cannot hold. Hand in ...
    >>> model = grinch.load(path, linkage=lambda a, b: -abs(sum(a) / len(a) - sum(b) / len(b)))
    >>> model.n_leaves_
    4
    """
    if os.path.isdir(path):
        raise IsADirectoryError(
            f"path must be the file of a saved model; {os.fspath(path)!r} is a folder. A store is"
            " opened with grinch.open"
        )
    with _naming(path):
        model = put_together(unpack(_read(path)), linkage=linkage, search=search)
        check_model(model)
    return model


def _checksum(version: int, text: bytes) -> int:
    return zlib.crc32(text, zlib.crc32(struct.pack("<IQ", version, len(text))))


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever is wrong with a file, say which it is and what."""
    try:
        yield
    except SavedModelError as error:
        raise SavedModelError(f"{os.fspath(path)}: {error}") from None
    except MemoryError as error:
        raise SavedModelError(f"{os.fspath(path)}: the saved model does not fit into memory ({error})") from error
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, AssertionError) as error:
        raise SavedModelError(
            f"{os.fspath(path)}: the saved model is damaged ({type(error).__name__}: {error})"
        ) from error
    except ValueError as error:
        if isinstance(error, UnicodeError) or type(error) is not ValueError:
            raise SavedModelError(f"{os.fspath(path)}: the saved model is damaged ({error})") from error
        raise SavedModelError(f"{os.fspath(path)}: {error}") from error


def _read(path: str | os.PathLike[str]) -> Parts:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = _header(file, size)
        sections, manifest = header.get("sections"), header.get("manifest")
        if not isinstance(sections, list) or not isinstance(manifest, dict):
            raise SavedModelError("the header does not say what is in the file")
        _check_sizes(sections, size - file.tell())
        return Parts(manifest, {section["name"]: _section(file, section) for section in sections})


def _header(file: IO[bytes], size: int) -> dict[str, Any]:
    start = file.read(len(MAGIC) + _START.size)
    if not start.startswith(MAGIC):
        raise SavedModelError("this is not a model that grinch saved")
    if len(start) < len(MAGIC) + _START.size:
        raise SavedModelError("the file is cut off")
    version, length, checksum = _START.unpack(start[len(MAGIC) :])
    if length > size - len(start):
        raise SavedModelError("the file is cut off or damaged: its header does not fit into it")
    text = file.read(length)
    if _checksum(version, text) != checksum:
        raise SavedModelError("the file is damaged: its header does not have the checksum that it should")
    if version > FORMAT:
        raise SavedModelError(
            f"the file is of format {version}, and this version of grinch ({grinch.__version__}) knows formats up to"
            f" {FORMAT}. Install a later one"
        )
    if version != FORMAT:
        raise SavedModelError(f"there is no format {version}")
    header = json.loads(text)
    if not isinstance(header, dict):
        raise SavedModelError("the header does not say what is in the file")
    return header


def _check_sizes(sections: list[Any], left: int) -> None:
    """All that is to be read must be there, and fit into memory, before any of it is read."""
    unpacked, names = 0, set()
    for section in sections:
        size, name = section["size"], section["name"]
        if type(size) is not int or size < 0 or not isinstance(name, str) or name in names:
            raise SavedModelError(f"{section!r:.100} is no array")
        names.add(name)
        left -= size
        unpacked += unpacked_size(section["dtype"], section["shape"])
    if left != 0:
        raise SavedModelError(
            f"the file is cut off: {-left:,} bytes are missing" if left < 0 else f"{left:,} bytes are too many"
        )
    room = available_memory() or USUAL_MEMORY
    if unpacked > room:
        raise SavedModelError(f"its arrays take {unpacked:,} bytes of memory, and {room:,} are free")


def _section(file: IO[bytes], section: dict[str, Any]) -> npt.NDArray[Any]:
    content = np.fromfile(file, np.uint8, section["size"]).data
    if len(content) != section["size"] or zlib.crc32(content) != section["crc"]:
        raise SavedModelError(f"the file is damaged: array {section['name']!r} does not have its checksum")
    return decode_array(content, section["dtype"], section["shape"], section["steps"], section["name"])
