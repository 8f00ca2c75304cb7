"""Keys as users ask a view for many: tables, frames, lists of dicts, tuples or values, as arrays of the key's types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.chunks import one_array
from streamkit.errors import ConfigError
from streamkit.expressions.python.python_functions import exact_array
from streamkit.recast import recast
from streamkit.schema import Schema, SchemaColumn
from streamkit.state.moment import milliseconds


def asked_columns(asked: Any, key: Schema, times: Sequence[str], store: str) -> tuple[list[pa.Array], list[Integers]]:
    """
    The key columns of all keys, and the times (ms) under these names that stand beside them.

    ConfigError for a column that is missing or unknown, and for a value that is none of its column's type; `store` is named there.
    """
    given = _by_name(asked, [*key.names, *times], store)
    columns = [_key_column(given[column.name], column, store) for column in key]
    return columns, [_moments(given[name]) for name in times]


def _by_name(asked: Any, names: Sequence[str], store: str) -> Mapping[str, Any]:
    """The values of each column, as an array or a list."""
    if hasattr(asked, "to_arrow") and not isinstance(asked, pa.Table):
        asked = asked.to_arrow()
    elif type(asked).__module__.partition(".")[0] == "pandas" and hasattr(asked, "columns"):
        asked = pa.Table.from_pandas(asked, preserve_index=False)
    if isinstance(asked, pa.Table | pa.RecordBatch):
        _check_names(asked.schema.names, names, store)
        return {name: asked[name] for name in names}
    if isinstance(asked, pa.Array | pa.ChunkedArray):
        _check_count(1, names, asked, store)
        return {names[0]: asked}
    if isinstance(asked, str | bytes) or not isinstance(asked, Iterable):
        raise ConfigError(f"found the keys {asked!r}; {store} is asked for a table or a list of keys with {', '.join(names)}")
    rows = list(asked)
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


def _check_names(found: Sequence[str], expected: Sequence[str], store: str) -> None:
    if sorted(found) != sorted(expected):
        raise ConfigError(f"found keys with the columns {', '.join(found) or 'none'}; {store} is asked for {', '.join(expected)}")


def _check_count(found: int, expected: Sequence[str], key: Any, store: str) -> None:
    if found != len(expected):
        raise ConfigError(f"found the key {key!r}, of {found} values; {store} is asked for {', '.join(expected)}")


def _key_column(given: Any, column: SchemaColumn, store: str) -> pa.Array:
    type = column.arrow.type
    try:
        if isinstance(given, list):
            return exact_array(given, type)
        array = one_array(given, column.name)
        array = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
        if pa.types.is_integer(type) and pa.types.is_floating(array.type):
            return exact_array(array.to_pylist(), type)
        return array if array.type == type else recast(array, type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"the keys do not fit; {store} has {column.name} {column.type}, expected values of that type: {error}"
        ) from error


def _moments(given: Any) -> Integers:
    values = given if isinstance(given, list) else given.to_pylist()
    return np.array([milliseconds(value) for value in values], np.int64)
