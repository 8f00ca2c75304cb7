"""Values of Avro as `consume` prints them in JSON, back as Avro takes them: bytes from base 64, decimals, times and infinities from text."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any
from uuid import UUID

from streamkit.decimals import DECIMAL_CONTEXT
from streamkit.formats.json_documents import NOT_FINITE


def avro_reader(schema: str) -> Callable[[Any], Any]:
    """
    The function that reads a value of JSON for an Avro schema, given as JSON text; it raises ValueError if the value does not fit.

    A union with null is read as its other type. One of several is left as JSON has it: a text could be any of them.
    """
    import fastavro

    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(json.loads(schema), named)
    return lambda value: _read(value, parsed, named)


def _read(value: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    if isinstance(schema, list):
        types = [one for one in schema if one != "null"]
        return value if value is None or len(types) != 1 else _read(value, types[0], named)
    kind, logical = (schema["type"], schema.get("logicalType")) if isinstance(schema, dict) else (schema, None)
    if isinstance(kind, dict | list):
        return _read(value, kind, named)
    if isinstance(value, dict | list):
        return _read_parts(value, kind, schema, named)
    if logical in _LOGICAL:
        return _LOGICAL[logical](value)
    if not isinstance(value, str):
        return value
    if kind in ("float", "double") and value in NOT_FINITE:
        return float(value)
    return base64.b64decode(value, validate=True) if kind in ("bytes", "fixed") else value


def _read_parts(value: Any, kind: str, schema: Any, named: Mapping[str, Any]) -> Any:
    if kind in ("record", "error") and isinstance(value, dict):
        types = {field["name"]: field["type"] for field in schema["fields"]}
        return {name: _read(one, types[name], named) if name in types else one for name, one in value.items()}
    if kind == "map" and isinstance(value, dict):
        return {name: _read(one, schema["values"], named) for name, one in value.items()}
    if kind == "array" and isinstance(value, list):
        return [_read(one, schema["items"], named) for one in value]
    return value


def _decimal(value: Any) -> Any:
    is_number = isinstance(value, int | float | str) and not isinstance(value, bool)
    try:
        return Decimal(str(value), DECIMAL_CONTEXT) if is_number else value
    except InvalidOperation:
        raise ValueError(f"{value!r} is no decimal") from None


def of_text(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    """The function that reads a text, and leaves any other value as it is."""
    return lambda value: read(value) if isinstance(value, str) else value


def moment(value: Any, per_ms: int) -> Any:
    """
    A time of JSON, for a writer: ISO 8601 becomes a datetime, in UTC if it has no zone; milliseconds since 1970 become units, so many `per_ms`.

    ValueError for a text that is no time, and for a fraction.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value * per_ms
    if isinstance(value, float):
        raise ValueError(f"found {value!r}, expected a time of ISO 8601, or whole milliseconds")  # noqa: TRY004  (as other values)
    if not isinstance(value, str):
        return value
    found = dt.datetime.fromisoformat(f"{value[:-1]}+00:00" if value.endswith("Z") else value)
    return found if found.tzinfo else found.replace(tzinfo=dt.timezone.utc)


def _of_clock(value: Any, per_ms: int) -> Any:
    """A time without a zone, as `moment`; a text's zone means nothing there."""
    found = moment(value, per_ms)
    return found.replace(tzinfo=None) if isinstance(found, dt.datetime) else found


def _time_of_day(value: Any, per_ms: int) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value * per_ms if is_number else of_text(dt.time.fromisoformat)(value)


_LOGICAL: dict[str, Callable[[Any], Any]] = {
    "decimal": _decimal,
    "uuid": of_text(UUID),
    "date": of_text(dt.date.fromisoformat),
    "time-millis": partial(_time_of_day, per_ms=1),
    "time-micros": partial(_time_of_day, per_ms=1000),
    "timestamp-millis": partial(moment, per_ms=1),
    "timestamp-micros": partial(moment, per_ms=1000),
    "local-timestamp-millis": partial(_of_clock, per_ms=1),
    "local-timestamp-micros": partial(_of_clock, per_ms=1000),
}
