"""The columns of a store as Spark sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from streamkit.data_type import from_arrow
from streamkit.errors import SchemaError
from streamkit.log.opening import open_existing_log
from streamkit.schema import Schema, SchemaColumn
from streamkit.spark.dataframe.options import StoreOptions
from streamkit.state.view import open_view

if TYPE_CHECKING:
    from streamkit.expressions.analysis.row_condition import RowCondition


def store_ddl(options: StoreOptions) -> str:
    """The columns that options ask for, as SQL text; SchemaError or ConfigError for one that the store does not have."""
    with open_existing_log(options.log) as log:
        view = open_view(log, options.application, options.store)
        store_condition(view.schema, options.where)  # what is wrong with it is said at once
        return store_schema(f"{options.application}/{options.store}", view.schema, options.columns).ddl()


def store_condition(rows: pa.Schema, where: str | None) -> RowCondition | None:
    """What `where` says of a store's rows; ConfigError if it cannot be said of them."""
    if where is None:
        return None
    from streamkit.expressions.analysis.row_condition import RowCondition  # all functions of SQL, which takes 0.2 s

    return RowCondition.of(where, Schema.from_arrow(rows))


def store_schema(store: str, rows: pa.Schema, columns: tuple[str, ...] | None) -> Schema:
    """The columns of a store's rows that are asked for, all unless some are named."""
    known = {field.name: SchemaColumn(field.name, from_arrow(field.type)) for field in rows}
    wanted = tuple(known) if columns is None else tuple(dict.fromkeys(columns))
    wrong = [name for name in wanted if name not in known]
    if wrong:
        raise SchemaError(f"the store {store} has no column {wrong[0]!r}; it has {', '.join(known)}")
    return Schema(tuple(known[name] for name in wanted))


def asked_schema(store: str, rows: pa.Schema, schema: StructType) -> pa.Schema:
    """
    What Spark expects of the columns that it asks for, which a user may have named by `schema`.

    SchemaError if the store has no such column, or one of another type.
    """
    expected = to_arrow_schema(schema, timezone="UTC")
    known = store_schema(store, rows, tuple(expected.names))
    for field, column in zip(expected, known, strict=True):
        if from_arrow(field.type) != column.type:
            raise SchemaError(
                f"the store {store}: the schema asks for {field.name} {from_arrow(field.type)}, expected {column.type}; "
                "read it as it is, and cast in a select"
            )
    return expected
