"""Types of columns as ksqlDB's REST API writes them: as a text beside rows, as an object where something is described."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from streamkit.data_type import decimal_of, element_of, entry_of, fields_of, from_arrow
from streamkit.errors import SchemaError
from streamkit.expressions.sql.dialect import KSQL
from streamkit.sql.printer.names import quoted_name, type_text

STRING, INTEGER = "STRING", "INTEGER"
OF_KSQL = {"VARCHAR": STRING, "INT": INTEGER, "`void`": "VOID"}


def ksql_type(type: str) -> str:
    """A Spark type in ksqlDB's words, such as ARRAY<STRING>."""
    if (element := element_of(type)) is not None:
        return f"ARRAY<{ksql_type(element)}>"
    if entry := entry_of(type):
        return f"MAP<{ksql_type(entry[0])}, {ksql_type(entry[1])}>"
    if (fields := fields_of(type)) is not None:
        return "STRUCT<{}>".format(", ".join(f"{quoted_name(name)} {ksql_type(one)}" for name, one in fields))
    text = type_text(type, KSQL)
    return OF_KSQL.get(text, text)


def arrow_ksql_type(type: pa.DataType) -> str:
    """The same of a column of Arrow."""
    try:
        return ksql_type(from_arrow(type))
    except SchemaError:
        return str(type).upper()


def schema_text(schema: pa.Schema) -> str:
    """The columns of rows in one text, with names in backticks."""
    return ", ".join(f"{quoted_name(field.name)} {arrow_ksql_type(field.type)}" for field in schema)


def schema_object(type: str) -> dict[str, Any]:
    """A Spark type as an object with its parts."""
    member, fields = element_of(type), fields_of(type)
    if entry := entry_of(type):
        member = entry[1]
    kind = "ARRAY" if element_of(type) is not None else "MAP" if entry else "STRUCT" if fields is not None else ksql_type(type)
    found: dict[str, Any] = {
        "type": kind,
        "fields": None if fields is None else [{"name": name, "schema": schema_object(one)} for name, one in fields],
        "memberSchema": None if member is None else schema_object(member),
    }
    if (decimal := decimal_of(type)) is not None:
        found |= {"type": "DECIMAL", "parameters": {"precision": decimal[0], "scale": decimal[1]}}
    return found


def field_objects(columns: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Columns as objects, each of its name, its Spark type, and whether it is in the key: KEY or nothing."""
    found = [{"name": name, "schema": schema_object(type), "type": role} for name, type, role in columns]
    return [{name: value for name, value in one.items() if value} for one in found]
