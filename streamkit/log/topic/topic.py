"""A topic as a value: name, schema, key, partitions and settings. Its offsets are the catalog's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, TypeAlias

import pyarrow as pa

from streamkit.data_type import key_complaint
from streamkit.errors import ConfigError, SchemaError
from streamkit.html_table import html_table
from streamkit.log.topic.formats import KEY, OPAQUE_SCHEMA, Format
from streamkit.log.topic.settings import (
    CLEANUP_POLICY,
    COMPRESSION_TYPE,
    MAX_COMPACTION_LAG_MS,
    MAX_MESSAGE_BYTES,
    MIN_COMPACTION_LAG_MS,
    SETTINGS,
    TIMESTAMP_TYPE,
    SettingValue,
    check_settings,
)
from streamkit.log.values.whole_number import whole_number
from streamkit.names import CHANGELOG_END, check_name
from streamkit.schema import Schema, check_user_schema

UNCREATED = 0  # the id of a topic that the catalog does not know yet
PARTITIONS_MAX = 10_000
_TIMESTAMP_COLUMNS = ("timestamp", "timestamp_ntz")


TopicIdPartition: TypeAlias = tuple[int, int]


@dataclass(frozen=True, repr=False)
class Topic:
    """
    A topic: rows of `schema`, keyed by the columns `key`, spread over partitions by the columns `partition_by`.

    `timestamp` names the column that holds the event time, if one does. `config` holds the settings that were given,
    as sorted pairs of texts. `internal` topics belong to an application. `version` counts the schemas that the topic has
    had. With a `format` the topic is opaque: its schema is `key binary, value binary`, and the format says what they mean.
    A topic that comes from a `Log` has it as its attribute `log`, as long as it stays in this process.
    """

    id: int
    name: str
    schema: Schema
    key: tuple[str, ...]
    timestamp: str | None
    partitions: int
    config: tuple[tuple[str, str], ...] = ()
    partition_by: tuple[str, ...] = ()
    internal: bool = False
    version: int = 1
    format: Format | None = None
    log: Any = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "log": None}  # a log belongs to its process, and topics travel

    def __repr__(self) -> str:
        facts = [f"{self.schema}", *(f"{name} {value}" for name, value in self._facts())]
        return f"Topic({self.name!r}: {'; '.join(facts)})"

    def _repr_html_(self) -> str:
        columns = [(column.name, column.type, "yes" if column.nullable else "no") for column in self.schema]
        caption = f"topic {self.name}: {'; '.join(f'{name} {value}' for name, value in self._facts())}"
        return html_table(caption, columns, ("column", "type", "null"))

    def _facts(self) -> list[tuple[str, str]]:
        """What there is to say in a line, beside the schema."""
        known = {
            "key": ", ".join(self.key),
            "timestamp": self.timestamp,
            "partitions": str(self.partitions),
            "format": self.format and self.format.name,
            "settings": ", ".join(f"{name}={value}" for name, value in self.config),
        }
        return [(name, value) for name, value in known.items() if value]

    def sample(self, rows: int = 20, columns: Sequence[str] | None = None) -> pa.Table:
        """
        This many rows, evenly spread over partitions and time, by partition and offset, with the columns that `Log.read` gives.

        The same topic gives the same rows, until something is written or deleted. All rows if there are no more; 10,000 at most.
        """
        found: pa.Table = import_module("streamkit.query.sample").sample_of(
            self._log(), self.name, rows, columns
        )  # a layer above
        return found

    def profile(self, rows: int = 1_000_000) -> Any:
        """
        What each column holds, as a `TopicProfile`: nulls, distinct values, the least, the greatest and the mean.

        At most this many rows are read, and the profile says how many; if the topic has more, frames spread over the topic are read.
        """
        return import_module("streamkit.query.profile").profile_of(self._log(), self.name, rows)  # a layer above

    def _log(self) -> Any:
        if self.log is None:
            raise ConfigError(
                f"this value of the topic {self.name!r} belongs to no log, so there are no rows; expected log.topic({self.name!r})"
            )
        return self.log

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that are not in the key."""
        return tuple(name for name in self.schema.names if name not in self.key)

    @property
    def compression(self) -> str:
        return self.setting(COMPRESSION_TYPE)

    @property
    def max_message_bytes(self) -> int:
        return int(self.setting(MAX_MESSAGE_BYTES))

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.setting(CLEANUP_POLICY)

    @property
    def has_retention(self) -> bool:
        return "delete" in self.setting(CLEANUP_POLICY)

    @property
    def is_changelog(self) -> bool:
        """Whether its rows are the changes of an application's store, which the application alone may write."""
        return self.internal and self.name.endswith(CHANGELOG_END)

    @property
    def is_stamped_on_append(self) -> bool:
        return self.setting(TIMESTAMP_TYPE) == "LogAppendTime"

    def setting(self, name: str) -> str:
        """The value of a setting, or its default."""
        return dict(self.config).get(name, SETTINGS[name].default)

    def with_id(self, topic_id: int) -> Topic:
        """The topic as the catalog knows it."""
        return replace(self, id=topic_id)

    def called(self, name: str) -> Topic:
        """The topic under another name; a registry has the schemas of what is written from now on under its subjects."""
        return replace(self.under_subjects_of(name), name=name)

    def under_subjects_of(self, topic: str) -> Topic:
        """The topic with a registry that has its schemas under the subjects of another one, if it has a registry."""
        if self.format is None or not self.format.has_registry:
            return self
        return replace(self, format=replace(self.format, topic=topic))

    @property
    def declaration(self) -> Topic:
        """The topic as it could be declared again: without what the catalog gave it."""
        return replace(self, id=UNCREATED, version=1)

    def to_json(self) -> dict[str, Any]:
        """The topic as plain dicts, lists and scalars."""
        return {
            "id": self.id, "name": self.name, "schema": self.schema.ddl(), "key": list(self.key), "timestamp": self.timestamp,
            "partitions": self.partitions, "config": dict(self.config), "partition_by": list(self.partition_by), "internal": self.internal,
            "version": self.version, "format": None if self.format is None else self.format.to_json(),
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Topic:
        """The inverse of `to_json`."""
        return cls(
            value["id"], value["name"], Schema.from_ddl(value["schema"]), tuple(value["key"]), value["timestamp"], value["partitions"],
            tuple(sorted(value["config"].items())), tuple(value["partition_by"]), value["internal"],
            value["version"], None if value["format"] is None else Format.from_json(value["format"]),
        )  # fmt: skip


def check_writable(topic: Topic) -> Topic:
    """The topic; ConfigError for a changelog: a record that its application did not write would end it at each start."""
    if topic.is_changelog:
        raise ConfigError(
            f"{topic.name!r} is the changelog of an application's store, and only that application writes it; expected the topic that the "
            "application reads, by which its store changes"
        )
    return topic


def declare_topic(
    name: str,
    schema: str | Schema | Any = None,
    key: str | Sequence[str] | None = None,
    timestamp: str | None = None,
    partitions: int = 4,
    config: Mapping[str, SettingValue] | None = None,
    partition_by: str | Sequence[str] | None = None,
    internal: bool = False,
    format: Format | None = None,
) -> Topic:
    """
    A topic that is not created yet, every part checked.

    `schema` is SQL text, a Schema or an Arrow schema; a topic with a `format` takes none, and has the key `key`. SchemaError
    if a column does not exist or has the wrong type, ConfigError for a bad name, number of partitions or setting.
    """
    check_name(name, "topic")
    if format is not None:
        schema, key = _check_opaque(name, format, schema, key)
        format = replace(format, topic=name) if format.has_registry else format
    elif schema is None:
        raise SchemaError(
            f'topic {name}: found neither schema= nor format=; expected columns, as in schema="user string", or a format'
        )
    parsed = check_user_schema(Schema.parse(schema))
    keys = _check_columns(name, parsed, "key", key)
    chosen = _check_columns(name, parsed, "partition_by", partition_by) or keys
    if not set(chosen) <= set(keys):
        raise SchemaError(
            f"topic {name}: partition_by {list(chosen)} must be among the key columns {list(keys)}, or a key would be split"
        )
    topic = Topic(
        UNCREATED, name, parsed, keys, _check_timestamp(name, parsed, timestamp),
        check_partitions(name, partitions), check_settings(config), chosen, internal, 1, format,
    )  # fmt: skip
    return check_compaction(topic)


def check_compaction(topic: Topic) -> Topic:
    """The topic; ConfigError if it is to be compacted without a key, or with lags that contradict each other."""
    if topic.is_compacted and not topic.key:
        raise ConfigError(
            f"topic {topic.name}: {CLEANUP_POLICY}=compact keeps the newest row per key, and the topic has no key; give key="
        )
    least, most = (int(topic.setting(name)) for name in (MIN_COMPACTION_LAG_MS, MAX_COMPACTION_LAG_MS))
    if least > most:
        raise ConfigError(
            f"topic {topic.name}: found {MIN_COMPACTION_LAG_MS}={least} and {MAX_COMPACTION_LAG_MS}={most}; expected the first to be at most "
            "the second"
        )
    return topic


def _check_opaque(name: str, format: Format, schema: Any, key: str | Sequence[str] | None) -> tuple[Schema, str]:
    if schema is not None:
        raise SchemaError(f"topic {name}: format {format.name} fixes the schema ({OPAQUE_SCHEMA}); leave schema= out")
    if key not in (None, KEY, [KEY], (KEY,)):
        raise SchemaError(f"topic {name}: format {format.name} fixes the key column {KEY!r}; found key={key!r}, leave key= out")
    return OPAQUE_SCHEMA, KEY


def _check_columns(name: str, schema: Schema, what: str, columns: str | Sequence[str] | None) -> tuple[str, ...]:
    if not isinstance(columns, str | list | tuple | None):
        raise SchemaError(f"topic {name}: found {what}={columns!r}; expected the name of a column, or a list of names")
    chosen = (columns,) if isinstance(columns, str) else tuple(columns or ())
    for column in chosen:
        if column not in schema:
            raise SchemaError(f"topic {name}: the {what} column {column!r} does not exist; the schema has {schema}")
        complaint = key_complaint(column, schema[column].type)
        if complaint is not None:
            raise SchemaError(f"topic {name}: {complaint}; found {what}={list(chosen)}")
    if len(set(chosen)) < len(chosen):
        raise SchemaError(f"topic {name}: {what} names a column twice: {list(chosen)}")
    return chosen


def _check_timestamp(name: str, schema: Schema, column: str | None) -> str | None:
    if column is None:
        return None
    if column not in schema:
        raise SchemaError(f"topic {name}: the timestamp column {column!r} does not exist; the schema has {schema}")
    if schema[column].type not in _TIMESTAMP_COLUMNS:
        raise SchemaError(
            f"topic {name}: the timestamp column {column!r} is {schema[column].type}; expected {' or '.join(_TIMESTAMP_COLUMNS)}"
        )
    return column


def check_partitions(name: str, partitions: int) -> int:
    """The number of partitions, if a topic can have so many; else ConfigError."""
    return whole_number(f"topic {name}: partitions", partitions, 1, PARTITIONS_MAX)
