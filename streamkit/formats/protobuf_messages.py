"""
Messages of Google and Confluent that stand for one value: dates, times of the day, decimals.

The files that declare them come with no package of Protobuf's, so the part of each that counts is here. A reader of the schema finds the same
names, numbers and types in the files of Google and Confluent.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from streamkit.data_type import decimal_of
from streamkit.decimals import DECIMAL_CONTEXT, power_of_ten

DATE, TIME_OF_DAY, DECIMAL = "google.type.Date", "google.type.TimeOfDay", "confluent.type.Decimal"
DECIMAL_WITHOUT_DIGITS = "decimal(38,18)"  # of a field that does not say them
_META, _FIELD_META = "confluent/meta.proto", "confluent.field_meta"
_DAY_MS = 24 * 60 * 60 * 1000
_DECIMAL_BYTES_MAX = 32  # more than 38 digits need; there may be zeros behind the point
_EPOCH_DAY = dt.date(1970, 1, 1)
FIRST_DAY, LAST_DAY = (
    (dt.date.min - _EPOCH_DAY).days,
    (dt.date.max - _EPOCH_DAY).days,
)  # of what Google's messages hold, from 1970
DAY_MICROS = 86_400_000_000

FILES = {
    "google/type/date.proto": (
        'syntax = "proto3"; package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }'
    ),
    "google/type/timeofday.proto": (
        'syntax = "proto3"; package google.type; message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }'
    ),
    "confluent/type/decimal.proto": (
        'syntax = "proto3"; package confluent.type; message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }'
    ),
    _META: (
        'syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto"; '
        "message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; } "
        "extend google.protobuf.FileOptions { Meta file_meta = 1088; } "
        "extend google.protobuf.MessageOptions { Meta message_meta = 1088; } "
        "extend google.protobuf.FieldOptions { Meta field_meta = 1088; } "
        "extend google.protobuf.EnumOptions { Meta enum_meta = 1088; } "
        "extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }"
    ),
}


def message_for(type: str) -> str | None:
    """The message that values of a type are; None of a type that is none of these."""
    return DECIMAL if decimal_of(type) else {"date": DATE, "time": TIME_OF_DAY}.get(type)


def options_for(type: str) -> str:
    """The options of a field of this type: a decimal says how many digits it has."""
    digits = decimal_of(type)
    if digits is None:
        return ""
    params = ", ".join(f'{{ key: "{name}", value: "{count}" }}' for name, count in zip(("precision", "scale"), digits))
    return f" [({_FIELD_META}) = {{ params: [{params}] }}]"


def imports_for(body: str) -> list[str]:
    """The files that the text of a message needs."""
    names = {DATE: "google/type/date.proto", TIME_OF_DAY: "google/type/timeofday.proto", DECIMAL: "confluent/type/decimal.proto"}
    return [*([_META] if f"({_FIELD_META})" in body else []), *(file for name, file in names.items() if name in body)]


def type_of(message: str, field: Any) -> str | None:
    """The type of a column of such messages; the `field` says how many digits its decimals have. None of another message."""
    if message != DECIMAL:
        return {DATE: "date", TIME_OF_DAY: "int"}.get(message)
    params = _params(field)
    try:
        precision, scale = int(params["precision"]), int(params.get("scale", "0"))
    except (KeyError, ValueError):
        return DECIMAL_WITHOUT_DIGITS
    return f"decimal({precision},{scale})" if 0 <= scale <= precision <= 38 and precision else DECIMAL_WITHOUT_DIGITS


def _params(field: Any) -> dict[str, str]:
    """What the option of Confluent says of a field. The options are read again by the class of the schema's own pool, which knows it."""
    from google.protobuf import message_factory

    if not field.has_options:
        return {}
    try:
        pool = field.file.pool
        extension = pool.FindExtensionByName(_FIELD_META)
        options = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FieldOptions"))
    except KeyError:
        return {}
    message_factory.GetMessageClass(extension.message_type)
    return dict(options.FromString(field.GetOptions().SerializeToString()).Extensions[extension].params)


def value_of(found: Any, message: str) -> Any:
    """The value that such a message is; ValueError if it is none, which is a message with a part that is left open, too."""
    if message == DATE:
        return dt.date(found.year, found.month, found.day)
    if message == TIME_OF_DAY:
        millis = ((found.hours * 60 + found.minutes) * 60 + found.seconds) * 1000 + found.nanos // 1_000_000
        parts = ((found.hours, 24), (found.minutes, 60), (found.seconds, 60), (found.nanos, 1_000_000_000))
        if any(not 0 <= part < end for part, end in parts):
            raise ValueError(f"{found.hours}:{found.minutes}:{found.seconds} and {found.nanos} ns is no time of a day")
        return millis
    if len(found.value) > _DECIMAL_BYTES_MAX:
        raise ValueError(f"a decimal of {len(found.value)} bytes; expected at most 38 digits")
    unscaled = int.from_bytes(found.value, "big", signed=True)
    return decimal.Decimal(unscaled).scaleb(-found.scale, context=DECIMAL_CONTEXT)


def parts_of(value: Any, message: str, field: Any) -> dict[str, Any]:
    """The fields of such a message; ValueError for a value that it cannot be, such as one with too many digits."""
    if message == DATE:
        if isinstance(value, int) and not FIRST_DAY <= value <= LAST_DAY:
            raise ValueError(f"the field {field.name!r} is a {DATE}, of the years 1 to 9999; found {value} days from 1970")
        date = value if isinstance(value, dt.date) else _EPOCH_DAY + dt.timedelta(days=value)
        return {"year": date.year, "month": date.month, "day": date.day}
    if message == TIME_OF_DAY:
        if not 0 <= value < _DAY_MS:
            raise ValueError(f"the field {field.name!r} is a time of a day; found {value}, expected milliseconds below {_DAY_MS}")
        seconds, millis = divmod(value, 1000)
        return {"hours": seconds // 3600, "minutes": seconds // 60 % 60, "seconds": seconds % 60, "nanos": millis * 1_000_000}
    type = type_of(DECIMAL, field)
    digits = decimal_of(type or "") or (38, 18)
    given = value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))
    if type == DECIMAL_WITHOUT_DIGITS and not _params(field):
        scale = max(0, -int(given.as_tuple().exponent))
        digits = (38, scale)
    fitting = given.quantize(power_of_ten(-digits[1]), context=DECIMAL_CONTEXT)
    if fitting != given or len(fitting.as_tuple().digits) > digits[0]:
        raise ValueError(f"the field {field.name!r} is decimal({digits[0]},{digits[1]}); {given} has other digits")
    unscaled = int(fitting.scaleb(digits[1], context=DECIMAL_CONTEXT))
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return {"value": unscaled.to_bytes(size, "big", signed=True), "precision": digits[0], "scale": digits[1]}
