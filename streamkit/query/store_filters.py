"""
Filters of a scan of a store: comparisons of its key columns, and of the times of its windows, with constants.

They choose what is read, and the condition from which they come is checked once more on each row: so what they choose may have
rows too many, and never one too few.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from streamkit.expressions.python.python_functions import exact_array
from streamkit.log.values.keys import encode_keys
from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.query.comparisons import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    GREATER,
    IN,
    IS_NULL,
    LESS,
    NULL_SAFE,
    ColumnComparison,
    comparisons,
)
from streamkit.schema import Schema
from streamkit.state.single_key import after
from streamkit.state.stored_rows import StoredRows, WantedRows

if TYPE_CHECKING:
    from streamkit.expressions.analysis.row_condition import RowCondition

KEYS_MAX = 10_000  # of keys that are looked up one by one, in place of a scan
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND = dt.timedelta(milliseconds=1)


@dataclass(frozen=True)
class ColumnBounds:
    """What filters leave of a column: some values (None: any), which are at least `low` and at most `high` if these are given."""

    values: tuple[Any, ...] | None = None
    low: tuple[Any, ...] = ()
    high: tuple[Any, ...] = ()


@dataclass(frozen=True)
class StoreFilters:
    """What filters leave of a store, by column."""

    columns: Mapping[str, ColumnBounds] = field(default_factory=dict)

    @classmethod
    def of(cls, condition: RowCondition) -> StoreFilters:
        """What a condition leaves, and perhaps more."""
        found = cls()
        for comparison in comparisons(condition.predicate):
            found = found.with_comparison(comparison)
        return found

    def with_comparison(self, comparison: ColumnComparison) -> StoreFilters:
        """With one comparison more."""
        bounds = self.columns.get(comparison.column, ColumnBounds())
        if comparison.sign in (EQUAL, NULL_SAFE, IN):
            bounds = _of_values(bounds, comparison.values)
        elif comparison.sign == IS_NULL:
            bounds = _of_values(bounds, (None,))
        elif comparison.sign in (GREATER, AT_LEAST):
            bounds = replace(bounds, low=(*bounds.low, *comparison.values))
        elif comparison.sign in (LESS, AT_MOST):
            bounds = replace(bounds, high=(*bounds.high, *comparison.values))
        return StoreFilters({**self.columns, comparison.column: bounds})

    def keys(self, stored: StoredRows) -> list[pa.Array] | None:
        """The key columns of all keys that are left, each once, if they are few, and rows are found by them alone."""
        if stored.layout.before or stored.layout.after or stored.store.is_spread:
            return None
        values = [self._values(name) for name in stored.key.names]
        count = 1
        for some in values:
            count *= KEYS_MAX + 1 if some is None else len(some)
        if count > KEYS_MAX:
            return None
        rows = list(product(*(some for some in values if some is not None)))
        found = [_array([row[place] for row in rows], stored.key, name) for place, name in enumerate(stored.key.names)]
        columns = [column for column in found if column is not None]
        return distinct_keys(columns) if len(columns) == len(found) else None

    def wanted(self, stored: StoredRows) -> WantedRows:
        """The bounds within which all rows are that are left."""
        start, end = self._key_bounds(stored.key)
        wanted = WantedRows(key_start=start, key_end=end)
        if stored.has_windows:
            first, last = self._times(WINDOW_START)
            wanted = replace(wanted, start_ms=first, end_ms=None if last is None else last + 1)
        if stored.has_sessions:
            wanted = replace(wanted, ends_from_ms=self._times(WINDOW_END)[0])
        return wanted

    def whole_key(self, stored: StoredRows) -> list[pa.Array] | None:
        """The one key that is left, of whatever windows; None if there are several."""
        values = [self._values(name) for name in stored.key.names]
        if stored.store.is_spread or any(some is None or len(some) != 1 for some in values):
            return None
        found = [_array(list(some or ()), stored.key, name) for some, name in zip(values, stored.key.names, strict=True)]
        return None if any(column is None for column in found) else [column for column in found if column is not None]

    def _values(self, name: str) -> tuple[Any, ...] | None:
        return self.columns[name].values if name in self.columns else None

    def _key_bounds(self, key: Schema) -> tuple[bytes, bytes | None]:
        """Bounds of the encoded key: of the first columns that have one value each, and of the one behind them."""
        begin = b""
        for name in key.names:
            bounds = self.columns.get(name)
            encoded = None if bounds is None or bounds.values is None else _encoded(bounds.values, key, name)
            if encoded and len(encoded) == 1:
                begin += encoded[0]
                continue
            if encoded:
                return begin + min(encoded), after(begin + max(encoded))
            low = [] if bounds is None else _encoded(bounds.low, key, name) or []
            high = [] if bounds is None else _encoded(bounds.high, key, name) or []
            if low or high:
                end = after(begin + min(high)) if high else after(begin) if begin else None
                return begin + max(low, default=b""), end
            break
        return begin, after(begin) if begin else None

    def _times(self, name: str) -> tuple[int | None, int | None]:
        """The first and the last millisecond that is left of a time."""
        bounds = self.columns.get(name, ColumnBounds())
        low, high = list(bounds.low), list(bounds.high)
        if bounds.values and all(map(_is_time, bounds.values)):
            low.append(min(bounds.values))
            high.append(max(bounds.values))
        lows = [(value - _EPOCH) // _MILLISECOND for value in low if _is_time(value)]
        highs = [-((_EPOCH - value) // _MILLISECOND) for value in high if _is_time(value)]
        return max(lows, default=None), min(highs, default=None)


def distinct_keys(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Each key once, where it is first: NaN is one key, and so are 0.0 and -0.0."""
    if len(columns[0]) < 2:
        return list(columns)
    codes = encode_keys(columns).dictionary_encode().indices.to_numpy()
    first = pa.array(np.sort(np.unique(codes, return_index=True)[1]))
    return [column.take(first) for column in columns]


def _of_values(bounds: ColumnBounds, values: tuple[Any, ...]) -> ColumnBounds:
    """With one of these values; where there are some already, either set has all that are left."""
    return bounds if bounds.values is not None and len(bounds.values) <= len(values) else replace(bounds, values=values)


def _is_time(value: Any) -> bool:
    return isinstance(value, dt.datetime) and value.tzinfo is not None


def _array(values: Sequence[Any], key: Schema, name: str) -> pa.Array | None:
    """Constants as the column has them; None if one does not fit, or is a time without a zone where the column has one, or with."""
    type = key[name].arrow.type
    has_zone = pa.types.is_timestamp(type) and type.tz is not None
    if any(isinstance(value, dt.datetime) and (value.tzinfo is not None) != has_zone for value in values):
        return None
    try:
        return exact_array(list(values), type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _encoded(values: Sequence[Any], key: Schema, name: str) -> list[bytes] | None:
    """The encoding of each value of a key column; None if one does not fit."""
    array = _array(values, key, name)
    found: list[bytes] | None = None if array is None or not len(array) else encode_keys([array]).to_pylist()
    return found
