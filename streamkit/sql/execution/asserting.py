"""
ASSERT TOPIC and ASSERT SCHEMA wait until something is there, or is gone, and fail if it is not in time.

ASSERT STREAM and ASSERT TABLE compare a declaration.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from streamkit.errors import ConfigError, SchemaError
from streamkit.expressions.ksql.signature import ksql_type, without_times
from streamkit.formats.codec import REGISTRY_URL
from streamkit.formats.registry import Registry
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.stored_source import is_ksql
from streamkit.sql.lowering.scope import bounds_in
from streamkit.sql.pull.abandonment import check_waited_for
from streamkit.sql.script.declared_source import HEADERS_ROLE, column_type
from streamkit.sql.script.properties import NATIVE, NONE, OF_SOURCES, WITH_REGISTRY, TopicProperties
from streamkit.sql.script.topic_format import JSON, KAFKA
from streamkit.sql.tree.statements import (
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    Statement,
)

TIMEOUT_MS = 1_000  # unless the statement says another
LOOK_S = 0.1
NOT_HERE: Mapping[type[Statement], str] = {
    AssertValues: "ASSERT VALUES and ASSERT NULL VALUES belong to a test, as streamkit sql test FILE runs it; here SELECT and PRINT show what there is",
}


def check_assertion(state: ScriptState, statement: AssertTopic | AssertSource) -> None:
    """TopologyError for a property that the statement does not have, which no state of the log makes right."""
    known = ("PARTITIONS", "REPLICAS") if isinstance(statement, AssertTopic) else OF_SOURCES
    properties = TopicProperties.of(statement.properties, known, state.text, statement.span)
    if isinstance(statement, AssertTopic):
        properties.number("PARTITIONS")


def asserted(state: ScriptState, statement: AssertTopic | AssertSchema) -> str:
    """What was found, once it is so; TopologyError if it is not within the statement's TIMEOUT, one second unless it says another."""
    find = _topic if isinstance(statement, AssertTopic) else _schema
    timeout_ms = TIMEOUT_MS if statement.timeout_ms is None else statement.timeout_ms
    deadline = time.monotonic() + timeout_ms / 1_000
    while True:
        check_waited_for()
        is_so, found = find(state, statement)  # type: ignore[arg-type]
        if is_so:
            return f"{found[0].upper()}{found[1:]}."
        if time.monotonic() >= deadline:
            raise state.error(f"the assertion does not hold: {found}", statement.span)
        time.sleep(min(LOOK_S, max(deadline - time.monotonic(), 0)))


def _topic(state: ScriptState, statement: AssertTopic) -> tuple[bool, str]:
    """Whether there is a topic with these partitions, or none; and a text that describes the topic that was found."""
    name = statement.name.text
    properties = TopicProperties.of(statement.properties, ("PARTITIONS", "REPLICAS"), state.text, statement.span)
    topic = state.log.catalog.topics.find(name)
    if topic is None:
        return not statement.exists, f"there is no topic {name}"
    wanted = properties.partitions
    if statement.exists and wanted is not None and wanted != topic.partitions:
        return False, f"the topic {name} has {topic.partitions} partitions, not {wanted}"
    return statement.exists, f"there is a topic {name} with {topic.partitions} partition{'s' * (topic.partitions != 1)}"


def asserted_source(state: ScriptState, statement: AssertSource) -> str:
    """Check that a stream or table is declared as the statement says; TopologyError names the differences."""
    check_assertion(state, statement)
    name, kind = statement.name.text, statement.kind
    known = state.declared(name)
    if known is None or known.kind != kind:
        there = "there is none of that name" if known is None else f"it is a {known.kind}"
        raise state.error(f"the assertion does not hold: there is no {kind} {name}; {there}", statement.span)
    wanted = [
        (
            one.name.text,
            without_times(column_type(one.type, state.types, state.text_in_dialect, one.span)),
            _role_text(one.role, one.header),
        )
        for one in statement.columns
    ]
    bounds = bounds_in(known.key, [(str(one["name"]), str(one["type"])) for one in known.columns])
    found = [
        (str(one["name"]), without_times(str(one["type"])), _role_text(str(one.get("role") or ""), one.get("header")))
        for one in known.columns
        if one["name"] not in bounds
    ]
    if wanted != found:
        raise state.error(
            f"the assertion does not hold: the columns of {known.name} are {_columns_text(found, is_ksql=state.keeps_case)}; expected "
            f"{_columns_text(wanted, is_ksql=state.keeps_case)}",
            statement.span,
        )
    facts = _facts(state, known)
    for one in statement.properties:
        there = facts.get(one.name.upper(), "not set")
        if str(there).upper() != str(one.value).upper():
            raise state.error(
                f"the assertion does not hold: {one.name} of {known.name} is {there}; expected {one.value}", one.span
            )
    return f"The {kind} {known.name} is so."


def _facts(state: ScriptState, known: StoredSource) -> dict[str, Any]:
    """What WITH may say of a stream or table: what its statement says, and what holds where that says nothing."""
    format = known.formats.get("FORMAT")
    facts = {} if format is None else {"KEY_FORMAT": format, "VALUE_FORMAT": format}
    facts |= {**known.formats, "KAFKA_TOPIC": known.topic}
    facts |= {} if known.timestamp is None else {"TIMESTAMP": known.timestamp}
    topic = state.definitions.find_topic(known.topic)
    if topic is not None:
        config = dict(topic.config)
        of_topic = {
            "PARTITIONS": topic.partitions,
            "RETENTION_MS": config.get("retention.ms"),
            "CLEANUP_POLICY": config.get("cleanup.policy"),
        }
        facts |= {name: value for name, value in of_topic.items() if value is not None}
    values = str(facts.setdefault("VALUE_FORMAT", NATIVE)).upper()
    if is_ksql(known):
        of_keys = KAFKA if known.key else NONE
    else:
        of_keys = "STRING" if len(known.key) == 1 else JSON
    facts.setdefault("KEY_FORMAT", NATIVE if values == NATIVE else of_keys)
    if values in (JSON, *WITH_REGISTRY, "PROTOBUF_NOSR"):
        facts.setdefault("WRAP_SINGLE_VALUE", "true")
    for part in ("KEY", "VALUE"):
        if str(facts.get(f"{part}_FORMAT")).upper() == "DELIMITED":
            facts.setdefault(f"{part}_DELIMITER", ",")
    return facts


def _role_text(role: str, header: str | None) -> str:
    """What a column is beside a value, as a statement says it; the key of a stream and that of a table are one."""
    if role == HEADERS_ROLE:
        return "headers" if header is None else f"header('{header}')"
    return "key" if role else ""


def _columns_text(columns: Sequence[tuple[str, str, str]], *, is_ksql: bool) -> str:
    """Columns with the types of the dialect, and what they are beside values."""
    each = ((name, ksql_type(type) if is_ksql else type, role) for name, type, role in columns)
    return ", ".join(" ".join(filter(None, one)) for one in each) or "none"


def _schema(state: ScriptState, statement: AssertSchema) -> tuple[bool, str]:
    """Whether the registry has a schema, or has it not; and a text that says what was found."""
    address = state.settings.script.registry
    if address is None:
        raise state.error("no registry is known; expected SET 'schema.registry.url' = 'http://…' before", statement.span)
    registry = Registry({REGISTRY_URL: address})
    subject, schema_id = statement.subject, statement.schema_id
    what = " ".join(
        filter(None, [f"of {subject.text}" if subject else "", f"with the id {schema_id}" if schema_id is not None else ""])
    )
    try:
        found = registry.latest(subject.text) if subject is not None else registry.schema(schema_id or 0)
    except (SchemaError, ConfigError) as error:
        return not statement.exists, f"there is no schema {what} ({error})"
    if subject is not None and schema_id is not None and found.id != schema_id:
        return not statement.exists, f"the newest schema of {subject.text} has the id {found.id}, not {schema_id}"
    return statement.exists, f"there is a schema {what}"
