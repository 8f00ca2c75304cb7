"""Nested types and their values, as hypothesis draws them; values are as Python has them, entries of maps as lists of pairs."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from hypothesis import strategies as st

from streamkit.data_type import array_of, element_of, entry_of, fields_of, is_nested, map_of, struct_of

UTC = dt.timezone.utc
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.sampled_from("\0aé\U0001f600"), max_size=9),
    "binary": st.binary(max_size=9),
    "date": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "timestamp": st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    "decimal(20,3)": st.decimals(-(10**16), 10**16, places=3).map(lambda number: number.quantize(decimal.Decimal("0.001"))),
    "void": st.none(),
}
KEYS = sorted(set(LEAVES) - {"void"})
NAMES = st.lists(st.sampled_from(["a", "b0", "lat", "Größe"] + ["a,b", "x>y", "`", "c d"]), min_size=1, max_size=10, unique=True)


def _structs(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return NAMES.flatmap(lambda names: st.tuples(*[inner] * len(names)).map(lambda kinds: struct_of(zip(names, kinds))))


def _deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    maps = st.tuples(st.sampled_from(KEYS), inner).map(lambda pair: map_of(*pair))
    return inner.map(array_of) | maps | _structs(inner)


ANY_TYPES = st.recursive(st.sampled_from(sorted(LEAVES)), _deeper, max_leaves=6)
NESTED_TYPES = ANY_TYPES.filter(is_nested)


def values_of(type_name: str, *, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type: structs as dicts, arrays as lists, maps as lists of pairs, each key once."""
    found = _values_of(type_name)
    return st.none() | found if nullable else found


def _values_of(type_name: str) -> st.SearchStrategy[Any]:
    if element := element_of(type_name):
        return st.lists(values_of(element), max_size=10)
    if entry := entry_of(type_name):
        pairs = st.tuples(values_of(entry[0], nullable=False), values_of(entry[1]))
        return st.lists(pairs, max_size=4, unique_by=lambda pair: pair[0])
    if fields := fields_of(type_name):
        return st.fixed_dictionaries({name: values_of(kind) for name, kind in fields})
    return LEAVES[type_name]
