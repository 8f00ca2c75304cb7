"""Debezium's envelopes: the change of a row, whatever the format in which a record has it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from streamkit.connectors.debezium.connect_type import ConnectType, completed, field_types
from streamkit.connectors.debezium.mongo_document import document
from streamkit.connectors.value_handling import FAIL
from streamkit.errors import SchemaError

ROWS = ("c", "r", "u")  # created, read by a snapshot, updated
DELETION, TRUNCATION, MESSAGE = "d", "t", "m"
Types = Mapping[str, ConnectType]  # by column
SCHEMAS_MAX = 1_000  # that are remembered: a topic has few
_NO_SCHEMA = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
)  # what others than Connect write may be anything


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


class EnvelopeParts(NamedTuple):
    """A record: Connect's schema of it as JSON has that (None if nothing says it), the value, and what the schema is known again by."""

    schema: Mapping[str, Any] | None
    payload: Any
    token: Hashable


ReadParts: TypeAlias = EnvelopeParts | SchemaError | None


class RecordReader(Protocol):
    """What reads values or keys of a format."""

    def read(self, records: Sequence[bytes | None]) -> Sequence[ReadParts]:
        """The parts of each record, or why it is not of the format; None of none."""


@dataclass
class EnvelopeReader:
    """Makes changes and keys of records that were read. A schema, which records of a table repeat, is looked at once."""

    infinity: str = FAIL
    _types: dict[Hashable, Types] = field(default_factory=dict)
    _with_keys: dict[tuple[int, int], tuple[Types, Types, Types]] = field(default_factory=dict)  # whose parts keep their identity

    def envelope(self, value: EnvelopeParts | SchemaError) -> Envelope:
        """The change that a record's value says; SchemaError if it is no envelope."""
        schema, payload, token = _good(value)
        if not isinstance(payload, dict) or not isinstance(payload.get("op"), str):
            found = f"an object with {', '.join(payload)}" if isinstance(payload, dict) else repr(payload)[:80]
            raise SchemaError(
                f"found {found}; expected Debezium's envelope, with op, before, after and source. If it was unwrapped, read it with KafkaSource"
            )
        op, before, after = payload["op"], _row(payload.get("before")), _row(payload.get("after"))
        if op not in (*ROWS, DELETION, TRUNCATION, MESSAGE):
            raise SchemaError(f"found op={op!r}; expected one of {', '.join([*ROWS, DELETION, TRUNCATION, MESSAGE])}")
        if op in ROWS and not isinstance(after, dict):
            raise SchemaError(
                f"found op={op!r} and after={after!r}; expected the row after the change; of MongoDB: capture.mode=change_streams_update_full"
            )
        if before is not None and not isinstance(before, dict):
            raise SchemaError(f"found before={before!r}; expected the row before the change, or null")
        source = payload.get("source")
        time_ms = _time_ms((source.get("ts_ms") if isinstance(source, dict) else None) or payload.get("ts_ms"))
        is_document = isinstance(payload.get("after") or payload.get("before"), str)  # whose schema says that it is a text
        types = None if schema is None or is_document else self._known(token, schema, _row_types)
        if types is not None and op in ROWS:
            after = completed(after, types)
        return Envelope(op, before, after, time_ms, types)

    def key(self, key: EnvelopeParts | SchemaError) -> RecordKey | None:
        """The key that a record has by column; None if it is no object or an empty one; SchemaError for a null that its schema forbids."""
        schema, payload, token = _good(key)
        if not isinstance(payload, dict) or not payload:
            return None
        if schema is None:
            return RecordKey(payload, None)
        types = self._known(token, schema, field_types)
        return RecordKey(completed(payload, types), types)

    def types(self, envelope: Envelope, key: RecordKey | None) -> Types | None:
        """The types of a row's columns, those of its key among them: the same object for the same schemas, so that such rows go together."""
        row, of_key = envelope.types, None if key is None else key.types
        if row is None or of_key is None or of_key.keys() <= row.keys():
            return row
        known = self._with_keys.get((id(row), id(of_key)))
        if known is None:
            if len(self._with_keys) >= SCHEMAS_MAX:
                self._with_keys.clear()
            known = self._with_keys[id(row), id(of_key)] = (row, of_key, {**of_key, **row})
        return known[2]

    def _known(self, token: Hashable, schema: Mapping[str, Any], types: Callable[[Mapping[str, Any], str], Types]) -> Types:
        if token not in self._types:
            if len(self._types) >= SCHEMAS_MAX:
                self._types.clear()
            try:
                self._types[token] = types(schema, self.infinity)
            except _NO_SCHEMA as error:
                raise SchemaError(
                    f"found a schema that is none of Connect's ({type(error).__name__}: {error}); expected an object with type, and of a struct "
                    "with fields, each with its name as field"
                ) from None
        return self._types[token]


def _time_ms(found: Any) -> int | None:
    """A time of an envelope, None if it is no whole number; SchemaError if it is beyond all times."""
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    if not -(2**63) <= found < 2**63:
        raise SchemaError(f"found ts_ms={found}; expected milliseconds since 1970 in 64 bits")
    return found


def _row(found: Any) -> Any:
    """A row of an envelope; MongoDB's is a text of JSON."""
    return document(found) if isinstance(found, str) else found


def _good(found: EnvelopeParts | SchemaError) -> EnvelopeParts:
    if isinstance(found, SchemaError):
        raise found
    return found


def _row_types(envelope: Mapping[str, Any], infinity: str) -> Types:
    rows = {one["field"]: one for one in envelope.get("fields", ())}
    row = rows.get("after") or rows.get("before")
    return field_types(row, infinity) if row is not None else {}
