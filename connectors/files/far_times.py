"""
Times as text, also those outside the years 1 to 9999, which a wrong unit makes: their year has a sign, as in +57861-07-09T08:00:00Z.

That is ISO 8601, and how Spark writes them. The calendar repeats itself every 400 years, so such a time is written
as the one at the same place in the years from 2000 on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.log.topic.formats import Format, rows_of
from streamkit.log.values.python_values import has_far_times

_YEARS, _DAYS = 400, 146_097  # after which the calendar repeats itself
_FIRST_YEAR = 2000
_PER_DAY = {"D": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}


def time_text(time: np.datetime64, zone: str = "") -> str:
    """A time, or a date, as ISO 8601; the year has a sign if it is not of 1 to 9999."""
    unit = np.datetime_data(time)[0]
    first = int(np.datetime64(_FIRST_YEAR - 1970, "Y").astype(f"M8[{unit}]").astype(np.int64))
    turns, place = divmod(int(time.astype(np.int64)) - first, _DAYS * _PER_DAY[unit])
    near = np.int64(first + place).astype(f"M8[{unit}]").item()
    year = near.year + _YEARS * turns
    return f"{year:04}{near.isoformat()[4:]}{zone}" if 1 <= year <= 9999 else f"{year:+05}{near.isoformat()[4:]}{zone}"


def printed_rows(data: pa.Table | pa.RecordBatch, format: Format | None = None) -> list[dict[str, Any]]:
    """The rows as dicts of Python values, decoded by the format, with times that Python cannot hold as texts."""
    rows = rows_of(format, data)
    for name in data.schema.names:
        if has_far_times(data[name]):
            for row in rows:
                row[name] = _printed(row[name], data[name].type)
    return rows


def _printed(value: Any, kind: pa.DataType) -> Any:
    """A value of a type, nested or not, in which times that Python cannot hold are texts."""
    if isinstance(value, np.datetime64):
        return time_text(value, "Z" if getattr(kind, "tz", None) else "")
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return {name: _printed(one, kind.field(name).type) for name, one in value.items()}
    if isinstance(value, dict):
        return {_printed(key, kind.key_type): _printed(one, kind.item_type) for key, one in value.items()}
    if isinstance(value, list) and pa.types.is_map(kind):
        return [(_printed(key, kind.key_type), _printed(one, kind.item_type)) for key, one in value]
    return [_printed(one, kind.value_type) for one in value] if isinstance(value, list) else value
