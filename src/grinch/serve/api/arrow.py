"""Points in an Arrow stream: columns id, vector and payload."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
COLUMNS = ("id", "vector", "payload")


def read(body: bytes, max_rows: int) -> tuple[npt.NDArray[Any], list[Any] | None, list[Any] | None]:
    """The vectors, the ids and the payload of a stream."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ValueError("Arrow is not installed at the server; send JSON or a NumPy array") from None
    _refuse_compressed(body)
    try:
        with pa.ipc.open_stream(body) as reader:
            _check_schema(pa, reader.schema)
            batches, n = [], 0
            for batch in reader:
                n += batch.num_rows
                if n > max_rows:
                    raise ValueError(f"the body must have at most {max_rows:,} rows. Send them in parts")
                # Nothing in it is trusted: numbers that point anywhere would be followed.
                batch.validate(full=True)
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema).combine_chunks()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the body must be a whole Arrow stream; {str(error)[:100]}") from None
    names = table.column_names
    ids = table.column("id").to_pylist() if "id" in names else None
    payload = [_payload(entry) for entry in table.column("payload").to_pylist()] if "payload" in names else None
    return _vectors(pa, table.column("vector").combine_chunks()), ids, payload


def _check_schema(pa: Any, schema: Any) -> None:
    types, kinds = pa.types, dict(zip(schema.names, schema.types, strict=True))
    if len(kinds) != len(schema.names) or "vector" not in kinds or not kinds.keys() <= set(COLUMNS):
        raise ValueError(f"the columns must be vector, and perhaps id and payload; got {', '.join(schema.names)[:100]}")
    vector = kinds["vector"]
    is_list = types.is_list(vector) or types.is_large_list(vector) or types.is_fixed_size_list(vector)
    if not is_list or not (types.is_floating(vector.value_type) or types.is_integer(vector.value_type)):
        raise ValueError(f"vector must be a list of numbers; got {str(vector)[:60]}")
    name = kinds.get("id", pa.string())
    if not (types.is_string(name) or types.is_large_string(name) or types.is_integer(name)):
        raise ValueError(f"id must be text or whole numbers; got {str(name)[:60]}")
    payload = kinds.get("payload", pa.string())
    if not (types.is_string(payload) or types.is_large_string(payload)):
        raise ValueError(f"payload must be text, a value of JSON for each point; got {str(payload)[:60]}")


def _vectors(pa: Any, column: Any) -> npt.NDArray[Any]:
    if column.null_count:
        raise ValueError("vector must be there for every point; some are null")
    values, n = column.flatten(), len(column)
    if values.null_count:
        raise ValueError("vector must be of numbers; some are null")
    if pa.types.is_fixed_size_list(column.type):
        width = column.type.list_size
    else:
        lengths = np.diff(column.offsets.to_numpy())
        width = int(lengths[0]) if n else 0
        if (lengths != width).any():
            odd = int(np.argmax(lengths != width))
            raise ValueError(f"vector must be of one length; row {odd} has {lengths[odd]} numbers, row 0 has {width}")
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(n, width)
    return found


def _payload(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"payload must be JSON for each point; got {text!r:.60}") from None


# Compression ------------------------------------------------------------------------------------------------------


def _refuse_compressed(body: bytes) -> None:
    """A few bytes could become gigabytes, and pyarrow has no limit: the messages are looked at before it is.

    What pyarrow would read in another way than it is read here (older framings, bodies that are not aligned) is
    refused, for both have to see the same messages.
    """
    at, expected = 0, SCHEMA
    try:
        while at < len(body):
            marker, length = struct.unpack_from("<Ii", body, at)
            at += 8
            if marker != MARKER or length < 0:
                raise ValueError("the body must be an Arrow stream in the format since 0.15, with a marker per message")
            if length == 0:
                break
            at += length + _check_message(body, at, expected)
            expected = RECORD_BATCH
    except (struct.error, IndexError):
        raise ValueError("the body must be a whole Arrow stream; it ends in the middle") from None
    if at != len(body):
        raise ValueError("the body must be a whole Arrow stream, with nothing behind it")


def _check_message(body: bytes, start: int, expected: int) -> int:
    """How many bytes are behind the message that starts there."""
    kind, header, size, has_metadata = _message(body, start)
    if kind != expected or header is None:
        raise ValueError("the stream must be of plain columns, without dictionaries: a schema, then batches")
    if size < 0 or size % 8 or size > len(body) or (kind == SCHEMA and size):
        raise ValueError("the body must be a whole Arrow stream; the length of a message in it is wrong")
    # Before Arrow 1.0, metadata of a batch said that it is compressed; pyarrow still reads that.
    if kind == RECORD_BATCH and (has_metadata or _field(body, header, COMPRESSION) is not None):
        raise ValueError("the stream must not be compressed, nor its batches have metadata: write it without")
    return size


# Of the tables Message and RecordBatch in Arrow's format.
HEADER_TYPE, HEADER, BODY_LENGTH, METADATA, COMPRESSION = 1, 2, 3, 4, 3
SCHEMA, RECORD_BATCH = 1, 3
# Before every message, and before the end of the stream.
MARKER = 0xFFFFFFFF


def _message(body: bytes, start: int) -> tuple[int, int | None, int, bool]:
    """The kind of a message, where its header is, how long the body behind it is, and whether it has metadata."""
    table = start + struct.unpack_from("<I", body, start)[0]
    kind, header, length, metadata = (
        _field(body, table, number) for number in (HEADER_TYPE, HEADER, BODY_LENGTH, METADATA)
    )
    found = None if header is None else header + struct.unpack_from("<I", body, header)[0]
    size = 0 if length is None else struct.unpack_from("<q", body, length)[0]
    return (0 if kind is None else body[kind]), found, size, metadata is not None


def _field(body: bytes, table: int, number: int) -> int | None:
    """Where a field of a table is; None if it is not there."""
    vtable = table - struct.unpack_from("<i", body, table)[0]
    if vtable < 0:
        raise ValueError("the body must be a whole Arrow stream")
    size = struct.unpack_from("<H", body, vtable)[0]
    if 4 + 2 * number >= size:
        return None
    offset = struct.unpack_from("<H", body, vtable + 4 + 2 * number)[0]
    return table + offset if offset else None
