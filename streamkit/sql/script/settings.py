"""SET: the settings that a script has for its whole application."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from streamkit.errors import TopologyError
from streamkit.names import meant
from streamkit.plan.on_error import FAIL, SKIP, OnError, dead_letter
from streamkit.sql.ksql.expressions import KsqlMeaning
from streamkit.sql.lowering.ksql_meaning import KSQL, KsqlDialect
from streamkit.sql.lowering.meaning import SPARK, Meaning
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.script.default_formats import DefaultFormats
from streamkit.sql.script.ignored_settings import is_ignored
from streamkit.sql.script.properties import KSQL_FORMATS
from streamkit.sql.tree.statements import Set
from streamkit.time_zone import ZoneError, canonical_zone

DIALECT, APPLICATION = "streamkit.sql.dialect", "streamkit.application"
TIME_ZONE, ON_ERROR = "streamkit.time.zone", "streamkit.on.error"
ENGINE = "streamkit.engine"  # of a session
REGISTRY, OFFSET_RESET = "schema.registry.url", "auto.offset.reset"
NESTED_ERROR = "ksql.nested.error.set.null"
LOG_CREATED, LOG_TOPIC = "ksql.logging.processing.topic.auto.create", "ksql.logging.processing.topic.name"
NEARLY_EQUAL = 0.95  # of 1, of the names of two settings
PROCESSING_LOG = "KSQL_PROCESSING_LOG"
VALUE_FORMAT, KEY_FORMAT = "ksql.persistence.default.format.value", "ksql.persistence.default.format.key"
WRAP_VALUES = "ksql.persistence.wrap.single.values"
THROW_TIMES = "ksql.timestamp.throw.on.invalid"
LIST_LIMIT, SET_LIMIT = "ksql.functions.collect_list.limit", "ksql.functions.collect_set.limit"
OF_KSQL_DIALECT = (  # which do nothing in the other one
    NESTED_ERROR, LOG_CREATED, LOG_TOPIC, VALUE_FORMAT, KEY_FORMAT, WRAP_VALUES, THROW_TIMES, LIST_LIMIT, SET_LIMIT,
)  # fmt: skip
SETTINGS = {
    DIALECT: "how expressions are written and meant: spark or ksql",
    APPLICATION: "the name of the application; the file's name without .sql unless set",
    TIME_ZONE: "the time zone of functions that depend on one, such as Europe/Berlin; UTC unless set",
    ON_ERROR: "what becomes of a record that makes a step fail: fail, skip, or dead_letter and the name of a topic",
    REGISTRY: "where the schema registry is that formats such as AVRO ask",
    OFFSET_RESET: "where streams begin: earliest",
    NESTED_ERROR: "in the ksql dialect: whether of ARRAY, MAP and STRUCT only what fails inside is null; true unless set",
    LOG_CREATED: f"in the ksql dialect: whether expressions and records that fail have entries in the topic {PROCESSING_LOG}; false unless set",
    LOG_TOPIC: "in the ksql dialect: the name of the topic of these entries",
    VALUE_FORMAT: "in the ksql dialect: the format of values where a statement says none, such as JSON",
    KEY_FORMAT: "in the ksql dialect: the format of keys where a statement says none; KAFKA unless set",
    WRAP_VALUES: "in the ksql dialect: whether values of one column are objects where a statement does not say WRAP_SINGLE_VALUE",
    THROW_TIMES: "in the ksql dialect: whether a record whose TIMESTAMP column has no time ends the query; false unless set",
    LIST_LIMIT: "in the ksql dialect: how many values COLLECT_LIST keeps; all, if it is not set or below 0",
    SET_LIMIT: "in the ksql dialect: how many values COLLECT_SET keeps; all, if it is not set or below 0",
}
OF_STREAMS = "ksql.streams."  # begins names that ksqlDB hands on to Kafka Streams
MEANINGS: dict[str, Meaning] = {SPARK.name: SPARK, KSQL.name: KSQL}


@dataclass(frozen=True)
class ScriptSettings:
    """The settings so far; `name` is None until the script says it, and so is `on_error`."""

    meaning: Meaning = SPARK
    name: str | None = None
    time_zone: str = "UTC"
    on_error: OnError | None = None
    registry: str | None = None
    ksql: KsqlMeaning = field(default_factory=KsqlMeaning)
    formats: DefaultFormats = field(default_factory=DefaultFormats)
    is_logging: bool = False
    log_topic: str = PROCESSING_LOG
    ends_without_time: bool = False

    @property
    def what_fails(self) -> OnError:
        """What becomes of a record that makes a step fail: in the ksql dialect it is left out, unless a setting says more."""
        if self.on_error is not None:
            return self.on_error
        if not self.meaning.names_results or self.ends_without_time:
            return FAIL
        return dead_letter(self.log_topic) if self.is_logging else SKIP

    def with_set(self, statement: Set, text: ScriptText, known: Sequence[str] = tuple(SETTINGS)) -> ScriptSettings:
        """The settings behind SET or UNSET; TopologyError for one that there is not, with the nearest of those that are known there."""
        name, value = plain_name(statement.name), statement.value
        if means_nothing(name):
            return self
        if name not in SETTINGS:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise text.error(f"there is no setting {statement.name!r}; there are {', '.join(known)}{hint}", statement.span)
        default = ScriptSettings()
        match name:
            case "streamkit.sql.dialect":
                return replace(self, meaning=default.meaning if value is None else self._meaning(value, statement, text))
            case "streamkit.application":
                return replace(self, name=value)
            case "streamkit.time.zone":
                return replace(self, time_zone=default.time_zone if value is None else self._zone(value, statement, text))
            case "streamkit.on.error":
                return replace(self, on_error=None if value is None else self._on_error(value, statement, text))
            case "schema.registry.url":
                return replace(self, registry=value)
        if name in (NESTED_ERROR, LIST_LIMIT, SET_LIMIT):
            return self._with_ksql(name, value, statement, text)
        if name in (VALUE_FORMAT, KEY_FORMAT, WRAP_VALUES):
            return replace(self, formats=self._with_format(name, value, statement, text))
        if name == LOG_CREATED:
            return replace(self, is_logging=self._flag(statement, False, text))
        if name == THROW_TIMES:
            return replace(self, ends_without_time=self._flag(statement, False, text))
        if name == LOG_TOPIC:
            return replace(self, log_topic=self._topic(value or PROCESSING_LOG, statement, text))
        if value not in (None, "earliest"):
            raise text.error(
                f"auto.offset.reset is {value!r}; an application reads its topics from their beginning when it starts first; expected "
                "'earliest'",
                statement.span,
            )
        return self

    def _meaning(self, value: str, statement: Set, text: ScriptText) -> Meaning:
        found = MEANINGS.get(value.lower())
        if found is None:
            raise text.error(f"there is no dialect {value!r} here; there are {', '.join(MEANINGS)}", statement.span)
        return replace(found, expressions=self.ksql) if isinstance(found, KsqlDialect) else found

    def _with_ksql(self, name: str, value: str | None, statement: Set, text: ScriptText) -> ScriptSettings:
        """The settings with another one of ksqlDB's expressions."""
        if name == NESTED_ERROR:
            ksql = replace(self.ksql, is_nested_failure_null=self._flag(statement, True, text))
        elif value is not None and not re.fullmatch(r"[+-]?\d{1,9}", value):
            raise text.error(f"{name} is {value!r}; expected a whole number, which below 0 is no limit", statement.span)
        else:
            limit = None if value is None or int(value) < 0 else int(value)
            is_list = name == LIST_LIMIT
            ksql = replace(self.ksql, collect_list_limit=limit) if is_list else replace(self.ksql, collect_set_limit=limit)
        meaning = replace(self.meaning, expressions=ksql) if isinstance(self.meaning, KsqlDialect) else self.meaning
        return replace(self, ksql=ksql, meaning=meaning)

    def _with_format(self, name: str, value: str | None, statement: Set, text: ScriptText) -> DefaultFormats:
        """What statements mean that say no format, with another one."""
        if name == WRAP_VALUES:
            return replace(self.formats, wraps_one_column=self._flag(statement, True, text))
        format = None if value is None else value.upper()
        if format is not None and format not in KSQL_FORMATS:
            raise text.error(
                f"{name} is {value!r}; expected one of {', '.join(KSQL_FORMATS)}{meant(str(value), KSQL_FORMATS)}", statement.span
            )
        return replace(self.formats, value=format) if name == VALUE_FORMAT else replace(self.formats, key=format)

    @staticmethod
    def _flag(statement: Set, default: bool, text: ScriptText) -> bool:
        """The value of a setting that is true or false."""
        if statement.value is None:
            return default
        if statement.value.lower() not in ("true", "false"):
            raise text.error(
                f"{statement.name.lower()} is {statement.value!r}; expected true or false{meant(statement.value, ('true', 'false'))}",
                statement.span,
            )
        return statement.value.lower() == "true"

    @staticmethod
    def _topic(value: str, statement: Set, text: ScriptText) -> str:
        """The name of a topic of entries."""
        try:
            return dead_letter(value).topic
        except TopologyError as error:
            raise text.error(error.message, statement.span) from None

    def _zone(self, value: str, statement: Set, text: ScriptText) -> str:
        try:
            canonical_zone(value)
        except ZoneError as error:
            raise text.error(f"{TIME_ZONE} is {value!r}: {error}", statement.span) from None
        return value

    def _on_error(self, value: str, statement: Set, text: ScriptText) -> OnError:
        words = value.split()
        if value in (FAIL, SKIP):
            return value
        try:
            if len(words) == 2 and words[0] == "dead_letter":
                return dead_letter(words[1])
        except TopologyError as error:
            raise text.error(error.message, statement.span) from None
        hint = "" if words[:1] == ["dead_letter"] else meant(words[0] if words else "", (FAIL, SKIP, "dead_letter"))
        raise text.error(
            f"{ON_ERROR} is {value!r}; expected 'fail', 'skip', or 'dead_letter' and the name of a topic, as in 'dead_letter broken'{hint}",
            statement.span,
        )


def plain_name(name: str) -> str:
    """The name of a setting without what ksqlDB has before those of Kafka Streams."""
    plain = name.lower()
    return OFFSET_RESET if plain == OF_STREAMS + OFFSET_RESET else plain


def means_nothing(name: str) -> bool:
    """Whether a setting is one of ksqlDB or Kafka with which nothing is done here; one that is nearly written like a known one is an error."""
    plain = plain_name(name)
    if plain == f"ksql.{REGISTRY}":  # which a server of ksqlDB has in its file
        return False
    return is_ignored(plain) and not difflib.get_close_matches(plain, SETTINGS, 1, NEARLY_EQUAL)
