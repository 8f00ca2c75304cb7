"""Records as Connect's JSON converter writes them, with a schema around each or without."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamkit.connectors.debezium.envelope import SCHEMAS_MAX, EnvelopeParts, ReadParts
from streamkit.connectors.debezium.strict_json import strict_json
from streamkit.errors import SchemaError

_PAYLOAD = b',"payload":'


@dataclass
class JsonRecords:
    """Reads JSON. A schema, which records of a table repeat word for word, is read once."""

    _schemas: dict[bytes, Mapping[str, Any] | None] = field(default_factory=dict)

    def read(self, records: Sequence[bytes | None]) -> Sequence[ReadParts]:
        """The parts of each record, whose schema is known by its text, or why it is no JSON."""
        return [None if record is None else self._attempt(record) for record in records]

    def _attempt(self, record: bytes) -> EnvelopeParts | SchemaError:
        try:
            return self._parts(record)
        except SchemaError as error:
            return error

    def _parts(self, record: bytes) -> EnvelopeParts:
        if record.startswith(b'{"schema":'):
            end = record.find(_PAYLOAD)
            token = record[:end]
            if end > 0 and (token in self._schemas or self._learn(token)):
                return EnvelopeParts(self._schemas[token], _json(record[end + len(_PAYLOAD) : record.rindex(b"}")]), token)
        found = _json(record)
        if isinstance(found, dict) and set(found) == {"schema", "payload"}:
            return EnvelopeParts(found["schema"], found["payload"], json.dumps(found["schema"]).encode())
        return EnvelopeParts(None, found, b"")

    def _learn(self, token: bytes) -> bool:
        """Whether a text is that of a schema; it is read and kept."""
        if len(self._schemas) >= SCHEMAS_MAX:
            self._schemas.clear()
        try:
            self._schemas[token] = json.loads(token + b"}")["schema"]
        except ValueError:
            return False
        return True


def _json(text: bytes) -> Any:
    try:
        return strict_json(text.decode())
    except ValueError as error:
        raise SchemaError(f"found {text[:60]!r}, which is no JSON: {error}; expected Debezium's envelope as JSON") from None
