"""
The elements of arrays and the entries of maps, laid end to end: what is computed on them, is computed on all rows at once.

`parents` says which row an element stands in, `places` at which place there, from 0. A null row has no elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.core.operation import Datum
from streamkit.expressions.core.rows import broadcast
from streamkit.plan.expression import TypedExpression
from streamkit.recast import map_entries

ElementFunction = Callable[..., pa.Array]


@dataclass(frozen=True)
class Elements:
    """The values of all rows end to end, how many each row has, and which rows are not null."""

    values: pa.Array
    lengths: np.ndarray
    valid: np.ndarray

    @classmethod
    def of(cls, array: pa.Array) -> Elements:
        """The elements of arrays, or the entries of maps as structs of key and value."""
        if pa.types.is_map(array.type):
            lengths, entries = map_entries(array)
            return cls(_named_entries(entries), as_numbers(lengths), validity(array))
        return cls(array.flatten(), as_numbers(array.value_lengths()), validity(array))

    @cached_property
    def parents(self) -> np.ndarray:
        return np.asarray(np.repeat(np.arange(len(self.lengths)), self.lengths))

    @cached_property
    def starts(self) -> np.ndarray:
        return np.asarray(np.cumsum(self.lengths) - self.lengths)

    @cached_property
    def places(self) -> np.ndarray:
        return places_in(self.lengths)

    @property
    def keys(self) -> pa.Array:
        """The keys of maps."""
        return pc.struct_field(self.values, [0])

    @property
    def items(self) -> pa.Array:
        """The values of maps."""
        return pc.struct_field(self.values, [1])

    def with_values(self, values: pa.Array) -> Elements:
        """As many elements in each row, with other values."""
        return Elements(values, self.lengths, self.valid)

    def kept(self, mask: np.ndarray) -> Elements:
        """The elements where the mask is true."""
        return Elements(self.values.filter(pa.array(mask)), self.counted(mask), self.valid)

    def counted(self, mask: np.ndarray) -> np.ndarray:
        """How many elements of each row the mask selects."""
        return np.bincount(self.parents[mask], minlength=len(self.lengths)).astype(np.int64)

    def any(self, mask: np.ndarray) -> np.ndarray:
        """In which rows the mask selects an element."""
        return self.counted(mask) > 0

    def first(self, mask: np.ndarray) -> np.ndarray:
        """For each row where the first selected element stands among all; -1 if none is selected."""
        found = np.full(len(self.lengths), -1, np.int64)
        chosen = np.flatnonzero(mask)[::-1]
        found[self.parents[chosen]] = chosen
        return found

    def as_arrays(self) -> pa.Array:
        """One array a row."""
        return pa.ListArray.from_arrays(offsets_of(self.lengths), self.values, mask=_mask(self.valid))

    def as_maps(self) -> pa.Array:
        """One map a row, of values that are structs of key and value."""
        return maps_of(self.keys, self.items, self.lengths, self.valid)


def places_in(lengths: np.ndarray) -> np.ndarray:
    """The numbers from 0 below each length, end to end."""
    return np.asarray(np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths))


def interleaved(columns: Sequence[pa.Array]) -> Elements:
    """The values of several columns as the elements of their rows."""
    width, count = len(columns), len(columns[0])
    order = np.arange(width * count).reshape(width, count).T.ravel()
    return Elements(pa.concat_arrays(columns).take(pa.array(order)), np.full(count, width), np.ones(count, bool))


def _named_entries(entries: pa.StructArray) -> pa.StructArray:
    """The entries of maps by the names that Spark gives their parts, whatever a file calls them."""
    keys, items = (pc.struct_field(entries, [place]) for place in range(2))
    fields = [pa.field("key", keys.type, nullable=False), pa.field("value", items.type)]
    return pa.StructArray.from_arrays([keys, items], fields=fields)


def maps_of(keys: pa.Array, items: pa.Array, lengths: np.ndarray, valid: np.ndarray) -> pa.Array:
    """One map a row from keys and values end to end."""
    return pa.MapArray.from_arrays(offsets_of(lengths), keys, items, mask=_mask(valid))


def structs_of(fields: list[tuple[str, pa.Array]], valid: np.ndarray | None = None) -> pa.Array:
    """One struct a row from its fields."""
    return pa.StructArray.from_arrays(
        [values for _, values in fields],
        fields=[pa.field(name, values.type) for name, values in fields],
        mask=None if valid is None else _mask(valid),
    )


def offsets_of(lengths: np.ndarray) -> pa.Array:
    """Where each row starts, and where the last one ends; ArrowInvalid if that is beyond what an array holds."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid(f"the arrays of a batch have {offsets[-1]} elements together, which are too many")
    return pa.array(offsets.astype(np.int32))


def _mask(valid: np.ndarray) -> pa.Array | None:
    return None if valid.all() else pa.array(~valid)


def validity(array: pa.Array) -> np.ndarray:
    """Which values are not null."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False)) if array.null_count else np.ones(len(array), bool)


def as_numbers(array: pa.Array) -> np.ndarray:
    """Integers as int64, null as 0."""
    filled = array.fill_null(0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def truth(array: pa.Array) -> np.ndarray:
    """Where booleans are true; null is not."""
    filled = array.fill_null(False) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def booleans(true: np.ndarray, valid: np.ndarray) -> pa.Array:
    """Booleans, null where they are not valid."""
    return pa.array(true, mask=_numpy_mask(valid))


def integers(numbers: np.ndarray, valid: np.ndarray, type: pa.DataType) -> pa.Array:
    """Integers, null where they are not valid."""
    return pa.array(numbers, mask=_numpy_mask(valid)).cast(type)


def _numpy_mask(valid: np.ndarray) -> np.ndarray | None:
    return None if valid.all() else ~valid


def taken(values: pa.Array, places: np.ndarray) -> pa.Array:
    """The values at these places; null where a place is negative."""
    missing = places < 0
    return values.take(pa.array(places, mask=missing if missing.any() else None))


def on_columns(compute: ElementFunction) -> Callable[..., Datum]:
    """A kernel that gets every value as an array; if all are constant, it computes one row."""

    @wraps(compute)
    def computed(expression: TypedExpression, *values: Datum) -> Datum:
        counts = [len(value) for value in values if isinstance(value, pa.Array)]
        result = compute(expression, *(broadcast(value, counts[0] if counts else 1) for value in values))
        return result if counts else result[0]

    return computed
