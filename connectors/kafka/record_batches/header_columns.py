"""Headers of records: a list of names and values for each record, behind their count."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Bytes, Integers, Mask
from streamkit.connectors.kafka.record_batches.byte_ranges import ends_of, gathered, lengths_of
from streamkit.connectors.kafka.record_batches.varints import check, read_varint, read_varints, varint_array
from streamkit.errors import RecordBatchError, SchemaError
from streamkit.log.slab.frame import HEADERS_TYPE

HEADER_BYTES_MIN = 2  # a byte for each length
NO_HEADERS = b"\0"  # their count
_NOTHING = b""
IN_STEP_MIN = 32  # records whose headers are read together; of fewer, Python reads them sooner than numpy


def read_headers(data: Bytes, body: pa.Buffer, at: Integers, stops: Integers) -> tuple[pa.Array, Integers]:
    """The headers of each record from their counts on, null where there are none, and the positions behind them."""
    counts, ends = read_varints(data, at, stops)
    if not counts.any():
        return pa.nulls(len(counts), HEADERS_TYPE), ends
    check(
        (counts >= 0) & (counts * HEADER_BYTES_MIN <= stops - ends), "a count of headers below 0, or beyond the end of its record"
    )
    edges = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=edges[1:])
    # The places of all headers: where name and value begin and end. A header that is not read yet has none.
    places = np.empty((4, int(edges[-1])), np.int64)
    is_null = np.zeros(places.shape[1], np.bool_)
    going = np.flatnonzero(counts)
    step = 0
    while len(going) >= IN_STEP_MIN:  # the next header of all records that have another
        slots = edges[going] + step
        stop = stops[going]
        lengths, begins = read_varints(data, ends[going], stop)
        check(lengths >= 0, "a header whose name is null")
        places[0, slots], places[1, slots] = begins, ends_of(begins, lengths, stop)
        lengths, begins = read_varints(data, places[1, slots], stop)
        places[2, slots], places[3, slots] = begins, ends_of(begins, lengths, stop)
        is_null[slots] = lengths < 0
        ends[going] = places[3, slots]
        step += 1
        going = going[counts[going] > step]
    for row in going.tolist():
        first, last = int(edges[row]) + step, int(edges[row + 1])
        ends[row] = _read_one_by_one(body, int(ends[row]), int(stops[row]), places[:, first:last], is_null[first:last])
    names = _names(gathered(body, places[0], places[1], np.zeros_like(is_null)))
    pairs = pa.StructArray.from_arrays(
        [names, gathered(body, places[2], places[3], is_null)], fields=list(HEADERS_TYPE.value_type)
    )
    has_none = pa.array(counts == 0)
    return pa.ListArray.from_arrays(
        pa.array(edges), pairs, type=HEADERS_TYPE, mask=has_none if has_none.true_count else None
    ), ends


def _read_one_by_one(body: pa.Buffer, begin: int, stop: int, places: Integers, is_null: Mask) -> int:
    """Fill in the places of a record's headers, and return the position behind them."""
    data = body[begin:stop].to_pybytes()
    at = 0
    try:
        for number in range(places.shape[1]):
            name_length, name_begin = read_varint(data, at)
            if name_length < 0:
                raise RecordBatchError("found a header whose name is null")
            name_end = name_begin + name_length
            value_length, value_begin = read_varint(data, name_end)
            at = value_begin + max(value_length, 0)
            if value_length < -1 or at > len(data):
                raise RecordBatchError("found a header whose value has a length below -1, or beyond the end of its record")
            places[:, number] = (begin + name_begin, begin + name_end, begin + value_begin, begin + at)
            is_null[number] = value_length < 0
    except IndexError:
        raise RecordBatchError("found headers that go on behind the end of their record") from None
    return begin + at


def _names(names: pa.Array) -> pa.Array:
    """Names as texts. What is not UTF-8 gets Unicode's sign for that, as Kafka's own clients do it."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def header_bytes(headers: pa.Array) -> pa.Array:
    """What each record ends with: the count of its headers, and its headers; null headers are none."""
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy().astype(np.int64)
    pairs = headers.flatten()
    names, values = pc.struct_field(pairs, 0).cast(pa.binary()), pc.struct_field(pairs, 1)
    if names.null_count or pairs.null_count:
        places = pc.or_(names.is_null(), pairs.is_null()).to_numpy(zero_copy_only=False)
        row = int(np.searchsorted(np.cumsum(counts), int(np.flatnonzero(places)[0]), side="right"))
        raise SchemaError(f"row {row}: found a header whose name is null; expected a text", (row,))
    begin = varint_array(counts)
    if not len(names):
        return begin
    each = pc.binary_join_element_wise(
        varint_array(lengths_of(names)), names, varint_array(lengths_of(values)), values, _NOTHING,
        null_handling="replace", null_replacement=b"",
    )  # fmt: skip
    # One buffer has all pairs, so those of a record are one range of it.
    edges = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=edges[1:])
    positions = np.frombuffer(each.buffers()[1], np.int32)[edges]
    joined = pa.BinaryArray.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(positions), each.buffers()[2]])
    return pc.binary_join_element_wise(begin, joined, _NOTHING)
