"""Records as an Avro converter of Connect writes them: a zero byte, the id of a schema that a registry has, and the value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamkit.connectors.debezium.avro_connect_schema import connect_schema
from streamkit.connectors.debezium.envelope import SCHEMAS_MAX, Parts
from streamkit.errors import SchemaError
from streamkit.formats.avro import avro_codec
from streamkit.formats.registry import TYPES, Registry
from streamkit.formats.wire import HEADER_BYTES, MAGIC

_REFUSED = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, EOFError)


@dataclass(frozen=True)
class _Layout:
    """Connect's form of a schema, and what decodes a value of it."""

    schema: Mapping[str, Any]
    decode: Callable[[bytes], Any]


@dataclass
class AvroRecords:
    """Reads Avro. What the registry says of an id is asked once."""

    registry: Registry
    _layouts: dict[int, _Layout] = field(default_factory=dict)

    def parts(self, record: bytes) -> Parts:
        """The parts of a record, whose schema is known by its id; SchemaError if there is no such schema, or the value is not of it."""
        if len(record) < HEADER_BYTES or record[0] != MAGIC:
            raise SchemaError(
                f"found {record[:20]!r}; expected a zero byte, a schema id of four bytes and a value, as Confluent's Avro converter writes it"
            )
        schema_id = int.from_bytes(record[1:HEADER_BYTES], "big")
        layout = self._layout(schema_id)
        try:
            payload = layout.decode(record[HEADER_BYTES:])
        except _REFUSED as error:
            raise SchemaError(
                f"schema id {schema_id}: the value is not of that Avro schema: {str(error) or type(error).__name__}"
            ) from error
        return Parts(layout.schema, payload, schema_id)

    def _layout(self, schema_id: int) -> _Layout:
        if schema_id not in self._layouts:
            if len(self._layouts) >= SCHEMAS_MAX:
                self._layouts.clear()
            self._layouts[schema_id] = self._asked(schema_id)
        return self._layouts[schema_id]

    def _asked(self, schema_id: int) -> _Layout:
        found = self.registry.schema(schema_id)
        if found.type != TYPES["avro"]:
            raise SchemaError(
                f"the registry {self.registry.shown} has {found.type} under the schema id {schema_id}; expected Avro"
            )
        try:
            return _Layout(connect_schema(found.text), avro_codec(_physical(found.text))[1])
        except SchemaError as error:
            raise SchemaError(f"schema id {schema_id}: {error}") from None


def _physical(text: str) -> str:
    """The schema without logical types, so that a value is the number or the bytes that Connect counts in."""

    def plain(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {name: plain(part) if name in _NESTED else part for name, part in schema.items() if name != "logicalType"}
        return [plain(part) for part in schema] if isinstance(schema, list) else schema

    return json.dumps(plain(json.loads(text)))


_NESTED = ("type", "fields", "items", "values")
