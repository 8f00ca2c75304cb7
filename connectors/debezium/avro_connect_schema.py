"""Avro's schemas as Connect's, in the form that Connect's JSON has: what an Avro converter made of one comes back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from streamkit.errors import SchemaError
from streamkit.formats.avro_schema import branches_of, check_avro_schema, kind_of, parsed_schema, resolved

_PHYSICAL = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
    "fixed": "bytes",
    "enum": "string",
}
_CONNECT = "org.apache.kafka.connect.data"
_LOGICAL = {
    ("int", "date"): f"{_CONNECT}.Date",
    ("int", "time-millis"): f"{_CONNECT}.Time",
    ("long", "timestamp-millis"): f"{_CONNECT}.Timestamp",
    ("long", "time-micros"): "io.debezium.time.MicroTime",
    ("long", "timestamp-micros"): "timestamp-micros",
    ("long", "local-timestamp-millis"): "io.debezium.time.Timestamp",
    ("long", "local-timestamp-micros"): "io.debezium.time.MicroTimestamp",
}


def connect_schema(text: str) -> Mapping[str, Any]:
    """
    The schema of a record; logical types by their `connect.name`, else by Avro's own.

    SchemaError for what Connect has no schema of: a union of several types, a record that holds itself, null alone.
    """
    parsed, named = parsed_schema(check_avro_schema(text))
    return _schema(parsed, named, ())


def _schema(found: Any, named: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
    schema = resolved(found, named)
    kind = kind_of(schema)
    if kind == "union":
        return _schema(_only(schema), named, inside)
    own = schema if isinstance(schema, dict) else {}
    physical = _PHYSICAL.get(kind)
    if physical is not None:
        return {"type": own.get("connect.type", physical), **_logical(kind, own)}
    inner = partial(_schema, named=named, inside=inside)
    if kind == "array":
        return {"type": "array", "items": inner(schema["items"]), **_logical(kind, own)}
    if kind == "map":
        return {"type": "map", "keys": {"type": "string"}, "values": inner(schema["values"]), **_logical(kind, own)}
    if kind not in ("record", "error"):
        raise SchemaError(f"found {kind} alone in the Avro schema; expected a type that Connect has")
    return _struct(schema, named, inside)


def _struct(record: Mapping[str, Any], named: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
    name = record["name"]
    if name in inside:
        raise SchemaError(f"the Avro record {name} contains itself, which no column can; expected types that end")
    fields = [{**_schema(one["type"], named, (*inside, name)), "field": one["name"]} for one in record["fields"]]
    return {"type": "struct", "name": record.get("connect.name", name), "fields": fields}


def _only(union: Any) -> Any:
    present = branches_of(union)
    if len(present) != 1:
        raise SchemaError(
            f"found a union of {', '.join(map(kind_of, union))} in the Avro schema; expected one type, or null and one type, as Debezium "
            "writes them: Connect has no other unions. KafkaSource with value.format=avro reads such records, as structs"
        )
    return union[present[0]]


def _logical(kind: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """The name of the logical type and its parameters, if there is one."""
    if own.get("logicalType") == "decimal" and kind in ("bytes", "fixed"):
        plain = {"scale": str(own.get("scale", 0)), "connect.decimal.precision": str(own.get("precision", 0))}
        connect = own.get("connect.parameters", {})  # converters write a precision of 64 where Connect knows none
        return {"name": f"{_CONNECT}.Decimal", "parameters": connect if "scale" in connect else plain}
    name = own.get("connect.name") or _LOGICAL.get((kind, own.get("logicalType", "")))
    return {} if name is None else {"name": name, "parameters": own.get("connect.parameters", {})}
