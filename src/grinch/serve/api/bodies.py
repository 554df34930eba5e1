"""Points that come with a request: JSON, a NumPy array, several of them, or an Arrow stream."""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException
from pydantic import BaseModel, ValidationError

from grinch.io.arrays import read_header
from grinch.io.parquet import fill, is_list_type
from grinch.serve.api import models
from grinch.serve.api.answers import in_a_line
from grinch.serve.api.guard import Settings
from grinch.store import inputs

JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"
ARROW = "application/vnd.apache.arrow.stream"
# Larger bodies are parsed in a thread, so that others are answered meanwhile.
MAX_IN_LOOP = 2**16
# A payload that is nested more deeply could not be read again from everywhere.
MAX_DEPTH = 50
MAX_LISTS = 500_000
ARROW_COLUMNS = ("id", "vector", "payload")
# Fields of the tables Message and RecordBatch in Arrow's format.
HEADER, METADATA, COMPRESSION = 2, 4, 3

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
    """Return the body of a request, parsed; in a thread if it is large."""
    body = await request.body()
    return await run_in_threadpool(parse, body) if len(body) > MAX_IN_LOOP else parse(body)


async def read_ids(request: Request, settings: Settings) -> list[Any]:
    """Return the ids in the body of a request."""
    kind = media_type(request)
    if kind != JSON:
        raise HTTPException(415, f"Content-Type must be {JSON}; got {kind!r:.60}")
    given = await read(request, lambda body: read_json(body, models.IdsGiven))
    return check_count(given.ids, settings)


def check_count(ids: list[Any], settings: Settings) -> list[Any]:
    """Return ids, or raise ValueError if they are too many."""
    if len(ids) > settings.max_rows:
        raise ValueError(f"ids must be at most {settings.max_rows:,}; got {len(ids):,}. Send them in parts")
    return ids


def parser(request: Request, model: type[Model], settings: Settings) -> Callable[[bytes], Model | Points]:
    """Return the parser of a body by its media type: to a model of JSON, or to points."""
    readers: dict[str, Callable[[bytes], Model | Points]] = {
        JSON: lambda body: read_json(body, model),
        NPY: lambda body: Points(matrix(read_npy(body), settings)),
        NPZ: lambda body: read_npz(body, settings),
        ARROW: lambda body: read_arrow(body, settings),
    }
    kind = media_type(request)
    if kind not in readers:
        raise HTTPException(415, f"Content-Type must be one of {', '.join(readers)}; got {kind!r:.60}")
    return readers[kind]


def json_body(model: Any) -> dict[str, Any]:
    """Return the OpenAPI description of a body that its route reads itself."""
    return {"requestBody": {"required": True, "content": {JSON: {"schema": model.model_json_schema()}}}}


def points_body(model: Any) -> dict[str, Any]:
    """Return the OpenAPI description of a body of points in any format."""
    description = json_body(model)
    binary = {"schema": {"type": "string", "format": "binary"}}
    description["requestBody"]["content"] |= dict.fromkeys((NPY, NPZ, ARROW), binary)
    return description


def read_json(body: bytes, model: type[Model]) -> Model:
    """Return a model of JSON; raises ValueError with the first errors."""
    # Three bytes of an empty list take a hundred times as much memory when they are parsed.
    if body.count(b"[") + body.count(b"{") > MAX_LISTS:
        raise ValueError(f"the JSON must have at most {MAX_LISTS:,} lists and objects. Send it in parts")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        located = [{**one, "loc": ("body", *one["loc"])} for one in errors]
        raise ValueError(in_a_line(located)) from None


def read_npy(content: bytes) -> npt.NDArray[Any]:
    """Return an array in NumPy's format as a view of these bytes; nothing is unpickled."""
    file = io.BytesIO(content)
    try:
        shape, dtype, by_column = read_header("the body", file, len(content))
    except (ValueError, EOFError, SyntaxError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"the body must be an array as numpy.save writes it; {str(error)[:200]}") from None
    if dtype.kind not in "fiuU" or dtype.itemsize == 0:
        raise ValueError(f"the body must be an array of numbers; got {str(dtype)[:60]}")
    count, start = math.prod(shape), file.tell()
    if start + count * dtype.itemsize < len(content):
        raise ValueError("the body must end with the array; there are bytes behind it")
    return np.frombuffer(content, dtype, count, start).reshape(shape, order="F" if by_column else "C")


def read_npz(content: bytes, settings: Settings) -> Points:
    """Return the points in arrays of numpy.savez: X, ids (numbers or texts), and payload, the bytes of a list in JSON.

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
            arrays = {entry.filename.removesuffix(".npy"): read_npy(archive.read(entry)) for entry in entries}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise ValueError(f"the body must be arrays as numpy.savez writes them; {str(error)[:100]}") from None
    if "X" not in arrays or not arrays.keys() <= {"X", "ids", "ids_json", "payload"}:
        raise ValueError(f"the arrays must be X, and perhaps ids and payload; got {', '.join(arrays)[:100]}")
    payload = _json_list("payload", arrays["payload"]) if "payload" in arrays else None
    return Points(matrix(arrays["X"], settings), _ids_in(arrays), payload)


def _ids_in(arrays: dict[str, npt.NDArray[Any]]) -> list[Any] | None:
    if "ids_json" in arrays:
        return _json_list("ids_json", arrays["ids_json"])
    ids = arrays.get("ids")
    if ids is not None and (ids.ndim != 1 or ids.dtype.kind == "f"):
        raise ValueError("ids must be a list of whole numbers or texts")
    try:
        return None if ids is None else ids.tolist()
    except (ValueError, SystemError):
        raise ValueError("ids must be texts; some of them are of no characters") from None


def _json_list(what: str, text: npt.NDArray[Any]) -> list[Any]:
    try:
        values = json.loads(text.tobytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} must be a list in JSON; {str(error)[:100]}") from None
    if not isinstance(values, list):
        raise ValueError(f"{what} must be a list in JSON")
    return values


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def matrix(X: Any, settings: Settings) -> npt.NDArray[Any]:
    """Return rows of finite numbers; raises ValueError with the first row that is not."""
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
    """Return rows, or raise ValueError if a number is not finite."""
    # The sum is nearly always finite if all are; checking each takes three times as long.
    with np.errstate(over="ignore", invalid="ignore"):
        if len(X) and not np.isfinite(X.sum()):
            odd = np.flatnonzero(~np.isfinite(X).all(axis=1))
            if len(odd):
                raise ValueError(
                    f"X must be of finite numbers; row {odd[0]} has one that is not{why}. Nothing was changed"
                )
    return X


def check_beside(points: Points, n: int, settings: Settings) -> Points:
    """Return points, or raise ValueError if ids or payload are not one for each point, or too long."""
    if points.ids is not None:
        inputs.check_ids(points.ids, n, None)
        longest = max((name for name in points.ids if isinstance(name, str)), key=len, default="")
        if len(longest) > settings.max_id:
            raise ValueError(f"ids must have at most {settings.max_id:,} characters; got {longest[:40]!r}…")
    _check_payload(points.payload, n, settings)
    return points


def _check_payload(payload: list[Any] | None, n: int, settings: Settings) -> None:
    for i, entry in enumerate(payload or ()):
        if _is_deep(entry):
            raise ValueError(f"payload must be nested at most {MAX_DEPTH} deep; entry {i} is deeper")
    for i, text in enumerate(inputs.check_payload(payload, n) or ()):
        if text is not None and len(text) > settings.max_payload:
            raise ValueError(f"payload must have at most {settings.max_payload:,} characters each; entry {i} has more")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            below
            for each in level
            if isinstance(each, (dict, list))
            for below in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


# Arrow -----------------------------------------------------------------------------------------------------------


def read_arrow(body: bytes, settings: Settings) -> Points:
    """Return the points of an Arrow stream with columns id, vector and payload."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ValueError("Arrow is not installed at the server; send JSON or a NumPy array") from None
    try:
        source, batches, n = pa.BufferReader(body), [], 0
        messages = list(pa.ipc.MessageReader.open_stream(source))
        if [message.type for message in messages] != ["schema", *["record batch"] * (len(messages) - 1)]:
            raise ValueError("the stream must be of plain columns, without dictionaries: a schema, then batches")
        if source.tell() != len(body):
            raise ValueError("the body must be a whole Arrow stream, with nothing behind it")
        _check_schema(pa, schema := pa.ipc.read_schema(messages[0]))
        for message in messages[1:]:
            _refuse_compressed(bytes(message.metadata))
            batches.append(batch := pa.ipc.read_record_batch(message, schema))
            n += batch.num_rows
            if n > settings.max_rows:
                raise ValueError(f"the body must have at most {settings.max_rows:,} rows. Send them in parts")
            # Nothing in it is trusted: numbers that point anywhere would be followed.
            batch.validate(full=True)
        table = pa.Table.from_batches(batches, schema).combine_chunks()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the body must be a whole Arrow stream; {str(error)[:100]}") from None
    names = table.column_names
    ids = table.column("id").to_pylist() if "id" in names else None
    payload = [_payload(entry) for entry in table.column("payload").to_pylist()] if "payload" in names else None
    vectors = table.column("vector")
    width = len(vectors[0].as_py() or ()) if table.num_rows else 0
    X = np.empty((table.num_rows, width), vectors.type.value_type.to_pandas_dtype())
    fill(X, table.to_batches(), ["vector"], True, "the body")
    return Points(matrix(X, settings), ids, payload)


def _check_schema(pa: Any, schema: Any) -> None:
    types, kinds = pa.types, dict(zip(schema.names, schema.types, strict=True))
    if len(kinds) != len(schema.names) or "vector" not in kinds or not kinds.keys() <= set(ARROW_COLUMNS):
        raise ValueError(f"the columns must be vector, and perhaps id and payload; got {', '.join(schema.names)[:100]}")
    vector = kinds["vector"]
    if not is_list_type(vector):
        raise ValueError(f"vector must be a list of numbers; got {str(vector)[:60]}")
    name = kinds.get("id", pa.string())
    if not (types.is_string(name) or types.is_large_string(name) or types.is_integer(name)):
        raise ValueError(f"id must be text or whole numbers; got {str(name)[:60]}")
    payload = kinds.get("payload", pa.string())
    if not (types.is_string(payload) or types.is_large_string(payload)):
        raise ValueError(f"payload must be text, a value of JSON for each point; got {str(payload)[:60]}")


def _payload(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"payload must be JSON for each point; got {text!r:.60}") from None


def _refuse_compressed(message: bytes) -> None:
    """Refuse a compressed batch, of which a few bytes could become gigabytes; pyarrow has no limit."""
    try:
        table = struct.unpack_from("<I", message)[0]
        header = _field(message, table, HEADER)
        batch = None if header is None else header + struct.unpack_from("<I", message, header)[0]
        # Before Arrow 1.0, metadata of a batch said that it is compressed; pyarrow still reads that.
        is_plain = batch is not None and _field(message, batch, COMPRESSION) is None
        is_plain = is_plain and _field(message, table, METADATA) is None
    except struct.error:
        raise ValueError("the body must be a whole Arrow stream") from None
    if not is_plain:
        raise ValueError("the stream must not be compressed, nor its batches have metadata: write it without")


def _field(message: bytes, table: int, number: int) -> int | None:
    """Return the place of a field of a table; None if it is not there."""
    vtable = table - struct.unpack_from("<i", message, table)[0]
    if vtable < 0:
        raise ValueError("the body must be a whole Arrow stream")
    size = struct.unpack_from("<H", message, vtable)[0]
    if 4 + 2 * number >= size:
        return None
    offset = struct.unpack_from("<H", message, vtable + 4 + 2 * number)[0]
    return table + offset if offset else None
