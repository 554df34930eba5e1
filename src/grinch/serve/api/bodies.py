"""Points that come with a request: JSON, a NumPy array, several of them, or an Arrow stream."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException
from pydantic import BaseModel, ValidationError

from grinch.serve.api import arrow
from grinch.serve.api.problems import said
from grinch.serve.api.settings import Settings
from grinch.store import inputs

JSON, NPY, NPZ, ARROW = "application/json", "application/x-npy", "application/x-npz", arrow.MEDIA_TYPE
# What is larger is read aside, so that others are answered meanwhile.
MUCH = 2**16
# A payload that is nested more deeply than this could not be read again from everywhere.
DEEPEST = 50
MOST_LISTS = 500_000

Model = TypeVar("Model", bound=BaseModel)


class Points(NamedTuple):
    """Points as they came; ``is_text`` if their numbers were written as text."""

    X: npt.NDArray[Any]
    ids: list[Any] | None = None
    payload: list[Any] | None = None
    is_text: bool = False


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read(request: Request, parse: Callable[[bytes], Any]) -> Any:
    """The body of a request, parsed; aside if it is large."""
    body = await request.body()
    return await run_in_threadpool(parse, body) if len(body) > MUCH else parse(body)


def parser(kind: str, model: type[Model], settings: Settings) -> Callable[[bytes], Model | Points]:
    """What reads a body of a media type: a model of JSON, or points."""
    readers: dict[str, Callable[[bytes], Model | Points]] = {
        JSON: lambda body: read_json(body, model),
        NPY: lambda body: Points(matrix(read_npy(body), settings)),
        NPZ: lambda body: read_npz(body, settings),
        ARROW: lambda body: _read_arrow(body, settings),
    }
    if kind not in readers:
        raise HTTPException(415, f"Content-Type must be one of {', '.join(readers)}; got {kind!r:.60}")
    return readers[kind]


def read_json(body: bytes, model: type[Model]) -> Model:
    """A model of JSON; says the first things that are wrong with it."""
    # Three bytes of an empty list take a hundred times as much when they are read.
    if body.count(b"[") + body.count(b"{") > MOST_LISTS:
        raise ValueError(f"the JSON must have at most {MOST_LISTS:,} lists and objects. Send it in parts")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        found = [{**one, "loc": ("body", *one["loc"])} for one in errors]
        raise ValueError(said(found)) from None


def read_npy(content: bytes) -> npt.NDArray[Any]:
    """An array in NumPy's format, which is a view of these bytes; nothing is unpickled."""
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, is_fortran, dtype = reader(file)
        if any(type(length) is not int or length < 0 for length in shape):
            raise ValueError(f"its shape {str(shape)[:60]} is none")
    except (ValueError, KeyError, EOFError, SyntaxError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"the body must be an array as numpy.save writes it; {str(error)[:100]}") from None
    # Compared in whole numbers: a shape can be as large as it likes.
    count = 1
    for length in shape:
        count *= length
    if dtype.kind not in "fiuU" or dtype.itemsize == 0:
        raise ValueError(f"the body must be an array of numbers; got {str(dtype)[:60]}")
    if count * dtype.itemsize != len(content) - file.tell():
        raise ValueError(
            f"the body must have as many bytes as its shape {str(shape)[:60]} says; {len(content) - file.tell():,}"
            f" are there instead of {count * dtype.itemsize:,}"
        )
    found = np.frombuffer(content, dtype, count, file.tell())
    return found.reshape(shape, order="F" if is_fortran else "C")


def read_npz(content: bytes, settings: Settings) -> Points:
    """Arrays as numpy.savez writes them: X, ids (numbers or texts), and payload, the bytes of a list in JSON.

    Instead of ids there may be ids_json, a list in JSON, too: texts of NumPy take four bytes for each character of the
    longest, and lose zeros at their end.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED or entry.file_size > len(content) for entry in entries):
                raise ValueError("the arrays must not be compressed: use numpy.savez")
            if len(entries) > 3:
                raise ValueError("the arrays must be X, and perhaps ids and payload; there are more")
            found = {entry.filename.removesuffix(".npy"): read_npy(archive.read(entry)) for entry in entries}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise ValueError(f"the body must be arrays as numpy.savez writes them; {str(error)[:100]}") from None
    if "X" not in found or not found.keys() <= {"X", "ids", "ids_json", "payload"}:
        raise ValueError(f"the arrays must be X, and perhaps ids and payload; got {', '.join(found)[:100]}")
    payload = _json_list("payload", found["payload"]) if "payload" in found else None
    return Points(matrix(found["X"], settings), _ids_in(found), payload)


def _ids_in(found: dict[str, npt.NDArray[Any]]) -> list[Any] | None:
    if "ids_json" in found:
        return _json_list("ids_json", found["ids_json"])
    ids = found.get("ids")
    if ids is not None and (ids.ndim != 1 or ids.dtype.kind == "f"):
        raise ValueError("ids must be a list of whole numbers or texts")
    try:
        return None if ids is None else ids.tolist()
    except (ValueError, SystemError):
        raise ValueError("ids must be texts; some of them are of no characters") from None


def _read_arrow(body: bytes, settings: Settings) -> Points:
    X, ids, payload = arrow.read(body, settings.max_rows)
    return Points(matrix(X, settings), ids, payload)


def _json_list(what: str, text: npt.NDArray[Any]) -> list[Any]:
    try:
        found = json.loads(text.tobytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} must be a list in JSON; {str(error)[:100]}") from None
    if not isinstance(found, list):
        raise ValueError(f"{what} must be a list in JSON")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def matrix(X: Any, settings: Settings) -> npt.NDArray[Any]:
    """Rows of finite numbers, or a ValueError that says which row is not."""
    if isinstance(X, list):
        width = len(X[0]) if X else 0
        odd = next((i for i, row in enumerate(X) if len(row) != width), None)
        if odd is not None:
            raise ValueError(f"X must have rows of one length; row {odd} has {len(X[odd])} numbers, row 0 has {width}")
        X = np.array(X, np.float64).reshape(len(X), width)
    if X.ndim != 2 or X.dtype.kind not in "fiu":
        raise ValueError(f"X must be a matrix of numbers; got {X.ndim} dimensions of {str(X.dtype)[:40]}")
    if len(X) > settings.max_rows:
        raise ValueError(f"X must have at most {settings.max_rows:,} rows; got {len(X):,}. Send them in parts")
    if len(X) and X.shape[1] == 0:
        raise ValueError("X must have at least one column")
    # In this machine's order of bytes.
    X = X.astype(X.dtype.newbyteorder("="), copy=False)
    return check_finite(X if X.dtype.kind == "f" and X.dtype.itemsize in (4, 8) else X.astype(np.float64))


def check_finite(X: npt.NDArray[Any], why: str = "") -> npt.NDArray[Any]:
    # The sum is finite if all are, nearly always; looking at each takes three times as long.
    with np.errstate(over="ignore", invalid="ignore"):
        if len(X) and not np.isfinite(X.sum()):
            odd = np.flatnonzero(~np.isfinite(X).all(axis=1))
            if len(odd):
                raise ValueError(
                    f"X must be of finite numbers; row {odd[0]} has one that is not{why}. Nothing was changed"
                )
    return X


def check_beside(points: Points, n: int, settings: Settings) -> Points:
    """Ids and payload for as many points as there are, and of the sizes that are allowed."""
    if points.ids is not None:
        if len(points.ids) != n:
            raise ValueError(f"ids must have one entry for each of the {n} points; got {len(points.ids)}")
        inputs.check_ids(points.ids, n, None)
        longest = max((name for name in points.ids if isinstance(name, str)), key=len, default="")
        if len(longest) > settings.max_id:
            raise ValueError(f"ids must have at most {settings.max_id:,} characters; got {longest[:40]!r}…")
    check_payload(points.payload, n, settings)
    return points


def check_payload(payload: list[Any] | None, n: int, settings: Settings) -> None:
    if payload is None:
        return
    if len(payload) != n:
        raise ValueError(f"payload must have one entry for each of the {n} points; got {len(payload)}")
    for i, entry in enumerate(payload):
        if _is_deep(entry):
            raise ValueError(f"payload must be nested at most {DEEPEST} deep; entry {i} is deeper")
    for i, text in enumerate(inputs.check_payload(payload, n) or ()):
        if text is not None and len(text) > settings.max_payload:
            raise ValueError(f"payload must have at most {settings.max_payload:,} characters each; entry {i} has more")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            below
            for each in level
            if isinstance(each, (dict, list))
            for below in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
