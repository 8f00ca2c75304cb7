"""Rows of one topic that came apart, together again: where their columns go together, and in their order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from streamkit.log.topic.evolution import is_wider
from streamkit.names import ROW_NUMBER
from streamkit.recast import recast


def joined_schema(schemas: Sequence[pa.Schema], fixed: Collection[str] = ()) -> pa.Schema | None:
    """
    The columns of all, where a topic that has those of one could become one of all; else None.

    A column that some lack is null there, and of two types the wider one counts, as topics evolve; the `fixed` ones, such as
    keys, never change their type. So rows become the same whether they come together or one by one.
    """
    fields: dict[str, pa.Field] = {}
    metadata: dict[bytes, bytes] = {}
    for schema in schemas:
        for field in schema:
            known = fields.setdefault(field.name, field.with_nullable(True))
            if known.type == field.type or pa.types.is_null(field.type):
                continue
            if not pa.types.is_null(known.type):
                if field.name in fixed or not (is_wider(known.type, field.type) or is_wider(field.type, known.type)):
                    return None
                if is_wider(known.type, field.type):
                    continue
            fields[field.name] = field.with_nullable(True)
        found = schema.metadata or {}
        if any(metadata.get(name, value) != value for name, value in found.items()):
            return None
        metadata |= found
    return pa.schema(list(fields.values()), metadata=metadata or None)


def as_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with all columns of a schema, in its order; a column that the rows lack is null."""
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    columns = [
        recast(rows[field.name], field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def together(tables: Sequence[pa.Table], fixed: Collection[str] = ()) -> list[pa.Table]:
    """
    The rows of tables in the order of their numbers (`_row`).

    They are one table if their columns go together; else as many as it takes, each with rows that follow each other.
    """
    kept = [table for table in tables if table.num_rows] or list(tables[:1])
    if len(kept) < 2:
        return kept
    schema = joined_schema([table.schema for table in kept], fixed)
    if schema is not None:
        return [in_order(pa.concat_tables([as_schema(table, schema) for table in kept]))]
    numbers = np.concatenate([table[ROW_NUMBER].to_numpy() for table in kept])
    owners = np.repeat(np.arange(len(kept)), [table.num_rows for table in kept])
    places = np.concatenate([np.arange(table.num_rows) for table in kept])
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(owners[order])) + 1
    runs = np.split(order, cuts)
    return [kept[owners[run[0]]].take(pa.array(places[run])) for run in runs]


def in_order(rows: pa.Table) -> pa.Table:
    """The rows in the order of their numbers."""
    numbers = rows[ROW_NUMBER].to_numpy()
    if bool((numbers[1:] >= numbers[:-1]).all()):
        return rows
    return rows.take(pa.array(np.argsort(numbers, kind="stable")))
