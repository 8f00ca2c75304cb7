"""
Whether a changed declaration still reads the records that its topic has.

JSON and columns have names. Other formats of the ksql dialect know a column by its place among the bytes, so another order of columns would
exchange values, and another type or number of columns would lose them. KAFKA, which has one column, does not tell its type either. Avro finds
the columns of values by their names, and keeps their places and types nevertheless, as in ksqlDB. Behind a registry columns have names in each
format, and keep their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamkit.expressions.ksql.signature import ksql_type, without_times
from streamkit.formats.protobuf_schema import compiled, field_type
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.sql.execution.avro_columns import add_avro_columns
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.script.declared_source import HEADERS_ROLE
from streamkit.sql.script.properties import NATIVE, WITH_REGISTRY
from streamkit.sql.tree.span import TextSpan

AVRO, DELIMITED, KAFKA = "AVRO", "DELIMITED", "KAFKA"
PROTOBUFS = ("PROTOBUF", "PROTOBUF_NOSR")  # a column behind the others has its default in values that lack it
BY_PLACE = (AVRO, DELIMITED, KAFKA, *PROTOBUFS)


@dataclass(frozen=True)
class KeptValues:
    """A stream or table as it was, beside what takes its place; `otherwise` says what to do in place of a change that is refused."""

    state: ScriptState
    known: StoredSource
    new: StoredSource
    span: TextSpan
    otherwise: str

    def check(self) -> None:
        """TopologyError if records that are there would be read otherwise, or not at all; a topic of Avro gets the columns that are new."""
        if self.known.topic != self.new.topic:
            return
        self._check_numbers()
        topic = self.state.definitions.find_topic(self.known.topic)
        registry = self.state.definitions.registry_of(self.known.topic, self.state.settings.script.registry)
        if topic is not None and topic.format is not None and topic.format.has_registry:
            self._check_types()
        if not self.state.keeps_case:
            return
        for part, name in (("keys", "KEY_FORMAT"), ("values", "VALUE_FORMAT")):
            format = _format(self.known, name)
            has_names = format not in BY_PLACE or (registry is not None and format in WITH_REGISTRY)
            if has_names or _format(self.new, name) != format:
                continue
            before, now = _columns(self.known, part), _columns(self.new, part)
            if format == KAFKA:
                self._check_one(part, before, now)
            else:
                self._check_part(part, format, before, now)

    def _check_numbers(self) -> None:
        """TopologyError if another VALUE_SCHEMA of Protobuf gives a field another number or type, or its number to another field."""
        schemas = [one.formats.get("VALUE_SCHEMA") for one in (self.known, self.new)]
        if (
            None in schemas
            or schemas[0] == schemas[1]
            or not all(_format(one, "VALUE_FORMAT") in PROTOBUFS for one in (self.known, self.new))
        ):
            return
        before, now = (
            {field.number: f"{field.name}, of {field_type(field, ())}" for field in compiled(str(text)).named("").fields}
            for text in schemas
        )
        names = [{text.partition(",")[0]: number for number, text in one.items()} for one in (before, now)]
        moved = [name for name, number in names[0].items() if names[1].get(name, number) != number]
        changed = [number for number in before if now.get(number, before[number]) != before[number]]
        if moved or changed:
            number = changed[0] if changed else names[0][moved[0]]
            would = f"is {now[number]}" if number in now else f"is none, and {moved[0]} is number {names[1][moved[0]]}"
            raise self.state.error(
                f"Protobuf knows a field by its number: number {number} is {before[number]} in the VALUE_SCHEMA of {self.known.name}, and {would} in the "
                f"new one, so records of before would be read as others, or not at all; expected fields that keep their numbers and types; or {self.otherwise}",
                self.span,
            )

    def _check_types(self) -> None:
        """TopologyError if a column behind a registry gets another type: values have the types of the topic's schema, which stays."""
        types = dict(_columns(self.new, "values"))
        for name, type in _columns(self.known, "values"):
            if types.get(name, type) != type:
                raise self.state.error(
                    f"columns of values behind a registry keep their types when a declaration or query is replaced, as in ksqlDB: {name} of "
                    f"{self.known.name} is {ksql_type(type)}, and would be {ksql_type(types[name])}; expected a CAST, or a column of another name; "
                    f"or {self.otherwise}",
                    self.span,
                )

    def check_built(self) -> None:
        """TopologyError if another declaration of a topic would exchange or lose what is built in its place; those of AVRO go by names."""
        if _format(self.known, "VALUE_FORMAT") != AVRO:
            self.check()

    def _check_one(self, part: str, before: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> None:
        """TopologyError if the one column of the format KAFKA gets another type: the bytes do not say their type."""
        if before and [type for _, type in now] != [type for _, type in before]:
            raise self.state.error(
                f"{KAFKA} has one column, and nothing in its bytes tells its type: the {part} of {self.known.name} are {_text(before)}, and would be "
                f"{_text(now)}, so records of before would be read as others, or not at all; expected a column of that type; or {self.otherwise}",
                self.span,
            )

    def _check_part(self, part: str, format: str, before: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> None:
        added = now[len(before) :]
        if now[: len(before)] != before or (added and part == "keys"):
            more = "" if part == "keys" else ", and new ones behind them"
            has = f"{self.known.name} has {_text(before)}, and would have {_text(now)}"
            told = (
                f"columns of values in {format} keep their places and types when a declaration or query is replaced, as in ksqlDB: {has}"
                if format == AVRO and part == "values"  # where they are found by their names
                else f"{format} knows a column of {part} by its place: {has}, so records of before would be read as others, or not at all"
            )
            raise self.state.error(f"{told}; expected these columns in this order{more}; or {self.otherwise}", self.span)
        if not added or format in PROTOBUFS or (format == AVRO and add_avro_columns(self.state, self.new, self.span)):
            return
        if records := self._records():
            raise self.state.error(
                f"the topic {self.known.topic} has {records:,} record{'s' * (records != 1)} of {_text(before)}, which {format} could not read any more "
                f"with {', '.join(name for name, _ in added)}; expected the columns as they are; or {self.otherwise}",
                self.span,
            )

    def _records(self) -> int:
        """How many records the topic has; the records that the text inserts count."""
        topic = self.known.topic
        inserted: int = sum(batch.num_rows for batch in self.state.rows.get(topic, ()))
        is_new = topic in self.state.definitions.created or self.state.definitions.find_topic(topic) is None
        return inserted if is_new else inserted + int(self.state.log.describe(topic)["rows"])


def _format(source: StoredSource, name: str) -> str:
    """The format of keys or values, as WITH says it; keys beside a format of values are KAFKA unless it says more."""
    said = str(source.formats.get(name) or source.formats.get("FORMAT") or "").upper()
    has_format = any(str(source.formats.get(one, NATIVE)).upper() != NATIVE for one in ("VALUE_FORMAT", "FORMAT"))
    return KAFKA if name == "KEY_FORMAT" and has_format and not said else said


def _columns(source: StoredSource, part: str) -> list[tuple[str, str]]:
    """The columns of keys or values, in the order of the bytes."""
    found = [(str(one["name"]), without_times(str(one["type"]))) for one in source.columns if one.get("role") != HEADERS_ROLE]
    return [one for one in found if (one[0] in source.key) == (part == "keys")]


def _text(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {ksql_type(type)}" for name, type in columns) or "no column"
