"""Random types and values of columns that become JSON, as hypothesis draws them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

MOMENTS = {
    "s": st.integers(-62_135_596_800, 253_402_300_799),
    "ms": st.integers(-62_135_596_800_000, 253_402_300_799_999),
    "us": st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
}
TEXTS = st.text(max_size=8) | st.text('\\"\n\t\x00\x1f\x7f/ü😀a', max_size=8)
DOUBLES = st.floats() | st.sampled_from(
    [0.0, -0.0, 1e15, 1e16, 1e-5, 9.99e-6, 1e21, 5e-324, 1.7976931348623157e308, math.nan, math.inf]
)
ATOMS = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.uint64(), st.integers(0, (1 << 64) - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), DOUBLES),
    (pa.string(), TEXTS),
    (pa.binary(), st.binary(max_size=7)),
    (pa.null(), st.none()),
    (pa.decimal128(38, 12), st.decimals(-(10**25), 10**25, places=12)),
    (pa.decimal128(5, 0), st.decimals(-99_999, 99_999, places=0)),
    (pa.date32(), st.dates()),
    (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    (pa.float16(), st.floats(width=16).map(np.float16)),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us", "Europe/Berlin"), st.integers(0, 1 << 50)),
    *((pa.timestamp(unit, zone), MOMENTS[unit]) for unit in MOMENTS for zone in (None, "UTC")),
]
FAR = [(pa.date32(), st.integers(-(1 << 31), (1 << 31) - 1)), (pa.timestamp("us", "UTC"), st.integers(-(1 << 63), (1 << 63) - 1))]


@st.composite
def types(draw, depth=2):
    """A type, and what draws its values."""
    kind = draw(st.sampled_from(["atom"] * 3 + (["list", "map", "struct"] if depth else [])))
    if kind == "atom":
        return draw(st.sampled_from(ATOMS))
    inner, values = draw(types(depth - 1))
    values = st.none() | values
    if kind == "list":
        return pa.list_(inner), st.lists(values, max_size=3)
    if kind == "map":
        key, names = draw(st.sampled_from([one for one in ATOMS if one[0] != pa.null() and not pa.types.is_dictionary(one[0])]))
        return pa.map_(key, inner), st.lists(st.tuples(names, values), max_size=3)
    fields = {"a": (inner, values), **{name: draw(types(depth - 1)) for name in draw(st.lists(TEXTS, max_size=2, unique=True))}}
    return (
        pa.struct([pa.field(name, kind) for name, (kind, _) in fields.items()]),
        st.fixed_dictionaries({name: st.none() | values for name, (_, values) in fields.items()}),
    )


@st.composite
def batches(draw):
    """Rows of random types; a part of longer columns."""
    columns = draw(st.dictionaries(TEXTS, types() | st.sampled_from(FAR), max_size=3))
    count = draw(st.integers(1, 4))
    order = np.random.default_rng(draw(st.integers(0, 99))).integers(0, count, 80)
    arrays = [
        pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind).take(pa.array(order))
        for kind, values in columns.values()
    ]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * 80, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns)).slice(draw(st.integers(0, 9)))


def result(write, rows):
    """What a writer gives; whether there is an error."""
    try:
        return write(rows)
    except (ValueError, TypeError, OverflowError):
        return "an error"
