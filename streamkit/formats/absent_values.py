"""Values that a format has bytes for, and that mean that there is no value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.formats.format import UNWRAPPED, Format

JSON_NULL = r"^[ \t\r\n]*null[ \t\r\n]*$"


def without_absent(format: Format, values: pa.Array) -> pa.Array:
    """
    The values; in JSON of ksqlDB a null alone is none, so it deletes the row of its key as a record without a value does.

    Where values are those of one column without an object around it, null is a value of that column, as in ksqlDB.
    So is each value of KAFKA if there are no columns: ksqlDB does not look at it.
    """
    if format.name == "kafka" and format.schema == "":
        return pa.nulls(len(values), pa.binary())
    if format.name != "ksql_json" or format.setting(UNWRAPPED) == "true":
        return values
    binary = values if pa.types.is_binary(values.type) else values.cast(pa.binary())
    absent = pc.match_substring_regex(binary, JSON_NULL)
    return pc.if_else(absent.fill_null(False), pa.scalar(None, pa.binary()), binary) if pc.any(absent).as_py() else values
