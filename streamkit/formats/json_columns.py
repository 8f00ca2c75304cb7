"""
JSON objects as columns, by Arrow's reader, which takes them as lines, and gives what `json_documents` gives.

Arrow gets values that begin with `{` and end with `}`, so that no two that are no JSON are one together, and nothing that it takes
otherwise: bare NaN and infinities, zero bytes, what nests deep. Rows among which it finds something wrong, and columns with maps, are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from streamkit.arrays import Integers, Mask
from streamkit.chunks import one_array
from streamkit.data_type import fields_of, has_map, inner_types, to_arrow
from streamkit.decimals import SMALL_IN_JSON, wide_decimal
from streamkit.formats.decoded import Decoded, nullable, put_back
from streamkit.formats.json_documents import DEPTH_MAX, documents_as_columns, finished, may_be_deep
from streamkit.formats.time_texts import TIMES
from streamkit.schema import Schema

JsonPart: TypeAlias = "tuple[Integers, pa.RecordBatch]"
_BLOCK_BYTES = 1 << 20
_LINES_BYTES_MAX = 1 << 30
_ROWS_ONE_BY_ONE = 64  # among so few Arrow does not look for the one that is wrong
FEW_BYTES = 2_500  # read one by one: Arrow takes 0.5 ms of a core for any call, and two threads, which wait where cores are busy
_REFUSALS_MAX = 64  # of Arrow's, then all that is left is read one by one
_OBJECT = re.compile(rb"\s*\{.*\}\s*", re.DOTALL)
_TEXT = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\.)*"')
NOT_ARROWS = (b"NaN", b"Inf", b"\0")  # documents with these Arrow's reader takes for others
_SPACE = b" \t\r\n"
_AS_TEXT = (*TIMES, "date", "binary")
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


def read_objects(values: pa.Array, columns: Schema) -> Decoded:
    """The columns of JSON objects, none of which is null; a field that is missing is null, one without a column is left out."""
    mapped = Schema(tuple(column for column in columns if has_map(column.type)))
    others = Schema(tuple(column for column in columns if not has_map(column.type)))
    failures: dict[int, str] = {}
    arrays: dict[str, pa.Array] = {}
    if len(mapped):
        found = _one_by_one(values, np.arange(len(values)), mapped, failures)
        arrays |= dict(zip(mapped.names, found.columns, strict=True))
    if len(others) or not len(mapped):
        arrays |= dict(zip(others.names, _by_arrow(values, others, failures).columns, strict=True))
    rows = pa.RecordBatch.from_arrays([arrays[name] for name in columns.names], names=list(columns.names))
    return Decoded(nullable(rows), failures)


def _by_arrow(values: pa.Array, columns: Schema, failures: dict[int, str]) -> pa.RecordBatch:
    """The columns, by Arrow where it can be and pays, else one by one; what does not fit goes to the failures."""
    bounds = _bounds(values)
    if bounds[-1] - bounds[0] < FEW_BYTES:
        return _one_by_one(values, np.arange(len(values)), columns, failures)
    lines, odd = _lines(values)
    if any("decimal" in column.type for column in columns):
        odd |= pc.match_substring_regex(lines, SMALL_IN_JSON).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(~odd)
    parts: list[JsonPart] = []
    left = [np.flatnonzero(odd)]
    for some, table in _read_in_ranges(lines if len(rows) == len(lines) else lines.take(pa.array(rows)), columns):
        if table is None:
            left.append(rows[some])
        else:
            parts.append((rows[some], table))
    slow = np.sort(np.concatenate(left))
    if len(slow):
        parts.append((slow, _one_by_one(values, slow, columns, failures)))
    return put_back(parts, columns, len(values))


def _one_by_one(values: pa.Array, rows: Integers, columns: Schema, failures: dict[int, str]) -> pa.RecordBatch:
    """The columns of some documents."""
    arrays, wrong = documents_as_columns(values.take(pa.array(rows)).to_pylist(), columns)
    found = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([column.arrow.with_nullable(True) for column in columns]))
    for number, reason in wrong.items():
        failures.setdefault(int(rows[number]), reason)
    return found


def _read_in_ranges(lines: pa.Array, columns: Schema) -> Iterator[tuple[slice, pa.RecordBatch | None]]:
    """Ranges of the lines with what Arrow reads of them; None where one that it refuses is among few."""
    ranges, refusals = [(0, len(lines))] if len(lines) else [], 0
    while ranges:
        start, end = ranges.pop()
        rows = slice(start, end)
        if refusals < _REFUSALS_MAX:
            found = _attempt(lines[start:end], columns)
            if found is not None:
                yield rows, found
                continue
            refusals += 1
        if end - start <= _ROWS_ONE_BY_ONE or refusals == _REFUSALS_MAX:
            yield rows, None
        else:
            middle = (start + end) // 2
            ranges += [(middle, end), (start, middle)]


def _attempt(lines: pa.Array, columns: Schema) -> pa.RecordBatch | None:
    """What Arrow reads; None if it refuses a line."""
    for times in (pa.string(), pa.int64()) if any(column.type in TIMES for column in columns) else (pa.string(),):
        try:
            return _table(lines, columns, times)
        except (pa.ArrowException, ValueError):
            continue
    return None


def _table(lines: pa.Array, columns: Schema, times: pa.DataType) -> pa.RecordBatch:
    """The columns as Arrow's reader gives them, times from texts or from milliseconds."""
    bounds = _bounds(lines)
    if bounds[-1] - bounds[0] > _LINES_BYTES_MAX:
        raise ValueError("these are too many bytes for one block")
    lines.cast(pa.string())  # refuses bytes that are not UTF-8, which Arrow's reader takes
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), b"\n")[0].as_buffer()
    wanted = pa.schema([pa.field(column.name, _physical(column.type, times)) for column in columns])
    read = pa.json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, len(text) + 1))
    parse = pa.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    table = pa.json.read_json(pa.BufferReader(text), read, parse)
    if table.num_rows != len(lines):
        raise ValueError("a value is not one JSON object")
    arrays = [_checked(one_array(table[column.name], column.name), column.type) for column in columns]
    return nullable(pa.RecordBatch.from_arrays(arrays, names=list(columns.names)))


def _checked(found: pa.Array, type: str) -> pa.Array:
    """The values in their type; ValueError for a number that became infinite, which Arrow does not see."""
    done = finished(found, type)
    if ("float" in type or "double" in type) and not are_finite(done):
        raise ValueError("a number is beyond its type")
    return done


def are_finite(found: pa.Array) -> bool:
    """Whether no number is infinite, at any depth."""
    if pa.types.is_struct(found.type):
        return all(map(are_finite, found.flatten()))
    if pa.types.is_list(found.type):
        return are_finite(found.flatten())
    return not (pa.types.is_floating(found.type) and pc.any(pc.is_inf(found)).as_py())


def _lines(values: pa.Array) -> tuple[pa.Array, Mask]:
    """The documents each in one line, and which of them are not for Arrow's reader."""
    odd = ~_are_objects(values)
    bounds, content = _bounds(values), values.buffers()[2]
    joined = content.slice(int(bounds[0]), int(bounds[-1] - bounds[0])).to_pybytes() if content is not None else b""
    if b"\n" in joined or b"\r" in joined:
        documents = [_one_line(one) if b"\n" in one or b"\r" in one else one for one in values.to_pylist()]
        odd |= np.fromiter((b"\n" in one or b"\r" in one for one in documents), np.bool_, len(documents))
        values = pa.array(documents, values.type)
    for mark in NOT_ARROWS:
        if mark[:1] in joined and mark in joined:  # one byte is looked for ten times as fast as several
            odd |= pc.match_substring(values, mark).to_numpy(zero_copy_only=False)
    long = np.flatnonzero(np.diff(_bounds(values)) > DEPTH_MAX)
    odd[[row for row in long.tolist() if may_be_deep(values[row].as_py())]] = True
    return values, odd


def _one_line(document: bytes) -> bytes:
    """The document without line ends between its parts; as it is where one may stand in a text, which JSON does not allow."""
    stripped = document.strip(_SPACE)
    if b"\n" not in stripped and b"\r" not in stripped:
        return stripped
    return document if b'"' in _TEXT.sub(b"", stripped) else stripped.translate(_ONE_LINE)


def _are_objects(values: pa.Array) -> Mask:
    """Which values begin and end as objects do."""
    bounds, data = _bounds(values), values.buffers()[2]
    found: Mask = bounds[1:] - bounds[:-1] >= 2
    if found.any():
        content = np.frombuffer(data, np.uint8)
        first, last = content[np.where(found, bounds[:-1], 0)], content[np.where(found, bounds[1:] - 1, 0)]
        found &= (first == ord("{")) & (last == ord("}"))
    for row in np.flatnonzero(~found):
        found[row] = _OBJECT.fullmatch(values[int(row)].as_py()) is not None
    return found


def _bounds(values: pa.Array) -> npt.NDArray[np.int32]:
    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)


def _physical(type: str, times: pa.DataType) -> pa.DataType:
    """The type in which Arrow's reader gives it."""
    if type in TIMES:
        return times
    if type in _AS_TEXT:
        return pa.string()
    if fields := fields_of(type):
        return pa.struct([pa.field(name, _physical(inner, times)) for name, inner in fields])
    if inner := inner_types(type):
        return pa.list_(_physical(inner[0], times))
    return wide_decimal(to_arrow(type)) if type.startswith("decimal") else to_arrow(type)
