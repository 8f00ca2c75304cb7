"""Keys and values of Python as the bytes of an opaque topic."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_batch
from streamkit.data_type import element_of, fields_of
from streamkit.errors import SchemaError
from streamkit.formats.format import Format
from streamkit.log.rows.conversion import convert_python
from streamkit.log.topic.formats import KEY, KeyColumns, encode, key_columns_of
from streamkit.schema import Schema

_PLAIN = {"string": str, "int": int, "bigint": int, "boolean": bool, "double": float, "binary": bytes}

_UNITS = {"date": "days", "timestamp": "microseconds"}
_EPOCH: dict[str, Any] = {"date": dt.date(1970, 1, 1), "timestamp": dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)}


def encoded_column(format: Format, name: str, values: list[Any]) -> pa.Array:
    """
    Keys or values as bytes of a topic's format; SchemaError names the row that it cannot hold.

    Keys under a schema of a registry, which the format says, are dicts of their columns, and have the bytes that SQL writes.
    """
    keys = key_columns_of(format) if name == KEY else None
    return encode(format, values, name) if keys is None else _encoded_keys(format, keys, values)


def _encoded_keys(format: Format, keys: KeyColumns, values: list[Any]) -> pa.Array:
    """Dicts of a key's columns as the bytes under a schema of a registry; bytes are written as they are."""
    names = keys.columns.names
    for number, value in enumerate(values):
        is_other = isinstance(value, Mapping) and (not value or (keys.is_own and not set(value) <= set(names)))
        if is_other or not isinstance(value, Mapping | bytes | None):
            shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:77]}..."
            raise SchemaError(
                f"row {number}, column {KEY!r}: found {shown}, expected a dict of the columns of the topic's keys, which are {keys.columns}, in the "
                f"format {keys.codec.format.name}; or bytes that are such a key",
                (number,),
            )
    # What formats and columns take from Python alike needs no columns, which take four times as long for a key alone.
    is_plain = keys.codec.format.name != "json" and (not keys.is_own or all(_is_plain(value, keys.columns) for value in values))
    return encode(format, values, KEY) if is_plain else _of_columns(keys, values)


def _is_plain(key: Any, columns: Schema) -> bool:
    """Whether a key is bytes, or has a value of Python's own type in each column."""
    if not isinstance(key, Mapping):
        return True
    return all(key.get(one.name) is None or type(key[one.name]) is _PLAIN.get(one.type) for one in columns)


def _of_columns(keys: KeyColumns, values: list[Any]) -> pa.Array:
    """Dicts as SQL writes their columns, which are values of Python, or texts as JSON has them; SchemaError names the row and the column."""
    batch = _columns_of(keys, [value if isinstance(value, Mapping) else {} for value in values])
    given = pa.array([value if isinstance(value, bytes) else None for value in values], pa.binary())
    is_dict = np.array([isinstance(value, Mapping) for value in values], np.bool_)
    if not is_dict.any():
        return given
    found = keys.codec.encode(batch.filter(pa.array(is_dict))).take(pa.array(np.cumsum(is_dict) - 1, mask=~is_dict))
    return pc.if_else(pa.array(is_dict), found, given)


def _columns_of(keys: KeyColumns, rows: list[Mapping[str, Any]]) -> pa.RecordBatch:
    """
    The columns of dicts with values of Python; of a dict that has texts in their place, as JSON has them.

    If one has such texts, each dict is read alone, because otherwise its neighbours would be read as texts, too.
    """
    try:
        as_number = keys.codec.format.name != "json"
        columns = [
            convert_python(one, [_filled(one.type, row.get(one.name), as_number=as_number) for row in rows])
            for one in keys.columns
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(keys.columns.names))
    except SchemaError:
        if len(rows) == 1:
            # A reader of JSON drops the fields that it does not know.
            if not all(_has_fields(one.type, rows[0].get(one.name)) for one in keys.columns):
                raise
            if (read := keys.as_read(rows)) is None:
                raise
            return read
    parts = []
    for number, row in enumerate(rows):
        try:
            parts.append(_columns_of(keys, [row]))
        except SchemaError as error:
            raise SchemaError(str(error).replace("row 0", f"row {number}", 1), (number,)) from None
    return one_batch(pa.Table.from_batches(parts))


def _has_fields(type: str, value: Any) -> bool:
    """Whether dicts within a value have fields of their structs alone."""
    if (fields := fields_of(type)) and isinstance(value, Mapping):
        known = dict(fields)
        return all(name in known and _has_fields(known[name], one) for name, one in value.items())
    if (element := element_of(type)) and isinstance(value, list):
        return all(_has_fields(element, one) for one in value)
    return True


def _filled(type: str, value: Any, *, as_number: bool) -> Any:
    """A value with null for fields of structs that it leaves out; in Avro and Protobuf a time may be a number: of days, or of microseconds."""
    if (fields := fields_of(type)) and isinstance(value, Mapping):
        known = dict(fields)
        return {
            **dict.fromkeys(known),
            **{name: _filled(known.get(name, ""), one, as_number=as_number) for name, one in value.items()},
        }
    if (element := element_of(type)) and isinstance(value, list):
        return [_filled(element, one, as_number=as_number) for one in value]
    if as_number and isinstance(value, int) and not isinstance(value, bool) and type in _UNITS:
        return _EPOCH[type] + dt.timedelta(**{_UNITS[type]: value})
    return value
