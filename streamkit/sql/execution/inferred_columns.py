"""Columns that CREATE … WITH does not name: those of the schema that its topic, or the registry, has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamkit.errors import SchemaError
from streamkit.expressions.ksql.signature import has_times, without_times
from streamkit.formats.codec import Codec, schema_made_of
from streamkit.formats.format import KEY_FORMAT, KEY_SCHEMA, MESSAGE, OF_KEYS, REGISTRY_URL, WINDOW, Format
from streamkit.formats.protobuf_messages import TIME_OF_DAY
from streamkit.formats.protobuf_schema import compiled, is_misread, is_same_field, protobuf_of_types, with_wrappers
from streamkit.formats.windowed_keys import without_bounds
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.topic.topic import Topic
from streamkit.plan.encoding import own_keys
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.execution.declared_keys import placed_key_of
from streamkit.sql.execution.definitions import VALUE_FORMAT, format_columns
from streamkit.sql.execution.schema_fit import is_of_other_kind
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.stored_source import WINDOW_TYPE
from streamkit.sql.script.declared_source import HEADERS_ROLE, KEY_ROLES, column_type
from streamkit.sql.script.properties import OF_SOURCES, WITH_REGISTRY, TopicProperties
from streamkit.sql.tree.span import Name
from streamkit.sql.tree.statements import TABLE, ColumnDefinition, CreateSource

WORDS_OF = {"avro": ("AVRO",), "protobuf": ("PROTOBUF", "PROTOBUF_NOSR"), "json": ("JSON", "JSON_SR")}


@dataclass(frozen=True)
class InferredColumns:
    """The columns of a statement over a topic that is there, whose format may be `given` by the topic; one that `is_stored` names all it has."""

    state: ScriptState
    statement: CreateSource
    topic: Topic
    given: Mapping[str, Any]
    is_ksql: bool
    is_stored: bool

    def found(self) -> tuple[ColumnDefinition, ...]:
        """
        The columns of the statement; where it names none, those that the topic's format says.

        As in ksqlDB a statement may name the key, or headers, alone: behind a registry the columns of values are those of the schema, too.
        """
        state, topic, given, declared = self.state, self.topic, self.given, self.statement.columns
        format = self._format_of_values()
        names_values = any(one.role not in (*KEY_ROLES, HEADERS_ROLE) for one in declared)
        said = str(given.get(VALUE_FORMAT, given.get("FORMAT"))).upper()
        has_schema = said in WITH_REGISTRY
        if names_values or (declared and (self.is_stored or not has_schema or format is None or not format.has_registry)):
            return declared
        found, reason = None, ""
        if format is not None and not declared and said not in WORDS_OF.get(format.name, (said,)):
            of_topic = "JSON_SR" if format.has_registry and format.name == "json" else WORDS_OF[format.name][0]
            raise state.error(
                f"the values of the topic {topic.name} are {of_topic}, and VALUE_FORMAT says {said}, so none of its columns could be read; expected "
                f"VALUE_FORMAT = '{of_topic}'",
                self.statement.span,
            )
        try:
            found = None if format is None else format_columns(format, topic.name)
        except SchemaError as error:
            reason = f" ({str(error).partition('; expected')[0].rstrip('.')})"
        if found is None and declared:  # whose values nobody can read as columns
            return declared
        if found is None:
            raise state.error(
                f"nothing says which columns the values of the topic {topic.name} have{reason}; expected them in parentheses behind "
                f"{self.statement.name.text}",
                self.statement.span,
            )
        keys = declared or self._columns_of_keys(str(given.get("KEY_FORMAT", given.get("FORMAT", ""))).lower())
        names = [key.name.text for key in keys]
        if not declared and names == [KEY] and KEY in found:
            raise state.error(
                f"the values of the topic {topic.name} have a column {KEY!r}, and so its key, which no column names, cannot be called; expected the "
                f"key in parentheses behind {self.statement.name.text}, as in (id STRING KEY)",
                self.statement.span,
            )
        values = [ColumnDefinition(Name(one.name), self._type_declared(one)) for one in found if one.name not in names]
        return (*keys, *values)

    def check_places(self, columns: Sequence[ColumnDefinition]) -> None:
        """
        TopologyError for columns of PROTOBUF without a registry that the ksql dialect would look for elsewhere than the topic's schema has them.

        It goes by a schema made of the columns, whose fields have the numbers 1, 2 and so on. What a statement names may be read in another type.
        """
        format = self.topic.format
        is_asked = self.is_ksql and not self.is_stored and "VALUE_SCHEMA" not in self.given
        if not is_asked or format is None or format.has_registry or format.name != "protobuf" or format.schema is None:
            return
        if str(self.given.get(VALUE_FORMAT, self.given.get("FORMAT"))).upper() not in WORDS_OF["protobuf"]:
            return
        known = self.state.declared(self.statement.name.text)
        if (
            self.statement.columns and known is not None and known.topic == self.topic.name
        ):  # which OR REPLACE compares with what it was
            return
        values = [one for one in columns if one.role not in (*KEY_ROLES, HEADERS_ROLE)]
        types = [(one.name.text, column_type(one.type, self.state.types, self.state.text_in_dialect, one.span)) for one in values]
        try:
            made = protobuf_of_types(types)
        except SchemaError:  # which is said where the format is made
            return
        if str(self.given.get("VALUE_PROTOBUF_NULLABLE_REPRESENTATION")).upper() == "WRAPPER":
            made = with_wrappers(made)
        own, is_named = compiled(format.schema).named(format.setting(MESSAGE)), bool(self.statement.columns)
        found = {field.name: (field, own) for field in compiled(made).named("").fields}
        names = [name for name, pair in found.items() if (is_misread(*pair) if is_named else not is_same_field(*pair))]
        if names:
            raise self.state.error(
                f"the schema of the topic {self.topic.name} has {', '.join(names)} otherwise than the ksql dialect reads such columns without a registry: "
                f"under another number, or in another type; expected {self._ways_to_read(own, names)}",
                self.statement.span,
            )

    def _ways_to_read(self, own: Any, names: Sequence[str]) -> str:
        """How columns that a schema of Protobuf has otherwise can be read."""
        fields = [own.fields_by_name.get(name) for name in names]
        messages = {"" if one is None or one.message_type is None else str(one.message_type.full_name) for one in fields}
        if messages == {TIME_OF_DAY} and not self.statement.columns:
            return f"the columns in parentheses behind {self.statement.name.text}, and TIME for a time of the day, or VALUE_SCHEMA = '…' with that schema"
        if all(one.startswith("google.protobuf.") and one.endswith("Value") for one in messages):
            return "VALUE_PROTOBUF_NULLABLE_REPRESENTATION = 'WRAPPER', or VALUE_SCHEMA = '…' with that schema"
        return "VALUE_SCHEMA = '…' with that schema"

    def _format_of_values(self) -> Format | None:
        """The format of a topic's values; of a topic of bytes the one behind a registry that the statement says, if it says one."""
        topic, given = self.topic, self.given
        properties = TopicProperties.of(self.statement.properties, OF_SOURCES, self.state.text, self.statement.span)
        registry = self.state.definitions.registry_of(topic.name, self.state.settings.script.registry)
        if topic.format is None or topic.format.name != "bytes" or registry is None or not properties.uses_registry:
            return topic.format
        said = str(given.get(VALUE_FORMAT, given.get("FORMAT"))).lower()
        return Format("json" if said == "json_sr" else said, None, ((REGISTRY_URL, registry),), topic.format.topic)

    def _type_declared(self, found: SchemaColumn) -> str:
        """The type that a schema does not say, if a declaration that writes to a topic of SQL has one: TIME is a number there, in JSON a DECIMAL a text."""
        topic = self.topic
        if topic.format is None or topic.format.schema is None:
            return found.type
        others = [one for one in self.state.definitions.sources.values() if one.topic == topic.name and not one.is_read_only]
        types = [
            str(column["type"])
            for one in others
            for column in one.columns
            if column["name"] == found.name and not column.get("role")
        ]
        for type in types:
            is_unsaid = has_times(type) or is_of_other_kind(type, found.type, is_strict=True)
            written = without_times(type)
            made = schema_made_of(topic.format.name, Schema((SchemaColumn(found.name, written),))) if is_unsaid else None
            if made is None or Codec(replace(topic.format, schema=made)).written[found.name].type != found.type:
                return found.type  # which one of them has
        return next((type for type in types if self.is_ksql or not has_times(type)), found.type)

    def _columns_declared(self, format: str) -> list[ColumnDefinition]:
        """The columns of the key of another declaration, where keys have no names; none if there is none with keys of that format."""
        others = [one for one in self.state.definitions.sources.values() if one.topic == self.topic.name]
        for one in others:
            key = None if one.name == self.statement.name.text else placed_key_of(self.state, one)
            has_windows = one.windows is not None or WINDOW_TYPE in one.formats
            if key is not None and key.format == format and not has_windows:
                types = {str(column["name"]): str(column["type"]) for column in one.columns}
                return [ColumnDefinition(Name(name), types.get(name, type)) for name, type in key.columns]
        return []

    def _columns_of_keys(self, format: str) -> tuple[ColumnDefinition, ...]:
        """The columns of keys, as the registry says them of a format that has schemas there; else none in the ksql dialect, as in ksqlDB, and one text."""
        topic, role = self.topic, "primary key" if self.statement.kind == TABLE else "key"
        known = self.state.declared(self.statement.name.text)
        # An earlier checkout has declared it so.
        former = () if known is None or known.topic != topic.name else known.columns
        has_text = any(one["name"] == KEY and one.get("role") == role and one["type"] == "string" for one in former)
        unsaid = (ColumnDefinition(Name(KEY), "string", role),) if has_text or not self.is_ksql else ()
        registry = self.state.definitions.registry_of(topic.name, self.state.settings.script.registry)
        own = own_keys(topic.format, format, topic.name, is_new=topic.name in self.state.definitions.created)
        if format not in ("avro", "protobuf") and (own is None or self.is_ksql):
            return unsaid
        if registry is None and (declared := self._columns_declared(format)):
            return tuple(replace(one, role=role) for one in declared)
        its = "" if topic.format is None or topic.format.setting(KEY_FORMAT) != format else topic.format.setting(KEY_SCHEMA)
        if its and topic.format is not None and (registry is None or own is not None):
            columns = Schema.from_ddl(its)
            columns = without_bounds(columns) if topic.format.setting(f"{OF_KEYS}{WINDOW}") else columns
            return tuple(ColumnDefinition(Name(one.name), one.type, role) for one in columns)
        if registry is None:
            return unsaid
        subjects_of = topic.name if topic.format is None else topic.format.topic or topic.name
        try:
            found = Codec(Format(format, None, ((REGISTRY_URL, registry),)), topic=subjects_of, part=KEY).written
        except SchemaError:  # there is no such subject, or its schema says no columns
            return unsaid
        return tuple(ColumnDefinition(Name(KEY if one.name == VALUE else one.name), one.type, role) for one in found)
