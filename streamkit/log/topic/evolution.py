"""
Schema evolution: which changes of a topic's schema are allowed, and older values under the newer schema.

Allowed are new columns that may be null, and wider types. What counts as wider is Delta Lake's rule of type widening (as
far as the kind of number stays), so that a topic and a Delta table can evolve together: whole numbers up to bigint, float
to double, decimal to one with at least as many digits before and behind the point, date to timestamp_ntz. Not date to
timestamp: which instant a date begins at depends on who reads it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from streamkit.data_type import to_arrow
from streamkit.errors import SchemaError
from streamkit.log.topic.topic import Topic
from streamkit.recast import recast
from streamkit.schema import Schema, SchemaColumn

_LADDERS = tuple(
    tuple(map(to_arrow, names))
    for names in (("tinyint", "smallint", "int", "bigint"), ("float", "double"), ("date", "timestamp_ntz"))
)
_RULE = (
    "allowed are new columns that may be null, and wider types: tinyint to smallint to int to bigint, float to double, date to "
    "timestamp_ntz, decimal to one with no fewer digits on either side of the point; what is inside nested types stays as it is"
)


def is_wider(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether a column of the one type may become one of the other; no type is wider than itself."""
    if pa.types.is_decimal(wide) and pa.types.is_decimal(narrow):
        return bool(wide != narrow and 0 <= wide.scale - narrow.scale <= wide.precision - narrow.precision)
    return any(narrow in ladder and wide in ladder and ladder.index(narrow) < ladder.index(wide) for ladder in _LADDERS)


def widened(values: pa.Array, wide: pa.DataType) -> pa.Array:
    """The values in the wider type; SchemaError for the one that even that cannot hold: a date beyond the year 294,000."""
    try:
        return recast(values, wide)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"found a {values.type} that does not fit in {wide}: {error}") from error


def check_evolution(topic: Topic, schema: Schema) -> None:
    """SchemaError, with both schemas, unless rows of the topic can be read under the new schema."""
    refused = list(_refused(topic, schema))
    if refused:
        raise SchemaError(
            f"the schema of topic {topic.name} cannot change so: {'; '.join(refused)}; {_RULE}\n"
            f"  version {topic.version}: {topic.schema}\n"
            f"  asked for: {schema}"
        )


def _refused(topic: Topic, schema: Schema) -> Iterator[str]:
    for column in topic.schema:
        if column.name in schema:
            yield from _refused_change(topic, column, schema[column.name])
        else:
            yield f"the column {column.name!r} is missing"
    kept = [name for name in schema.names if name in topic.schema]
    if kept != [name for name in topic.schema.names if name in schema]:
        yield "the columns that are there change their order"
    for column in schema:
        if column.name not in topic.schema and not column.nullable:
            yield f"the new column {column.name!r} is NOT NULL, and older rows have no value of it"


def _refused_change(topic: Topic, old: SchemaColumn, new: SchemaColumn) -> Iterator[str]:
    if old.nullable != new.nullable:
        yield f"the column {old.name!r} {'becomes NOT NULL' if old.nullable else 'stops being NOT NULL'}"
    if old.type == new.type:
        return
    role = "a key column" if old.name in topic.key else "the timestamp column" if old.name == topic.timestamp else None
    if role:
        yield f"the column {old.name!r} is {role}, which keeps its type {old.type}"
    elif not is_wider(new.arrow.type, old.arrow.type):
        yield f"the column {old.name!r} is {old.type}, and {new.type} is not wider"
