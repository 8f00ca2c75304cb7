"""Avro keys of one column, which others write without a record around it, as ksqlDB and Kafka Connect do."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from streamkit.data_type import fields_of
from streamkit.formats import avro
from streamkit.formats.avro_schema import VALUE, columns_of_avro, kind_of, parsed_schema, resolved
from streamkit.formats.decoded import Decoded
from streamkit.formats.format import Format
from streamkit.recast import recast
from streamkit.schema import Schema, SchemaColumn


def read(format: Format, text: str, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """
    The one column of keys, as `avro.read` has it; where the schema `text` is no record, a key is the value of the column.

    A record that has no field of the column's name is the value of a struct.
    """
    (column,) = columns
    if kind_of(resolved(*parsed_schema(text))) not in ("record", "error"):
        alone = SchemaColumn(VALUE, column.type)
        found = avro.read(replace(format, schema=None), text, values, Schema((alone,)), skipped)
        return replace(found, rows=found.rows.rename_columns([column.name]))
    fields, written = fields_of(column.type), columns_of_avro(text).names
    if fields is None or column.name in written or not {name for name, _ in fields} & set(written):
        return avro.read(format, text, values, columns, skipped)
    inner = Schema(tuple(SchemaColumn(name, type) for name, type in fields))
    found = avro.read(replace(format, schema=None), text, values, inner, skipped)
    struct = pa.StructArray.from_arrays(found.rows.columns, fields=list(inner.arrow))
    return replace(found, rows=pa.RecordBatch.from_arrays([recast(struct, column.arrow.type)], names=[column.name]))
