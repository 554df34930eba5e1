"""Saved models with something wrong in them, and all checksums right."""

from __future__ import annotations

import json
import zlib

from grinch.saving import file
from grinch.saving.compact import pack
from grinch.saving.parts import Parts, take_apart


def written(path, parts: Parts, change_section=None, format=1) -> None:
    """Write parts as ``save`` does, but as they are."""
    sections, contents = [], []
    for name, array in parts.arrays.items():
        content, steps = file.code_array(array)
        content = bytes(content)
        section = {
            "name": name,
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "steps": steps,
            "size": len(content),
            "crc": zlib.crc32(content),
        }
        if change_section is not None:
            change_section(section)
        sections.append(section)
        contents.append(content)
    write_header(path, {"manifest": parts.manifest, "sections": sections}, contents, format)


def write_header(path, header, contents=(), format=1) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode("ascii")
    start = file.MAGIC + file._START.pack(format, len(text), file._checksum(format, text))
    path.write_bytes(start + text + b"".join(contents))


def packed(model) -> Parts:
    """The parts of a model as a file has them, free to be changed."""
    parts = pack(take_apart(model))
    return Parts(parts.manifest, {name: array.copy() for name, array in parts.arrays.items()})
