"""
Maps as Java's HashMap has them, which is what a MAP is in ksqlDB: of entries with one key the last value, and an order by the keys' hashes.

An entry lies in one of the map's buckets, which are a power of two. The hash of its key says in which, and entries come bucket by bucket. So
their order depends on how many buckets a map has, which depends on how it was made: for so many entries, with as many buckets as Java
begins with, or as a copy. The functions that make maps leave their entries in this order. Maps that were read come in the order in which they
were written; `AS_READ` gives them that of a map made for as many entries, as ksqlDB makes it from JSON.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import has_map
from streamkit.expressions.core.elements import Elements, as_numbers, on_columns, structs_of, validity
from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.operation import Invocation, counted, function, operation
from streamkit.expressions.core.ordering import groups
from streamkit.expressions.core.spark_text import spark_text, unseen
from streamkit.expressions.ksql.iso_times import DAY_MILLIS
from streamkit.expressions.nested.arrays import first_of_each
from streamkit.plan.expression import TypedExpression

AS_READ = "ksql_as_read"
FEWEST_BUCKETS = 16  # of a map that is made for no number of entries
_TRUE_HASH, _FALSE_HASH = 1231, 1237


@function(AS_READ)
def _as_read_rule(call: Invocation) -> TypedExpression:
    """The value with the entries of its maps, at any depth, in the order of maps that were read."""
    (value,) = counted(call, 1)
    return TypedExpression(AS_READ, value.type, (value,)) if has_map(value.type) else value


spark_text(AS_READ)(unseen)


@operation(AS_READ)
@on_columns
def _as_read(_: TypedExpression, values: pa.Array) -> pa.Array:
    return as_read(values)


def as_read(values: pa.Array) -> pa.Array:
    """Values with the entries of their maps, at any depth, in the order of maps made for as many entries as they have."""
    if pa.types.is_map(values.type):
        elements = Elements.of(values)
        entries = elements.with_values(structs_of([("key", elements.keys), ("value", as_read(elements.items))]))
        return in_buckets(entries, buckets_of(entries.lengths, entries.lengths)).as_maps()
    if pa.types.is_list(values.type):
        elements = Elements.of(values)
        return elements.with_values(as_read(elements.values)).as_arrays()
    if pa.types.is_struct(values.type):
        parts = [(field.name, as_read(pc.struct_field(values, [place]))) for place, field in enumerate(values.type)]
        return structs_of(parts, validity(values))
    return values


def buckets_of(counts: np.ndarray, expected: np.ndarray | int) -> np.ndarray:
    """How many buckets maps have that were made for so many entries, and have so many: doubled while over three quarters are too few."""
    wanted = np.maximum(np.broadcast_to(expected, counts.shape), 1)
    found: np.ndarray = np.left_shift(1, np.ceil(np.log2(wanted)).astype(np.int64))
    while (is_full := counts > found * 3 // 4).any():
        found[is_full] *= 2
    return found


def in_buckets(elements: Elements, buckets: np.ndarray, *, newest_first: bool = False) -> Elements:
    """
    The entries of maps with so many buckets each, bucket by bucket; in one bucket as they were put in, or the newest first.

    Entries whose keys have a hash that Java does not define by their value, such as structs, stay where they are.
    """
    hashes = _hashes(elements.keys)
    if hashes is None or len(hashes) < 2:
        return elements
    spread = (hashes ^ (hashes >> np.uint32(16))).astype(np.int64)
    places = np.arange(len(hashes))
    order = np.lexsort((-places if newest_first else places, spread & (buckets[elements.parents] - 1), elements.parents))
    return elements if (order == places).all() else elements.with_values(elements.values.take(pa.array(order)))


def _hashes(keys: pa.Array) -> np.ndarray | None:
    """What `hashCode` gives for each key, as 32 bits without a sign; None of a type whose hashes are not known."""
    type = keys.type
    if pa.types.is_string(type):
        distinct = keys.dictionary_encode()
        return _text_hashes(distinct.dictionary)[as_numbers(distinct.indices)] if len(keys) else np.zeros(0, np.uint32)
    if pa.types.is_boolean(type):
        return np.where(np.asarray(keys.cast(pa.int8()).fill_null(0)) == 1, _TRUE_HASH, _FALSE_HASH).astype(np.uint32)
    if pa.types.is_int32(type):
        return np.asarray(keys.fill_null(0)).view(np.uint32)
    if pa.types.is_int64(type):
        words = np.asarray(keys.fill_null(0)).view(np.uint64)
    elif pa.types.is_float64(type):
        numbers = np.asarray(keys.fill_null(0.0))
        words = np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)  # Java has one NaN
    elif pa.types.is_date32(type):
        words = (np.asarray(keys.cast(pa.int32()).fill_null(0)).astype(np.int64) * DAY_MILLIS).view(np.uint64)
    elif pa.types.is_timestamp(type):
        words = np.floor_divide(np.asarray(keys.cast(pa.int64()).fill_null(0)), 1000).view(np.uint64)
    else:
        return None
    return (words ^ (words >> np.uint64(32))).astype(np.uint32)


def _text_hashes(texts: pa.StringArray) -> np.ndarray:
    """Of texts the sum of their UTF-16 units, each times 31 for each unit behind it, in 32 bits."""
    if pc.all(pc.string_is_ascii(texts)).as_py():  # each byte is a unit
        _, offsets, data = texts.buffers()
        bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
        units, lengths = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]].astype(np.uint32), np.diff(bounds)
    else:
        encoded = [text.encode("utf-16-le") for text in texts.to_pylist()]
        units = np.frombuffer(b"".join(encoded), "<u2").astype(np.uint32)
        lengths = np.array([len(one) // 2 for one in encoded], np.int64)
    ends = np.cumsum(lengths)
    powers = np.ones(int(lengths.max(initial=0)) + 1, np.uint32)
    np.multiply.accumulate(np.full(len(powers) - 1, 31, np.uint32), out=powers[1:])
    behind = np.repeat(ends, lengths) - np.arange(len(units)) - 1
    sums = np.concatenate([np.zeros(1, np.uint32), np.cumsum(units * powers[behind], dtype=np.uint32)])
    return np.asarray(sums[ends] - sums[ends - lengths])


def latest_entries(elements: Elements) -> Elements:
    """The entries of maps: of those with one key the last one stays, at the place of the first. FailingRowsError if a key is null."""
    keys = elements.keys
    check_rows(elements.any(~validity(keys)), "the key of a map is null")
    numbers = groups(keys)
    first = first_of_each(elements.parents, numbers)
    if first.all():
        return elements
    reverse = np.arange(len(numbers))[::-1]
    last = np.zeros(len(numbers), bool)
    last[reverse] = first_of_each(elements.parents[::-1], numbers[::-1])
    pairs = elements.parents * (int(numbers.max()) + 1) + numbers
    places = np.flatnonzero(last)[np.argsort(pairs[last], kind="stable")]
    wanted = np.searchsorted(np.sort(pairs[last]), pairs[first])
    kept = elements.kept(first)
    taken = elements.items.take(pa.array(places[wanted]))
    return kept.with_values(structs_of([("key", kept.keys), ("value", taken)]))
