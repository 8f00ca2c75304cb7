"""Records as an Avro converter of Connect writes them: a zero byte, the id of a schema that a registry has, and the value."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.debezium.avro_connect_schema import connect_schema
from streamkit.connectors.debezium.envelope import SCHEMAS_MAX, EnvelopeParts, ReadParts
from streamkit.errors import SchemaError
from streamkit.formats.avro_reader import read_columns
from streamkit.formats.avro_schema import columns_of_avro
from streamkit.formats.registry import TYPES, Registry
from streamkit.formats.wire import HEADER_BYTES, NO_ID, schema_ids

SOURCE, TIME = "source", "ts_ms"
_NESTED = ("type", "fields", "items", "values")


@dataclass(frozen=True)
class _Layout:
    """Connect's form of a schema, and the Avro schema without logical types: its values are what Connect counts in."""

    schema: Mapping[str, Any]
    physical: str


@dataclass
class AvroRecords:
    """Reads the `wanted` fields of Avro, or all; of the field `source` the time alone. What the registry says of an id is asked once."""

    registry: Registry
    wanted: Collection[str] | None = None
    _layouts: dict[int, _Layout] = field(default_factory=dict)

    def read(self, records: Sequence[bytes | None]) -> Sequence[ReadParts]:
        """The parts of each record, whose schema is known by its id; or that the registry has none, or the value is not of it."""
        found: list[ReadParts] = [None] * len(records)
        present = np.array([place for place, record in enumerate(records) if record is not None], np.int64)
        values = pa.array([record for record in records if record is not None], pa.binary())
        ids = schema_ids(values)
        for schema_id in np.unique(ids).tolist():
            rows = np.flatnonzero(ids == schema_id)
            for place, parts in zip(present[rows].tolist(), self._of_id(schema_id, values.take(pa.array(rows))), strict=True):
                found[place] = parts
        return found

    def _of_id(self, schema_id: int, values: pa.Array) -> Iterator[ReadParts]:
        if schema_id == NO_ID:
            yield from (_not_avro(value) for value in values.to_pylist())
            return
        try:
            layout = self._layout(schema_id)
        except SchemaError as error:
            yield from [error] * len(values)
            return
        is_struct = layout.schema["type"] == "struct"
        every = columns_of_avro(layout.physical).names
        names = [name for name in every if self.wanted is None or name in self.wanted] or every  # to say what is there
        columns, bad = read_columns(layout.physical, values, names, HEADER_BYTES)
        for payload, is_bad in zip(_only_time(columns).to_pylist(), bad.tolist(), strict=True):
            if is_bad:
                yield SchemaError(f"schema id {schema_id}: the value is not of that Avro schema")
            else:
                yield EnvelopeParts(layout.schema, payload if is_struct else None, schema_id)

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
            return _Layout(connect_schema(found.text), _physical(found.text))
        except SchemaError as error:
            raise SchemaError(f"schema id {schema_id}: {error}") from None


def _not_avro(value: bytes) -> SchemaError:
    return SchemaError(
        f"found {value[:20]!r}; expected a zero byte, a schema id of four bytes and a value, as Confluent's Avro converter writes it"
    )


def _only_time(columns: pa.RecordBatch) -> pa.RecordBatch:
    """The columns with as little of `source` as is looked at: it is most of an envelope."""
    place = columns.schema.get_field_index(SOURCE)
    if place < 0 or not pa.types.is_struct(columns.column(place).type) or columns.column(place).type.get_field_index(TIME) < 0:
        return columns
    time = pa.StructArray.from_arrays([pc.struct_field(columns.column(place), TIME)], [TIME])
    return columns.set_column(place, SOURCE, time)


def _physical(text: str) -> str:
    """The schema without logical types."""

    def plain(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {name: plain(part) if name in _NESTED else part for name, part in schema.items() if name != "logicalType"}
        return [plain(part) for part in schema] if isinstance(schema, list) else schema

    return json.dumps(plain(json.loads(text)))
