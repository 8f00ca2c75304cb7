"""
Keys of windows as Kafka Streams writes them: the bytes of the key, then the window.

Behind them are the start of a window that all have of one length, in milliseconds; of a session its end and its start.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.formats.decoded import Decoded
from streamkit.formats.format import WINDOW, Format
from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.schema import Schema

BOUNDS = (WINDOW_START, WINDOW_END)
SESSION = "session"


def inner_format(format: Format) -> Format:
    """The format of the key without its window; a schema of Avro or Protobuf describes this part already."""
    is_of_columns = format.schema is not None and format.name not in ("avro", "protobuf")
    schema = without_bounds(Schema.from_ddl(str(format.schema))).ddl() if is_of_columns else format.schema
    return replace(format, schema=schema, settings=tuple(pair for pair in format.settings if pair[0] != WINDOW))


def without_bounds(columns: Schema) -> Schema:
    """The columns of the key without its window."""
    return columns.select(name for name in columns.names if name not in BOUNDS)


def split(format: Format, values: pa.Array) -> tuple[pa.Array, dict[str, pa.Array], dict[int, str]]:
    """The bytes before the window, its bounds, and why some values have none."""
    size = format.setting(WINDOW)
    length = 16 if size == SESSION else 8
    keys, starts, ends, failures = list[bytes](), list[int](), list[int](), dict[int, str]()
    for row, data in enumerate(values.to_pylist()):
        if len(data) < length:
            failures[row] = f"it has {len(data)} bytes, and a key with a window at least {length}"
            data = bytes(length)
        keys.append(data[:-length])
        if size == SESSION:
            end, start = struct.unpack(">qq", data[-length:])
        else:
            (start,) = struct.unpack(">q", data[-length:])
            end = start + int(size)
        starts.append(start * 1000)
        ends.append(end * 1000)
    kind = pa.timestamp("us", "UTC")
    return pa.array(keys, pa.binary()), {WINDOW_START: pa.array(starts, kind), WINDOW_END: pa.array(ends, kind)}, failures


def joined(format: Format, keys: pa.Array, rows: pa.RecordBatch) -> pa.Array:
    """Keys with their windows behind them."""
    if any(name not in rows.schema.names for name in BOUNDS):
        raise SchemaError(f"a key with windows has the columns {' and '.join(BOUNDS)}")
    starts, ends = (np.asarray(rows[name].cast(pa.timestamp("us")).cast(pa.int64())) // 1000 for name in BOUNDS)
    found = []
    for key, start, end in zip(keys.to_pylist(), starts.tolist(), ends.tolist(), strict=True):
        bounds = struct.pack(">qq", end, start) if format.setting(WINDOW) == SESSION else struct.pack(">q", start)
        found.append((key or b"") + bounds)
    return pa.array(found, pa.binary())


def with_bounds(decoded: Decoded, bounds: dict[str, pa.Array], failures: dict[int, str], columns: Schema) -> Decoded:
    """Rows of keys without their windows, with the bounds of the windows."""
    arrays = [bounds[name] if name in bounds else decoded.rows[name] for name in columns.names]
    rows = pa.RecordBatch.from_arrays(arrays, names=list(columns.names))
    return Decoded(rows, {**decoded.failures, **failures})


def value_coders(
    window: str, write: Callable[[Any], bytes], read: Callable[[bytes], Any]
) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """What writes and reads one key of Python, which is a dict: `key`, and the `start` and `end` of its window in milliseconds."""
    length = 16 if window == SESSION else 8

    def write_one(value: Any) -> bytes:
        bounds = (value["end"], value["start"]) if window == SESSION else (value["start"],)
        key = b"" if value["key"] is None else write(value["key"])
        return key + struct.pack(f">{len(bounds)}q", *bounds)

    def read_one(data: bytes) -> Any:
        if len(data) < length:
            raise ValueError(f"it has {len(data)} bytes, and a key with a window at least {length}")
        found = struct.unpack(f">{length // 8}q", data[-length:])
        start, end = (found[1], found[0]) if window == SESSION else (found[0], found[0] + int(window))
        return {"key": read(data[:-length]), "start": start, "end": end}

    return write_one, read_one
