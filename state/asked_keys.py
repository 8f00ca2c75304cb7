"""Keys as users ask a view for many: tables, frames, lists of dicts, tuples or values, as arrays of the key's types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.errors import ConfigError
from streamkit.log.rows.given_rows import is_pandas
from streamkit.schema import Schema
from streamkit.state.key_value import key_values
from streamkit.state.moment import whole_milliseconds


@dataclass(frozen=True, eq=False)
class AskedKeys:
    """The key columns of the keys that a store may have, in the order in which they are asked for, and the times (ms) beside them."""

    columns: list[pa.Array]
    times: list[Integers]


def asked_columns(given: Mapping[str, Any], key: Schema, times: Sequence[str], store: str) -> AskedKeys:
    """
    Of what `by_name` gave the key columns, and the times under these names that stand beside them.

    Keys that lie between two which the store could have are left out. ConfigError for a value that is none of its column's type;
    `store` is named there.
    """
    found = [key_values(given[column.name], column, store) for column in key]
    moments = [_moments(given[name]) for name in times]
    is_there = np.ones(len(found[0].values), bool)
    for one in found:
        is_there &= ~one.is_cut
    for some in moments:
        is_there &= np.array([moment is not None for moment in some], bool)
    rows = pa.array(np.flatnonzero(is_there))
    kept_moments = ([moment for moment, is_kept in zip(some, is_there, strict=True) if is_kept] for some in moments)
    return AskedKeys([one.values.take(rows) for one in found], [np.array(some, np.int64) for some in kept_moments])


def by_name(asked: Any, choices: Sequence[Sequence[str]], store: str) -> Mapping[str, Any]:
    """
    The values of each column, as an array or a list, of keys with the names of one of these choices; all have other numbers of names.

    ConfigError for columns that are missing or unknown; `store` is named there.
    """
    if is_pandas(asked):
        found = [*map(str, asked.columns)]
        names = _chosen(len(found), choices)
        _check_names(found, names, store)
        return {name: _of_series(asked.iloc[:, found.index(name)]) for name in names}
    if hasattr(asked, "to_arrow") and not isinstance(asked, pa.Table):
        asked = asked.to_arrow()
    if isinstance(asked, pa.Table | pa.RecordBatch):
        names = _chosen(len(asked.schema.names), choices)
        _check_names(asked.schema.names, names, store)
        return {name: asked[name] for name in names}
    if isinstance(asked, pa.Array | pa.ChunkedArray):
        names = _chosen(1, choices)
        _check_count(1, names, asked, store)
        return {names[0]: asked}
    expected = ", ".join(choices[0])
    if isinstance(asked, Mapping):
        raise ConfigError(
            f"found the keys {asked!r}; {store} is asked for a list of dicts with {expected}, as in many([{asked!r}])"
        )
    if isinstance(asked, str | bytes) or not isinstance(asked, Iterable):
        raise ConfigError(f"found the keys {asked!r}; {store} is asked for a table or a list of keys with {expected}")
    rows = list(asked)
    names = _chosen(len(rows[0]) if rows and isinstance(rows[0], tuple | Mapping) else 1, choices) if rows else choices[0]
    for row in rows:
        if isinstance(row, Mapping):
            _check_names(list(row), names, store)
        else:
            _check_count(len(row) if isinstance(row, tuple) else 1, names, row, store)
    tuples = [
        tuple(row[name] for name in names) if isinstance(row, Mapping) else row if isinstance(row, tuple) else (row,)
        for row in rows
    ]
    return {name: [values[place] for values in tuples] for place, name in enumerate(names)}


def _of_series(series: Any) -> Any:
    """
    A column of a DataFrame as an array, or a list where pandas holds objects; what it takes for null is null.

    Arrow would look for one type that all objects have, and for its own sake take times for dates, or 1 for 1.0.
    """
    if series.dtype != object:
        with suppress(pa.ArrowException):  # there is no such type in Arrow, or a category holds a mixture
            return pa.array(series, from_pandas=True)
    objects = series.to_numpy(dtype=object, copy=True)
    objects[series.isna().to_numpy()] = None
    return objects.tolist()


def _chosen(count: int, choices: Sequence[Sequence[str]]) -> Sequence[str]:
    return next((names for names in choices if len(names) == count), choices[0])


def _check_names(found: Sequence[str], expected: Sequence[str], store: str) -> None:
    if sorted(found) != sorted(expected):
        raise ConfigError(f"found keys with the columns {', '.join(found) or 'none'}; {store} is asked for {', '.join(expected)}")


def _check_count(found: int, expected: Sequence[str], key: Any, store: str) -> None:
    if found != len(expected):
        raise ConfigError(f"found the key {key!r}, of {found} values; {store} is asked for {', '.join(expected)}")


def _moments(given: Any) -> list[int | None]:
    values = given if isinstance(given, list) else given.to_pylist()
    return [whole_milliseconds(value) for value in values]
