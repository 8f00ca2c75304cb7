"""WITH: the properties of a topic in a statement."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamkit.errors import ConfigError, TopologyError
from streamkit.log.topic.settings import CLEANUP_POLICY, SETTINGS, check_settings
from streamkit.names import spellings
from streamkit.plan.duration import duration_ms
from streamkit.schema import Schema
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.tree.span import TextSpan
from streamkit.sql.tree.statements import Property

OF_TOPICS = (
    "KAFKA_TOPIC", "PARTITIONS", "REPLICAS", "RETENTION_MS", "CLEANUP_POLICY", "FORMAT", "KEY_FORMAT", "VALUE_FORMAT", "KEY_DELIMITER",
    "VALUE_DELIMITER", "WRAP_SINGLE_VALUE", "VALUE_SCHEMA", "KEY_SCHEMA_FULL_NAME", "VALUE_SCHEMA_FULL_NAME", "VALUE_AVRO_SCHEMA_FULL_NAME",
    "SOURCED_BY_CONNECTOR", "KEY_PROTOBUF_NULLABLE_REPRESENTATION", "VALUE_PROTOBUF_NULLABLE_REPRESENTATION",
)  # fmt: skip
OF_SOURCES = (*OF_TOPICS, "TIMESTAMP", "TIMESTAMP_FORMAT", "WINDOW_TYPE", "WINDOW_SIZE")
OF_RESULTS = (*OF_TOPICS, "TIMESTAMP", "TIMESTAMP_FORMAT")
OF_INSERTS = ("QUERY_ID",)
SCHEMA_IDS = ("KEY_SCHEMA_ID", "VALUE_SCHEMA_ID")  # which ksqlDB has, and StreamKit has not
OF_SESSIONS = {  # properties of queries, and what a file has in their place
    "APPLICATION": "a file is one application, which SET 'streamkit.application' = '…' names",
    "BACKFILL": "a file under a new name reads all records again: SET 'streamkit.application' = '…'",
}
QUOTES = ("`", '"')  # around names
NATIVE = "NATIVE"  # columns, as StreamKit keeps them
FORMATS = {  # as a statement names them, and as `formats` does
    NATIVE: None, "JSON": "json", "JSON_SR": "json", "AVRO": "avro", "PROTOBUF": "protobuf", "PROTOBUF_NOSR": "protobuf",
    "DELIMITED": "csv", "CSV": "csv", "STRING": "string", "BYTES": "bytes", "KAFKA": "kafka",
}  # fmt: skip
NONE = "NONE"
KSQL_FORMATS = {  # as ksqlDB reads and writes them
    NATIVE: None, NONE: "kafka", "KAFKA": "kafka", "JSON": "ksql_json", "DELIMITED": "delimited", "JSON_SR": "ksql_json", "AVRO": "avro",
    "PROTOBUF": "protobuf", "PROTOBUF_NOSR": "protobuf",
}  # fmt: skip
WITH_REGISTRY = ("JSON_SR", "AVRO", "PROTOBUF")
TYPES_OF_TIMES = ("timestamp", "timestamp_ntz", "bigint")
_DELIMITERS = {"SPACE": " ", "TAB": "\t"}


def check_time_format(given: Sequence[Property], text: ScriptText) -> None:
    """
    TopologyError for TIMESTAMP_FORMAT without TIMESTAMP, which would say nothing.

    Statements are asked when they are new: a query that the catalog has goes on.
    """
    spans = {one.name.upper(): one.span for one in given}
    if "TIMESTAMP_FORMAT" in spans and "TIMESTAMP" not in spans:
        raise text.error(
            "TIMESTAMP_FORMAT is the pattern of the texts in the column that TIMESTAMP names, and there is no TIMESTAMP; expected both, or none "
            "of them",
            spans["TIMESTAMP_FORMAT"],
        )


@dataclass(frozen=True)
class TopicProperties:
    """What WITH says; None where it says nothing. Values are checked, and spans say where each is written."""

    values: Mapping[str, Any]
    spans: Mapping[str, TextSpan] = field(compare=False, repr=False)
    text: ScriptText = field(compare=False, repr=False)
    statement: TextSpan = field(compare=False, repr=False)

    def time_column(self, columns: Schema) -> str | None:
        """
        The column that has the times of records, in any case if none is spelt so, or the place of one in a structure; None if WITH says none.

        TopologyError for a column that there is not, or that is no time.
        """
        name = self.timestamp
        if name is None or "." in name:
            return name
        spelt = spellings(name, columns.names)
        if len(spelt) > 1:
            raise self.error(
                "TIMESTAMP", f"{name!r} may be any of the columns {', '.join(spelt)}; expected one of these spellings"
            )
        if not spelt:
            raise self.error("TIMESTAMP", f"there is no column {name!r}; the columns are {', '.join(columns.names)}")
        (found,) = spelt
        if columns[found].type not in TYPES_OF_TIMES and "TIMESTAMP_FORMAT" not in self.values:
            raise self.error(
                "TIMESTAMP",
                f"{found} is {columns[found].type}; expected a column of type TIMESTAMP, or BIGINT of milliseconds since 1970",
            )
        return found

    @classmethod
    def of(cls, given: Sequence[Property], known: Iterable[str], text: ScriptText, statement: TextSpan) -> TopicProperties:
        """The properties of a statement; TopologyError for one that it does not have, with the nearest, and for one that is given twice."""
        names = tuple(known)
        values: dict[str, Any] = {}
        for one in given:
            name = one.name.upper()
            if name in SCHEMA_IDS:
                raise text.error(
                    f"{name} asks for a schema of a registry by its number, which is not read here; expected the columns in parentheses, or "
                    "VALUE_SCHEMA with the schema itself",
                    one.span,
                )
            if name not in names:
                if name in OF_SESSIONS and names in (OF_RESULTS, OF_INSERTS):  # those of a file; a session has more
                    raise text.error(f"{name} belongs to a session, which keeps each query; {OF_SESSIONS[name]}", one.span)
                close = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                if name == "KEY":  # of earlier ksqlDBs
                    hint = "; a column says that it is the key: KEY behind one of a stream, PRIMARY KEY behind one of a table"
                raise text.error(f"there is no property {name}; there are {', '.join(names)}{hint}", one.span)
            if name in values:
                raise text.error(f"the property {name} is given twice; expected it once", one.span)
            values[name] = one.value
        found = cls(values, {one.name.upper(): one.span for one in given}, text, statement)
        found.number("REPLICAS", -1)  # which nothing reads here
        return found

    @property
    def timestamp(self) -> str | None:
        """The column that TIMESTAMP names, which quotes may stand around."""
        name = self.words("TIMESTAMP")
        if name is None or len(name) < 3 or name[0] != name[-1] or name[0] not in QUOTES:
            return name
        return name[1:-1].replace(name[0] * 2, name[0])

    def error(self, name: str, message: str) -> TopologyError:
        """The error that a property is wrong."""
        return self.text.error(message, self.spans.get(name) or self.statement)

    def words(self, name: str) -> str | None:
        """A property that is a text."""
        value = self.values.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self.error(name, f"{name} is {value!r}; expected a text, as in {name} = '…'")

    def number(self, name: str, least: int = 1) -> int | None:
        """A property that is a whole number, also as a text."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch(r"-?\d+", value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(name, f"{name} is {value!r}; expected a whole number from {least} on")
        return value

    @property
    def topic(self) -> str | None:
        """The topic that the statement names."""
        found = self.words("KAFKA_TOPIC")
        if found == "":
            raise self.error("KAFKA_TOPIC", "KAFKA_TOPIC is empty; expected the name of a topic")
        return found

    @property
    def partitions(self) -> int | None:
        """The partitions of a topic that is created."""
        return self.number("PARTITIONS")

    def check_partitions(self, topic: str, has: int) -> None:
        """TopologyError if WITH says another number of partitions than a topic has."""
        wanted = self.partitions
        if wanted is not None and wanted != has:
            raise self.error(
                "PARTITIONS",
                f"the topic {topic} is there already, and its number of partitions is {has}; found PARTITIONS = {wanted}, expected {has}, or none",
            )

    @property
    def config(self) -> dict[str, str]:
        """The settings of a topic that is created."""
        found: dict[str, str] = {}
        if (retention := self.number("RETENTION_MS", -1)) is not None:
            found["retention.ms"] = str(retention)
        if (policy := self.words("CLEANUP_POLICY")) is not None:
            found[CLEANUP_POLICY] = policy.lower().replace(" ", "")
            try:
                check_settings({CLEANUP_POLICY: found[CLEANUP_POLICY]})
            except ConfigError:
                raise self.error(
                    "CLEANUP_POLICY", f"CLEANUP_POLICY is {policy!r}; expected {SETTINGS[CLEANUP_POLICY].expected}"
                ) from None
        return found

    @property
    def value_format(self) -> str | None:
        """The format of values, by the name that `formats` has; None for columns."""
        return self._format("VALUE_FORMAT" if "VALUE_FORMAT" in self.values else "FORMAT")

    @property
    def key_format(self) -> str | None:
        """The format of keys; None if the statement leaves that to the values."""
        name = "KEY_FORMAT" if "KEY_FORMAT" in self.values else "FORMAT"
        given = self.words(name)
        if given is None or (given.upper() in ("NONE", NATIVE)):
            return None
        if self.value_format is None:
            raise self.error(name, f"{name} = {given!r} is for topics of bytes; expected VALUE_FORMAT, too, or no {name}")
        return self._format(name, {**FORMATS, "KAFKA": "string"})

    def ksql_format(self, name: str) -> str | None:
        """VALUE_FORMAT or KEY_FORMAT in capitals, FORMAT in place of both; None if the statement does not say it."""
        if "FORMAT" in self.values and name in self.values:
            raise self.error(name, f"FORMAT stands for {name}, too; expected one of them")
        name = name if name in self.values else "FORMAT"
        given = self.words(name)
        if given is None:
            return None
        self._format(name, KSQL_FORMATS)
        return given.upper()

    def check_keyless(self) -> None:
        """TopologyError for a format of keys where PARTITION BY NULL leaves none."""
        if self.ksql_format("KEY_FORMAT") not in (None, NONE):
            raise self.error(
                "KEY_FORMAT" if "KEY_FORMAT" in self.values else "FORMAT",
                "PARTITION BY NULL leaves no key; expected KEY_FORMAT = 'NONE', or VALUE_FORMAT alone",
            )

    @property
    def says_key_format(self) -> bool:
        """Whether the statement says the format of keys."""
        return "KEY_FORMAT" in self.values or "FORMAT" in self.values

    def is_unwrapped(self, format: str, columns: int, *, wraps: bool = True, has_registry: bool = False) -> bool:
        """
        Whether values of a format are those of their one column, without an object around; TopologyError where that cannot be.

        `wraps` says it where WITH does not.
        """
        wrap = self.values.get("WRAP_SINGLE_VALUE")
        is_json = format == "JSON" or (format == "JSON_SR" and not has_registry)
        if wrap is None:
            return not wraps and columns == 1 and is_json
        if columns != 1:
            raise self.error("WRAP_SINGLE_VALUE", f"WRAP_SINGLE_VALUE is for values of one column, and these have {columns}")
        if str(wrap).lower() not in ("true", "false"):
            raise self.error("WRAP_SINGLE_VALUE", f"WRAP_SINGLE_VALUE is {wrap!r}; expected true or false")
        is_wrapped = str(wrap).lower() == "true"
        has_objects = format in ("JSON", "JSON_SR", "AVRO", "PROTOBUF", "PROTOBUF_NOSR")
        if is_wrapped and not has_objects:
            raise self.error(
                "WRAP_SINGLE_VALUE", f"{format} has no object around a value; expected false, or no WRAP_SINGLE_VALUE"
            )
        if not is_wrapped and has_objects and not is_json:
            under = f"{format} under a schema of the registry" if format == "JSON_SR" else format
            raise self.error(
                "WRAP_SINGLE_VALUE",
                f"values of {under} are objects, also those of one column; expected true, or no WRAP_SINGLE_VALUE",
            )
        return not is_wrapped and is_json

    @property
    def uses_registry(self) -> bool:
        """Whether values are under schemas of a registry, if there is one."""
        name = self.words("VALUE_FORMAT") or self.words("FORMAT") or ""
        return name.upper() in WITH_REGISTRY

    @property
    def value_schema(self) -> str | None:
        """The schema of values, as their format writes it."""
        return self.words("VALUE_SCHEMA")

    @property
    def delimiter(self) -> str | None:
        """What is between the values of DELIMITED."""
        given = self.words("VALUE_DELIMITER")
        return None if given is None else self.delimiter_of("VALUE_DELIMITER", given)

    def delimiter_of(self, name: str, given: str) -> str:
        """The character that a delimiter is."""
        found = _DELIMITERS.get(given.upper(), given)
        if len(found) != 1 or not found.isascii() or found in '"\r\n':
            raise self.error(
                name, f"{name} is {given!r}; expected one character of ASCII that is no quote and no line end, or SPACE or TAB"
            )
        return found

    @property
    def window_size_ms(self) -> int | None:
        """The length of the windows in a topic's keys."""
        given = self.words("WINDOW_SIZE")
        if given is None:
            return None
        try:
            return duration_ms(given.lower(), "WINDOW_SIZE")
        except ConfigError as error:
            raise self.error("WINDOW_SIZE", str(error)) from None

    def check_supported(self) -> None:
        """TopologyError for what cannot be done yet."""
        wrap = self.values.get("WRAP_SINGLE_VALUE")
        if wrap is not None and str(wrap).lower() not in ("true", "false"):
            raise self.error("WRAP_SINGLE_VALUE", f"WRAP_SINGLE_VALUE is {wrap!r}; expected true, or no WRAP_SINGLE_VALUE")
        if wrap is not None and str(wrap).lower() == "false":
            raise self.error(
                "WRAP_SINGLE_VALUE", "WRAP_SINGLE_VALUE = false cannot be done yet: a value is an object with its columns"
            )
        if "KEY_DELIMITER" in self.values:
            raise self.error("KEY_DELIMITER", "KEY_DELIMITER cannot be done yet; expected keys of one column, or JSON")
        if "TIMESTAMP_FORMAT" in self.values:
            raise self.error(
                "TIMESTAMP_FORMAT",
                "TIMESTAMP_FORMAT cannot be done yet; expected a column of type TIMESTAMP, or BIGINT of milliseconds",
            )

    def _format(self, name: str, known: Mapping[str, str | None] = FORMATS) -> str | None:
        given = self.words(name)
        if given is None:
            return None
        if given.upper() not in known:
            close = difflib.get_close_matches(given.upper(), known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            if known is KSQL_FORMATS and given.upper() in FORMATS:
                hint = f"; {given.upper()} is of the spark dialect, and KAFKA holds the bytes of one text or of one BYTES"
            raise self.error(name, f"there is no format {given!r}; there are {', '.join(known)}{hint}")
        return known[given.upper()]
