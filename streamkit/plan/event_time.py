"""Where the event time of a topic's records comes from, if a column of theirs says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from streamkit.data_type import from_arrow
from streamkit.errors import Location, TopologyError
from streamkit.formats.format import Format
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.plan.decoding import DecodedSchema
from streamkit.schema import Schema, SchemaColumn

NO_COLUMNS = Schema(())
MILLISECONDS, DAY, TEXT = "bigint", "date", "string"
TYPES = ("timestamp", "timestamp_ntz", MILLISECONDS, DAY)
EXPECTED = "a timestamp, a bigint of milliseconds since 1970, a date, a text with timestamp_format=, or a field 'struct.field' of such a type"


@dataclass(frozen=True)
class EventTime:
    """
    The column of a topic that has the event time of its records, and the fields of structs within it; `type` is one of `TYPES`.

    Texts have the `pattern` that is behind them, as Java's DateTimeFormatter has it, in UTC unless it says a zone.
    Of a topic of bytes `column` is the one that is decoded from the topic's column `part` (key or value), by `format` and as `columns`.
    With `since_1970` a time before 1970 counts as none.
    """

    column: str
    fields: tuple[str, ...]
    type: str
    part: str = ""
    format: Format | None = None
    columns: Schema = NO_COLUMNS
    pattern: str = ""
    since_1970: bool = False

    @property
    def columns_read(self) -> tuple[str, ...]:
        """The columns of the topic that must be read for it."""
        return (self.part or self.column,)

    def __str__(self) -> str:
        return ".".join((self.column, *self.fields))


def event_time_of(
    name: str,
    topic: str,
    schema: Schema,
    decoded: DecodedSchema | None,
    at: Location | None,
    pattern: str | None = None,
    since_1970: bool = False,
) -> EventTime:
    """
    The event time that the column `name` of a topic says, or a field of a struct, such as "payload.at".

    TopologyError if there is no such column, or if it is none of these.
    """
    parts = {"": schema} if decoded is None else {KEY: decoded.key, VALUE: decoded.value}
    for part, columns in parts.items():
        for column in columns:
            if name == column.name or name.startswith(f"{column.name}."):
                fields = tuple(name.removeprefix(column.name).split(".")[1:])
                type = time_type(name, topic, column, fields, at, pattern)
                format = None if decoded is None else decoded.keys if part == KEY else decoded.format
                return EventTime(
                    column.name, fields, type, part, format, columns if part else NO_COLUMNS, pattern or "", since_1970
                )
    found = ", ".join(str(columns) for columns in parts.values() if len(columns))
    raise TopologyError(f"timestamp={name!r}: the topic {topic!r} has no such column; it has {found}; expected {EXPECTED}", at)


def time_type(
    name: str, topic: str, column: SchemaColumn, fields: Sequence[str], at: Location | None, pattern: str | None
) -> str:
    """The type of a column with event times, or of a field of it; TopologyError if it is none of these."""
    found = column.arrow.type
    for field in fields:
        if not pa.types.is_struct(found) or found.get_field_index(field) < 0:
            raise TopologyError(
                f"timestamp={name!r}: the column {column.name!r} of {topic!r} is {column.type}, without a field {field!r} there; expected {EXPECTED}",
                at,
            )
        found = found.field(field).type
    type = from_arrow(found)
    if pattern is not None and type != TEXT:
        raise TopologyError(
            f"timestamp={name!r} of {topic!r} is of type {type}, and timestamp_format={pattern!r} is for texts; expected no format",
            at,
        )
    if type in TYPES or pattern is not None:
        return type
    raise TopologyError(f"timestamp={name!r} of {topic!r} is of type {type}; expected {EXPECTED}", at)
