"""Random schemas and values of Avro, as hypothesis draws them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from hypothesis import strategies as st

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
ATOMIC = {
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
}
LOGICAL = [
    ({"type": "int", "logicalType": "date"}, st.dates()),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        st.integers(-(1 << 50), 1 << 50).map(lambda us: EPOCH + dt.timedelta(microseconds=us)),
    ),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        st.integers(-(1 << 40), 1 << 40).map(lambda ms: EPOCH + dt.timedelta(milliseconds=ms)),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        st.integers(-(10**12) + 1, 10**12 - 1).map(lambda number: Decimal(number).scaleb(-2)),
    ),
]


@st.composite
def avro_types(draw, depth=2):
    """A type, and what draws its values."""
    kind = draw(st.sampled_from(["atomic", "logical", "nullable", *(["array", "map", "record"] if depth else [])]))
    if kind == "logical":
        return draw(st.sampled_from(LOGICAL))
    if kind in ("atomic", "nullable"):
        name = draw(st.sampled_from(sorted(ATOMIC)))
        if kind == "nullable":
            order = draw(st.permutations(["null", name]))
            return order, st.none() | ATOMIC[name]
        return name, ATOMIC[name]
    if kind == "record":
        schema, values = draw(avro_records(depth - 1))
        return schema, values
    inner, values = draw(avro_types(depth - 1))
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=4)
    return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=5), values, max_size=3)


NAMES = iter(range(1 << 30))


@st.composite
def avro_records(draw, depth=2):
    """A record with a few fields, and what draws its values."""
    fields = draw(st.lists(avro_types(depth), min_size=1, max_size=5))
    schema = {
        "type": "record",
        "name": f"Record{next(NAMES)}",
        "fields": [{"name": f"f{number}", "type": type} for number, (type, _) in enumerate(fields)],
    }
    return schema, st.fixed_dictionaries({f"f{number}": values for number, (_, values) in enumerate(fields)})
