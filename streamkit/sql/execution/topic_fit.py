"""Whether the topic of a stream or table is still one that its CREATE could declare."""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.expressions.ksql.signature import without_times
from streamkit.formats.format import DELIMITER, KEY_FORMAT, KEY_SCHEMA, OF_KEYS, WITH_REGISTRY
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.evolution import is_wider
from streamkit.log.topic.topic import Topic
from streamkit.plan.decoding import DecodedSchema
from streamkit.plan.encoding import other_settings
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.execution.definitions import VALUE_FORMAT
from streamkit.sql.script.declared_source import HEADERS_ROLE
from streamkit.sql.script.properties import NATIVE


def misfit(stored: StoredSource, topic: Topic) -> str | None:
    """What of a declaration is no longer true of its topic, which was made again, and what to do; None if all of it is."""
    reasons = "; ".join(_unfit(stored, topic))
    if not reasons:
        return None
    wanted = (
        f"CREATE OR REPLACE {stored.kind.upper()} {stored.name} as the topic is now"
        if stored.query is None
        else f"DROP {stored.kind.upper()} {stored.name}, which ends the query {stored.query}, and CREATE … AS SELECT after it"
    )
    return (
        f"the {stored.kind} {stored.name} does not fit its topic {topic.name} any more, which was deleted and made again since: {reasons}; "
        f"expected {wanted}, or the topic as it was"
    )


def key_misfit(written: DecodedSchema, topic: Topic) -> str | None:
    """How the keys that a declaration would write differ from those of its topic, by what both say; None if equal keys have equal bytes."""
    own, its = written.format, topic.format
    if (
        its is None
        or not len(written.key)
        or not own.setting(KEY_FORMAT)
        or not its.setting(KEY_FORMAT)
        or not its.setting(KEY_SCHEMA)
    ):
        return None
    names = {own.setting(KEY_FORMAT), its.setting(KEY_FORMAT)}
    if names == {"kafka", "string"} and [one.type for one in written.key] == ["string"]:
        return None
    of_subject = written.keys.has_registry and len(names) == 1  # which says what its keys are
    by_default = {f"{OF_KEYS}{DELIMITER}": ","} if names == {"delimited"} else {}
    settings = [
        by_default
        | {name: value for name, value in one.settings if name.startswith(OF_KEYS) and not (of_subject and name == KEY_SCHEMA)}
        for one in (own, its)
    ]
    return other_settings(*settings)


def unsaid_key_misfit(written: DecodedSchema, topic: Topic) -> str | None:
    """
    How the keys that a declaration of the `spark` dialect would write lie otherwise than the topic says; None if they do not, or it says nothing.

    JSON of several columns and DELIMITED of both dialects differ in some values alone.
    """
    its = topic.format
    if its is None or not its.setting(KEY_FORMAT) or not its.setting(KEY_SCHEMA):
        return None
    said, name = its.setting(KEY_FORMAT), written.keys.name
    is_under_schemas = its.has_registry and said in WITH_REGISTRY
    types = [one.type for one in written.key]
    is_text = {said, name} == {"kafka", "string"} and types in (["string"], ["binary"])
    is_json = {said, name} == {"json", "ksql_json"} and len(types) > 1
    is_alike = said == name or {said, name} == {"csv", "delimited"} or is_json
    if is_text and [one.type for one in Schema.from_ddl(its.setting(KEY_SCHEMA))] == types:
        return None
    if is_alike and is_under_schemas == written.keys.has_registry:
        return None
    return (
        f"its keys are {its.setting(KEY_SCHEMA)} in the format {said}, and what is written has {written.key} in the format {name}; expected KEY_FORMAT as the "
        "topic has it, or the ksql dialect, if that has made it"
    )


def _unfit(stored: StoredSource, topic: Topic) -> Iterator[str]:
    """What the declaration says that the topic is not."""
    formats = [stored.formats[one] for one in (VALUE_FORMAT, "FORMAT") if one in stored.formats]
    has_columns = not formats or str(formats[0]).upper() == NATIVE
    if topic.format is not None:
        if has_columns:
            yield f"{stored.name} has columns of the topic, and the topic has values of the format {topic.format.name}"
        return
    if not has_columns:
        yield f"{stored.name} has values of the format {formats[0]}, and the topic has columns: {topic.schema}"
        return
    for column in stored.columns:
        name, type = str(column["name"]), without_times(str(column["type"]))
        if column.get("role") == HEADERS_ROLE:
            continue
        if name not in topic.schema:
            yield f"{stored.name} has a column {name}, and the topic has {', '.join(topic.schema.names)}"
            return
        found = topic.schema[name]
        declared = SchemaColumn(name, type)
        if found.type != declared.type and not is_wider(found.arrow.type, declared.arrow.type):
            yield f"{name} is {declared.type} in {stored.name}, and {found.type} in the topic"
    if sorted(stored.key) != sorted(topic.key):
        yield f"the key of {stored.name} is {', '.join(stored.key) or 'no column'}, and that of the topic {', '.join(topic.key) or 'no column'}"
