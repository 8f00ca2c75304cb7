"""Debezium's envelopes: the change of a row, with or without Connect's schema around it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamkit.connectors.debezium.connect_type import ConnectType, connect_type
from streamkit.errors import SchemaError

ROWS = ("c", "r", "u")  # created, read by a snapshot, updated
DELETION, TRUNCATION, MESSAGE = "d", "t", "m"
Types = Mapping[str, ConnectType]  # by column
_PAYLOAD = b',"payload":'
_SCHEMAS_MAX = 1_000  # that are remembered: a topic has few


@dataclass(frozen=True)
class Envelope:
    """A change: its `op`, the row before and after it, and when it was made; `types` are the columns', None without a schema."""

    op: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    time_ms: int | None
    types: Types | None


@dataclass(frozen=True)
class RecordKey:
    """The key of a record by column; `types` as above."""

    values: Mapping[str, Any]
    types: Types | None


@dataclass
class EnvelopeReader:
    """Reads envelopes and keys from JSON. A schema, which records of a table repeat word for word, is read once."""

    _schemas: dict[bytes, Mapping[str, Any] | None] = field(default_factory=dict)
    _types: dict[bytes, Types] = field(default_factory=dict)

    def envelope(self, value: bytes) -> Envelope:
        """The change that a record's value says; SchemaError if it is no envelope."""
        schema, payload, token = self._parts(value)
        if not isinstance(payload, dict) or not isinstance(payload.get("op"), str):
            found = f"an object with {', '.join(payload)}" if isinstance(payload, dict) else repr(payload)[:80]
            raise SchemaError(
                f"found {found}; expected Debezium's envelope, with op, before, after and source. If it was unwrapped, read it with KafkaSource"
            )
        op, before, after = payload["op"], payload.get("before"), payload.get("after")
        if op not in (*ROWS, DELETION, TRUNCATION, MESSAGE):
            raise SchemaError(f"found op={op!r}; expected one of {', '.join([*ROWS, DELETION, TRUNCATION, MESSAGE])}")
        if op in ROWS and not isinstance(after, dict):
            raise SchemaError(f"found op={op!r} and after={after!r}; expected the row after the change")
        source = payload.get("source")
        time_ms = (source.get("ts_ms") if isinstance(source, dict) else None) or payload.get("ts_ms")
        types = None if schema is None else self._row_types(token, schema)
        return Envelope(op, before, after, time_ms if isinstance(time_ms, int) else None, types)

    def key(self, key: bytes) -> RecordKey | None:
        """The key that a record has by column; None if it is no object, and so says no columns."""
        schema, payload, token = self._parts(key)
        if not isinstance(payload, dict):
            return None
        if schema is None:
            return RecordKey(payload, None)
        if token not in self._types:
            self._types[token] = _types(schema)
        return RecordKey(payload, self._types[token])

    def _row_types(self, token: bytes, schema: Mapping[str, Any]) -> Types:
        if token not in self._types:
            rows = {one["field"]: one for one in schema.get("fields", ())}
            row = rows.get("after") or rows.get("before")
            self._types[token] = _types(row) if row is not None else {}
        return self._types[token]

    def _parts(self, text: bytes) -> tuple[Mapping[str, Any] | None, Any, bytes]:
        """The schema, the payload, and the schema's text, by which it is known again."""
        if text.startswith(b'{"schema":'):
            end = text.find(_PAYLOAD)
            token = text[:end]
            if end > 0 and (token in self._schemas or self._learn(token)):
                return self._schemas[token], _json(text[end + len(_PAYLOAD) : text.rindex(b"}")]), token
        found = _json(text)
        if isinstance(found, dict) and set(found) == {"schema", "payload"}:
            return found["schema"], found["payload"], json.dumps(found["schema"]).encode()
        return None, found, b""

    def _learn(self, token: bytes) -> bool:
        """Whether a text is that of a schema; it is read and kept."""
        if len(self._schemas) >= _SCHEMAS_MAX:
            self._schemas.clear()
            self._types.clear()
        try:
            self._schemas[token] = json.loads(token + b"}")["schema"]
        except ValueError:
            return False
        return True


def _types(schema: Mapping[str, Any]) -> Types:
    return {one["field"]: connect_type(one) for one in schema.get("fields", ())}


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(f"found {text[:60]!r}, which is no JSON: {error}; expected Debezium's envelope as JSON") from None
