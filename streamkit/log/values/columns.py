"""The values of an Arrow column as numpy, and back: the layout of every fixed-width type is known here only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import AnyArray, Mask
from streamkit.data_type import from_arrow, to_arrow
from streamkit.errors import CorruptionError
from streamkit.log.values.slices import bitmap
from streamkit.recast import recast

FIXED_TYPES = {
    "boolean": "u1", "tinyint": "i1", "smallint": "i2", "int": "i4", "bigint": "i8", "float": "f4", "double": "f8",
    "date": "i4", "timestamp": "i8", "timestamp_ntz": "i8",
}  # fmt: skip
BYTES_TYPES = frozenset(("string", "binary"))
DECIMAL = np.dtype([("low", "<u8"), ("high", "<i8")])  # Arrow's decimal128


def fixed_dtype(type_name: str) -> np.dtype[Any] | None:
    """The numpy type of a Spark type's values; None where values differ in length (string, binary) or do not exist (void)."""
    if type_name.startswith("decimal"):
        return DECIMAL
    return np.dtype(FIXED_TYPES[type_name]) if type_name in FIXED_TYPES else None


def canonical(column: pa.Array) -> tuple[pa.Array, str]:
    """The column in the layout of `schema.to_arrow`, and its Spark type; SchemaError if a flat row cannot hold it."""
    type_name = from_arrow(column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    layout = to_arrow(type_name)
    return recast(column, layout), type_name


def valid_rows(column: pa.Array) -> Mask | None:
    """Which rows are not null; None when all are."""
    if column.null_count == 0:
        return None
    mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def fixed_values(column: pa.Array, type_name: str) -> AnyArray:
    """The values of a canonical column of fixed width; those of null rows are arbitrary."""
    if type_name == "boolean":
        column = column.cast(pa.uint8())
    dtype = fixed_dtype(type_name)
    assert dtype is not None, f"{type_name} has no fixed width"
    # counted, because Arrow's buffer of a column without values may have bytes that are no whole value
    return np.frombuffer(column.buffers()[1] or b"", dtype, column.offset + len(column))[column.offset :]


def fixed_array(values: AnyArray, type_name: str, valid: Mask | None = None) -> pa.Array:
    """The inverse of `fixed_values`: a column of the type, null where not valid."""
    if type_name == "boolean":
        data = pa.py_buffer(np.packbits(values.astype(np.bool_), bitorder="little"))
    else:
        data = pa.py_buffer(np.ascontiguousarray(values, fixed_dtype(type_name)))
    return pa.Array.from_buffers(to_arrow(type_name), len(values), [bitmap(valid), data])


def checked(column: pa.Array, type_name: str) -> pa.Array:
    """The column as its type, if it holds values of that type: text is UTF-8, decimals fit; else CorruptionError."""
    try:
        typed = recast(column, to_arrow(type_name))
        if type_name.startswith("decimal"):
            typed.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptionError(f"found bytes that are not a {type_name}: {error}") from error
    return typed
