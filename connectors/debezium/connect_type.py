"""What the types of Kafka Connect's schemas become in a topic, and their values, as JSON or Avro has them, as Arrow arrays."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.files.record_lines import json_text
from streamkit.connectors.value_handling import FAIL, INFINITY, NULL
from streamkit.decimals import decimals_of_python
from streamkit.errors import SchemaError
from streamkit.formats.float_range import FLOAT_END
from streamkit.formats.json_documents import NOT_FINITE

DIGITS_MAX = 38
VARIABLE_SCALE = 18  # of numbers that each have a scale of their own
TIME_SECONDS_END = 839 * 3600  # of MySQL, whose times are lengths; others end with the day
_DAY_SECONDS = 86_400
_NANOSECONDS = r"^(.*:\d\d\.\d{6})\d{1,3}(Z|[+-]\d\d(?::?\d\d)?)$"
_REFUSED = (pa.ArrowException, ValueError, TypeError, KeyError, ArithmeticError, AttributeError)


@dataclass(frozen=True)
class ConnectType:
    """
    The Arrow type of a field, and how its values are read; `read` raises SchemaError for one that does not fit.

    `is_optional` says that it may be null, `default` the value where a record has none, as the record would have it.
    """

    arrow: pa.DataType
    parse: Callable[[Sequence[Any], pa.DataType], pa.Array]
    is_optional: bool = True
    default: Any = None

    def read(self, values: Sequence[Any]) -> pa.Array:
        try:
            return self.parse(values, self.arrow)
        except _REFUSED as error:
            raise SchemaError(f"found a value that does not fit in {self.arrow}: {error}") from None


def connect_type(schema: Mapping[str, Any], infinity: str = FAIL) -> ConnectType:
    """
    The type that a field's schema says; SchemaError for one that Connect does not have.

    `infinity` says what becomes of PostgreSQL's infinite dates and times, which Debezium writes as a certain number or text.
    """
    return replace(_type(schema, infinity), is_optional=schema.get("optional") is not False, default=schema.get("default"))


def _type(schema: Mapping[str, Any], infinity: str) -> ConnectType:
    logical, physical = schema.get("name"), schema.get("type")
    if logical == _DECIMAL:
        return _decimal(schema.get("parameters") or {})
    if logical in _LOGICAL:
        infinite = _INFINITE.get(str(logical), ())
        return _finite(_LOGICAL[logical], infinite, infinity) if infinite else _LOGICAL[logical]
    if physical in _PHYSICAL:
        return _PHYSICAL[physical]
    if physical == "array":
        inner = connect_type(schema["items"], infinity)
        return ConnectType(pa.list_(inner.arrow), partial(_lists, inner))
    if physical == "map":
        keys, values = connect_type(schema["keys"], infinity), connect_type(schema["values"], infinity)
        return ConnectType(pa.map_(keys.arrow, values.arrow), partial(_maps, keys, values))
    if physical == "struct":
        fields = field_types(schema, infinity)
        return ConnectType(pa.struct([(name, one.arrow) for name, one in fields.items()]), partial(_structs, fields))
    raise SchemaError(
        f"found the type {physical!r} in a schema; expected one of {', '.join([*_PHYSICAL, 'array', 'map', 'struct'])}"
    )


def field_types(schema: Mapping[str, Any], infinity: str = FAIL) -> Mapping[str, ConnectType]:
    """The types of a struct's fields by name."""
    return {_name(one["field"]): connect_type(one, infinity) for one in schema.get("fields", ())}


def _name(found: Any) -> str:
    """The name of a field; TypeError or ValueError for one that no column can have."""
    if not isinstance(found, str):
        raise TypeError(f"the field {found!r} has no text as its name")
    found.encode()
    return found


def completed(row: Mapping[str, Any], types: Mapping[str, ConnectType]) -> Mapping[str, Any]:
    """
    The row of a struct with the defaults of its schema where it has no value; SchemaError where there has to be one.

    A null stays null where the schema allows it: it is what the database has.
    """
    if None not in row.values() and row.keys() >= types.keys():
        return row
    added: dict[str, Any] = {}
    for name, kind in types.items():
        if row.get(name) is not None or (kind.is_optional and name in row):
            continue
        if kind.default is not None:
            added[name] = kind.default
        elif not kind.is_optional:
            raise SchemaError(
                f"the column {name!r} {'is null' if name in row else 'is missing'}, and its schema says optional=false; expected a value"
            )
    return {**row, **added} if added else row


def _present(kind: ConnectType, values: Sequence[Any], what: str) -> Sequence[Any]:
    """Items of arrays or values of maps as their schema has them, as `completed` does it for fields."""
    if kind.is_optional or None not in values:
        return values
    if kind.default is None:
        raise ValueError(f"found null in it, and the schema of its {what} says optional=false; expected a value")
    return [kind.default if value is None else value for value in values]


def guessed_type(values: Sequence[Any]) -> ConnectType | None:
    """The type that values without a schema have; None if all are null."""
    kinds = {kind_of(value) for value in values} - {type(None)}
    if not kinds:
        return None
    if kinds == {bool}:
        return _PHYSICAL["boolean"]
    if kinds == {int}:
        return _PHYSICAL["int64"]
    if kinds <= {int, float}:
        return _PHYSICAL["double"]
    return _TEXT if kinds == {str} else _JSON


def kind_of(value: Any) -> type:
    """The type of a value of JSON, however many digits a number has."""
    return float if isinstance(value, float) else type(value)


def _finite(kind: ConnectType, infinite: Sequence[Any], infinity: str) -> ConnectType:
    """The type without these values: they are null, or refused."""

    def parse(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
        found = next((value for value in values if value in infinite), None)
        if found is not None and infinity == FAIL:
            raise ValueError(f"it is Debezium's {found!r} for an infinite time; to have null in its place: {INFINITY}={NULL}")
        return kind.parse(values if found is None else [None if value in infinite else value for value in values], arrow)

    return ConnectType(kind.arrow, parse)


def _plain(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    return pa.array(values, arrow)


def _whole(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """Whole numbers; Arrow would cut others."""
    wrong = next(
        (value for value in values if value is not None and (isinstance(value, bool) or not isinstance(value, int))), None
    )
    if wrong is not None:
        raise ValueError(f"found {wrong!r}, expected a whole number")
    return pa.array(values, arrow)


def _floats(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    end = FLOAT_END if pa.types.is_float32(arrow) else math.inf
    return pa.array([None if value is None else _float(value, end) for value in values], arrow)


def _float(value: Any, end: float) -> float:
    """A number below `end`; of texts those for which JSON has no number."""
    if isinstance(value, bool) or (isinstance(value, str) and value not in NOT_FINITE):
        raise ValueError(f"found {value!r}, expected a number")
    found = float(value)
    if math.isfinite(found) and abs(found) >= end:
        raise ValueError("it is beyond the greatest float")
    return found


def _bytes(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else _raw(value) for value in values], arrow)


def _documents(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    return pa.array([value if value is None or isinstance(value, str) else json_text(value) for value in values], arrow)


def _numbers(kind: pa.DataType, values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """Integers that count days or parts of a second, by way of the type that counts so; nanoseconds are cut."""
    counted = _whole(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return _without_nanoseconds(counted).cast(arrow)


def _times(physical: pa.DataType, per_second: int, values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """
    Times of day as texts: the end of a day, which PostgreSQL has, is 24:00:00.

    MySQL's are lengths of time, up to 838:59:59 and below zero.
    """
    return pa.array([None if one is None else _time(one, per_second) for one in _whole(values, physical).to_pylist()], arrow)


def _time(count: int, per_second: int) -> str:
    seconds, part = divmod(abs(count), per_second)
    if seconds >= TIME_SECONDS_END:
        raise ValueError(f"found {count}, which is no time of any database")
    if count == _DAY_SECONDS * per_second:
        return "24:00:00"
    digits = f".{part:0{len(str(per_second)) - 1}}"
    return f"{'-' if count < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{digits}"


def _instants(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """Times as texts, whose digits behind the microseconds are cut there: in nanoseconds Arrow has no time before 1677 and behind 2262."""
    texts = pa.array(values, pa.string())
    try:
        return texts.cast(arrow)
    except pa.ArrowInvalid:
        return pc.replace_substring_regex(texts, _NANOSECONDS, r"\1\2").cast(arrow)


def _without_nanoseconds(times: pa.Array) -> pa.Array:
    """Times whose digits behind the microseconds are cut; of those before 1970 too, which a cast would move towards it."""
    is_finer = pa.types.is_timestamp(times.type) and times.type.unit == "ns"
    return pc.floor_temporal(times, unit="microsecond") if is_finer else times


def _decimals(scale: int, values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    return decimals_of_python([None if value is None else _number(value, scale) for value in values], arrow)


def _variable_decimals(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    return decimals_of_python([None if value is None else _variable(value["value"], value["scale"]) for value in values], arrow)


def _variable(unscaled: Any, scale: Any) -> Decimal:
    """A number whose scale is its own; it is never one of JSON, whatever `decimal.format` is."""
    if not isinstance(unscaled, str | bytes) or isinstance(scale, bool) or not isinstance(scale, int):
        raise TypeError(f"found value={unscaled!r} and scale={scale!r}, expected bytes, in JSON as Base64, and a whole number")
    return _number(unscaled, scale)


def _raw(value: str | bytes) -> bytes:
    """Bytes, which JSON has in Base64."""
    return value if isinstance(value, bytes) else base64.b64decode(value, validate=True)


def _number(value: str | bytes | int | float, scale: int) -> Decimal:
    """
    The number of a signed integer's bytes, whose last `scale` digits stand behind the point.

    JSON has it as a number where the converter was told so by `decimal.format=NUMERIC`.
    """
    if isinstance(value, bool):
        raise TypeError(f"{value} is no number")
    if isinstance(value, int | float):
        return Decimal(str(value))
    raw = _raw(value)
    if not raw:
        raise ValueError("found no bytes, expected those of an integer")
    unscaled = int.from_bytes(raw, "big", signed=True)
    return Decimal(f"{unscaled}E{-scale}")


def _decimal(parameters: Mapping[str, str]) -> ConnectType:
    scale = int(parameters.get("scale", 0))
    precision = int(parameters.get("connect.decimal.precision", DIGITS_MAX))
    if not (0 <= scale <= precision <= DIGITS_MAX):
        return ConnectType(pa.string(), partial(_decimal_texts, scale))
    return ConnectType(pa.decimal128(precision, scale), partial(_decimals, scale))


def _decimal_texts(scale: int, values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else format(_number(value, scale), "f") for value in values], arrow)


def _lists(inner: ConnectType, values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    flat = inner.read(_present(inner, [one for value in values for one in value or ()], "items"))
    return pa.ListArray.from_arrays(_offsets(values), flat, type=arrow, mask=_nulls(values))


def _maps(keys: ConnectType, items: ConnectType, values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """Maps with text keys are objects, all others lists of pairs."""
    pairs = [value.items() if isinstance(value, dict) else value for value in values]
    flat_keys = keys.read([key for value in pairs for key, _ in value or ()])
    flat_items = items.read(_present(items, [item for value in pairs for _, item in value or ()], "values"))
    return pa.MapArray.from_arrays(_offsets(pairs), flat_keys, flat_items, type=arrow, mask=_nulls(pairs))


def _structs(fields: Mapping[str, ConnectType], values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    rows = [None if value is None else completed(value, fields) for value in values]
    columns = [one.read([None if row is None else row.get(name) for row in rows]) for name, one in fields.items()]
    return pa.StructArray.from_arrays(columns, fields=list(arrow), mask=_nulls(values))


def _offsets(values: Sequence[Any]) -> pa.Array:
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value or ()))
    return pa.array(offsets, pa.int32())


def _nulls(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_TEXT = ConnectType(pa.string(), _plain)
_JSON = ConnectType(pa.string(), _documents)
UNKNOWN = ConnectType(pa.null(), _plain)  # of values without a schema that are all null
_PHYSICAL = {
    "boolean": ConnectType(pa.bool_(), _plain),
    "int8": ConnectType(pa.int8(), _whole),
    "int16": ConnectType(pa.int16(), _whole),
    "int32": ConnectType(pa.int32(), _whole),
    "int64": ConnectType(pa.int64(), _whole),
    "float": ConnectType(pa.float32(), _floats),
    "double": ConnectType(pa.float64(), _floats),
    "string": _TEXT,
    "bytes": ConnectType(pa.binary(), _bytes),
}
_DAYS = ConnectType(pa.date32(), partial(_numbers, pa.date32()))
_MS_OF_DAY = ConnectType(pa.string(), partial(_times, pa.int32(), 1_000))
_LOGICAL = {
    "io.debezium.data.VariableScaleDecimal": ConnectType(pa.decimal128(DIGITS_MAX, VARIABLE_SCALE), _variable_decimals),
    "io.debezium.time.Date": _DAYS,
    "io.debezium.time.Timestamp": ConnectType(pa.timestamp("us"), partial(_numbers, pa.timestamp("ms"))),
    "io.debezium.time.MicroTimestamp": ConnectType(pa.timestamp("us"), partial(_numbers, pa.timestamp("us"))),
    "io.debezium.time.NanoTimestamp": ConnectType(pa.timestamp("us"), partial(_numbers, pa.timestamp("ns"))),
    "io.debezium.time.ZonedTimestamp": ConnectType(pa.timestamp("us", "UTC"), _instants),
    "io.debezium.time.Time": _MS_OF_DAY,
    "io.debezium.time.MicroTime": ConnectType(pa.string(), partial(_times, pa.int64(), 1_000_000)),
    "io.debezium.time.NanoTime": ConnectType(pa.string(), partial(_times, pa.int64(), 1_000_000_000)),
    "org.apache.kafka.connect.data.Date": _DAYS,
    "org.apache.kafka.connect.data.Time": _MS_OF_DAY,
    "org.apache.kafka.connect.data.Timestamp": ConnectType(
        pa.timestamp("us", "UTC"), partial(_numbers, pa.timestamp("ms", "UTC"))
    ),
    "timestamp-micros": ConnectType(pa.timestamp("us", "UTC"), partial(_numbers, pa.timestamp("us", "UTC"))),  # Avro's own
}
_INFINITE: Mapping[str, Sequence[Any]] = {  # of PostgreSQL; a year of 292,000 is none that somebody wrote
    "io.debezium.time.Date": (2_147_483_647, -2_147_483_648),
    "io.debezium.time.Timestamp": (9_223_372_036_825_200, -9_223_372_036_832_400),
    "io.debezium.time.MicroTimestamp": (9_223_372_036_825_200_000, -9_223_372_036_832_400_000),
    "io.debezium.time.ZonedTimestamp": ("infinity", "-infinity"),
    "org.apache.kafka.connect.data.Date": (2_147_483_647, -2_147_483_648),
    "org.apache.kafka.connect.data.Timestamp": (9_223_372_036_825_200, -9_223_372_036_832_400),
}
