"""The columns of a topic as Spark sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from streamkit.data_type import from_arrow
from streamkit.errors import SchemaError
from streamkit.log.opening import open_existing_log
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP
from streamkit.schema import Schema, SchemaColumn
from streamkit.spark.dataframe.options import ReadOptions

if TYPE_CHECKING:
    from streamkit.expressions.analysis.row_condition import RowCondition

PLACES = (
    SchemaColumn(TIMESTAMP, "timestamp"),
    SchemaColumn(PARTITION, "int"),
    SchemaColumn(OFFSET, "bigint"),
    SchemaColumn(DELETED, "boolean"),
)
HEADERS_COLUMN = SchemaColumn(HEADERS, "array<struct<key:string,value:binary>>")


def table_ddl(options: ReadOptions) -> str:
    """The columns that options ask for, as SQL text; SchemaError or ConfigError for one that the topic does not have."""
    with open_existing_log(options.log) as log:
        topic = log.catalog.topics.get(options.topic)
        topic_condition(topic, options.where)  # what is wrong with it is said at once
        return table_schema(topic, options).ddl()


def topic_condition(topic: Topic, where: str | None) -> RowCondition | None:
    """What `where` says of a topic's rows; ConfigError if it cannot be said of them."""
    if where is None:
        return None
    from streamkit.expressions.analysis.row_condition import RowCondition  # all functions of SQL, which takes 0.2 s

    return RowCondition.of(where, Schema(tuple(known_columns(topic).values())))


def table_schema(topic: Topic, options: ReadOptions) -> Schema:
    """The columns that options ask for. All may be null: a tombstone has none but its key."""
    known = known_columns(topic)
    if options.columns is None:
        left_out = () if options.has_headers else (HEADERS,)
        return Schema(tuple(column for name, column in known.items() if name not in left_out))
    wrong = [name for name in options.columns if name not in known]
    if wrong:
        raise SchemaError(f"topic {topic.name} has no column {wrong[0]!r}; it has {', '.join(known)}")
    return Schema(tuple(known[name] for name in dict.fromkeys(options.columns)))


def known_columns(topic: Topic) -> dict[str, SchemaColumn]:
    """All columns that can be read of a topic, by name, in order."""
    return {column.name: SchemaColumn(column.name, column.type) for column in (*topic.schema, *PLACES, HEADERS_COLUMN)}


def arrow_schema(topic: Topic, schema: StructType) -> pa.Schema:
    """
    What Spark expects of the columns that it asks for, which a user may have named by `schema`.

    SchemaError if the topic has no such column, or one of another type.
    """
    known = known_columns(topic)
    expected = to_arrow_schema(schema, timezone="UTC")
    for field in expected:
        column = known.get(field.name)
        if column is None:
            raise SchemaError(f"topic {topic.name} has no column {field.name!r}; it has {', '.join(known)}")
        if from_arrow(field.type) != column.type:
            raise SchemaError(
                f"topic {topic.name}: the schema asks for {field.name} {from_arrow(field.type)}, expected {column.type}; "
                "read it as it is, and cast in a select"
            )
    return expected


def log_columns(names: Sequence[str]) -> list[str]:
    """The columns to be read of frames, which give time and place of each row anyway."""
    return [name for name in names if name not in (TIMESTAMP, PARTITION, OFFSET, DELETED)]
