"""Columns of Parquet in the types of a topic, as a producer converts them; times of day, which no column is, are texts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import is_nested
from streamkit.log.rows.conversion import convert_arrow
from streamkit.log.rows.nested_conversion import Conversion, convert_nested
from streamkit.schema import SchemaColumn

_UINT64_DIGITS, _DIGITS_MAX = 20, 38


def declared(column: SchemaColumn, values: pa.Array) -> pa.Array:
    """An array of Parquet in the type of a column; SchemaError names the first row that does not fit."""
    if is_nested(column.type):
        return convert_nested(column, values, Conversion(declared, declared))
    if pa.types.is_time(values.type) and column.type == "string":
        values = pc.cast(values, pa.string())
    return convert_arrow(column, values)


def readable(type: pa.DataType) -> pa.DataType:
    """The type of a column for what Parquet has and no column is: nothing but nulls, times of day, large unsigned integers and decimals."""
    if pa.types.is_time(type) or pa.types.is_null(type):
        return pa.string()
    if pa.types.is_uint64(type):
        return pa.decimal128(_UINT64_DIGITS, 0)
    if pa.types.is_decimal256(type) and type.precision <= _DIGITS_MAX:
        return pa.decimal128(type.precision, type.scale)
    if pa.types.is_dictionary(type):
        return readable(type.value_type)
    if pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type):
        return pa.list_(readable(type.value_type))
    if pa.types.is_map(type):
        return pa.map_(readable(type.key_type), readable(type.item_type))
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(readable(field.type)) for field in type])
    return type
