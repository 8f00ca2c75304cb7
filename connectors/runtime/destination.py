"""The topics that a source writes to: created when they are missing, widened when rows have new columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.connector import DEAD_LETTERS
from streamkit.connectors.redaction import logger_of
from streamkit.connectors.runtime.converters import formats_of
from streamkit.connectors.source import Source
from streamkit.connectors.transforms.records import is_opaque, key_columns
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.log import Log
from streamkit.log.produce.producer import Producer
from streamkit.log.rows.records import records_of
from streamkit.log.topic.evolution import is_wider, widened
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.names import DELETED, HEADERS, LOG_COLUMNS, PARTITION, ROW_NUMBER, TIMESTAMP, TOPIC
from streamkit.schema import Schema, SchemaColumn

_LOGGER = logger_of(__name__)
_OWN = (*LOG_COLUMNS, TOPIC, ROW_NUMBER)
_SENT = (TIMESTAMP, DELETED, HEADERS)


class Destination:
    """Topics as the rows of one source need them."""

    def __init__(self, log: Log, source: Source) -> None:
        self._log = log
        self._source = source
        self._topics: dict[str, Topic] = {}
        self._altered: set[str] = set()  # which the producer knows as they were

    def declare(self) -> None:
        """Create the topic of the source with the columns that its settings give it, if it is not there."""
        settings = self._source.settings
        name, schema = settings["topic"], settings["topic.schema"]
        if schema is None or name in self._log.topics():
            return
        if self._source.IS_RAW and not settings["value.format"]:
            raise ConfigError(
                f"connector {self._source.name}: found topic.schema without value.format, which says how bytes become columns"
            )
        config = {**self._source.config_of(name), **settings["topic.config."]}
        key = tuple(self._source.key_of(name)) or None
        self._log.create_topic(name, schema, key=key, partitions=self._source.partitions_of(name), config=config)

    def fitted(self, name: str, rows: pa.Table) -> dict[str, pa.Table]:
        """The rows, after the topic was made to fit them; SchemaError with `rows` for those that it cannot take."""
        unknown = [field.name for field in rows.schema if pa.types.is_null(field.type)]  # null in all rows, and of no type
        rows = rows.drop_columns(unknown)
        known = self._known(name)
        rows = rows if known is None else _without_foreign_nulls(known, rows)
        topic, make = self._wanted(name, rows, unknown)
        try:
            records_of(topic, _columns_of(topic, rows), self._log.clock.now_ms())
        except SchemaError as error:
            fractions = [
                column.name
                for column in topic.schema
                if pa.types.is_integer(column.arrow.type)
                and column.name in rows.column_names
                and pa.types.is_floating(rows.schema.field(column.name).type)
            ]
            if type(error) is not SchemaError or not fractions:
                raise
            raise SchemaError(f"{error}; {_advice(topic, fractions)}", error.rows) from error
        self._topics[name] = make()  # rows that are refused leave nothing behind
        return {name: rows}

    def key_of(self, name: str, rows: pa.Table) -> Sequence[str]:
        """The key columns of the rows' topic, there or to be created."""
        of_transforms = key_columns(rows)
        return tuple(self._source.key_of(name)) if of_transforms is None else of_transforms

    def prepare(self, producer: Producer) -> None:
        """Have the producer know the topics as they are now, before a transaction begins."""
        for name in self._altered:
            producer.refresh(name)
        self._altered = set()

    @property
    def ids(self) -> Mapping[str, int]:
        """The ids of the topics that rows were sent to."""
        return {name: topic.id for name, topic in self._topics.items()}

    def send(self, producer: Producer, name: str, rows: pa.Table) -> None:
        """Send rows that were fitted; those with a `_partition` go there."""
        topic = self._topics[name]
        found = _columns_of(topic, rows)
        producer.send_batch(name, found, partitions=rows[PARTITION] if self._keeps_partitions(topic, rows) else None)

    def _keeps_partitions(self, topic: Topic, rows: pa.Table) -> bool:
        """Whether rows go where they came from: those of columns with a key go by that, which StreamKit hashes."""
        is_by_key = topic.format is None and bool(topic.key or topic.partition_by)
        has_places = self._source.keeps_partitions and PARTITION in rows.column_names
        return has_places and not is_by_key and self._source.partitions_of(topic.name) == topic.partitions

    def _known(self, name: str) -> Topic | None:
        """The topic as rows were fitted to it last, or as it is; None if it is to be created."""
        topic = self._topics.get(name)
        return self._log.topic(name) if topic is None and name in self._log.topics() else topic

    def _wanted(self, name: str, rows: pa.Table, unknown: Collection[str]) -> tuple[Topic, Callable[[], Topic]]:
        """The topic as rows need it, and what makes it so."""
        topic = self._topics.get(name)
        if topic is None and name == self._source.settings[DEAD_LETTERS]:
            raise ConfigError(
                f"connector {self._source.name}: rows go to the topic {name}, which takes its dead letters by {DEAD_LETTERS}; expected a topic "
                "of its own for dead letters"
            )
        if topic is None and name not in self._log.topics():
            return self._new(name, rows, unknown)
        topic = self._found(name) if topic is None else topic
        self._check_bytes(topic, rows)
        given = key_columns(rows)
        if given is not None and topic.format is None and set(given) != set(topic.key):
            raise (SchemaError if self._source.IS_BY_RECORD else ConfigError)(
                f"connector {self._source.name}: the transforms give the key {', '.join(given) or 'none'}, and the topic {name} has the key "
                f"{', '.join(topic.key) or 'none'}; expected the same, or another topic"
            )
        if topic.format is None:
            _refuse_null_keys(name, rows, [one for one in topic.key if not topic.schema[one].nullable])
        wanted = _widened(topic, rows)
        if wanted == topic.schema or topic.format is not None:
            return topic, lambda: topic
        return replace(topic, schema=wanted), lambda: self._altered_topic(name, wanted)

    def _altered_topic(self, name: str, schema: Schema) -> Topic:
        self._altered.add(name)
        return self._log.alter_topic(name, schema=schema)

    def _check_bytes(self, topic: Topic, rows: pa.Table) -> None:
        """Bytes that nobody decoded are no columns of a topic."""
        is_bytes = self._source.format_of_bytes() is not None and is_opaque(rows)
        if is_bytes and topic.format is None and not {KEY, VALUE} <= set(topic.schema.names):
            raise ConfigError(
                f"connector {self._source.name}: topic {topic.name} has the columns {', '.join(topic.schema.names)}, and nothing says which "
                f"columns the values have that come{'' if self._source.chain is None else ' to the transforms'}; expected {self._source.says_columns}"
            )

    def _found(self, name: str) -> Topic:
        """A topic that is there; said if it forgets rows that its source takes as there for ever."""
        topic = self._log.topic(name)
        wanted = self._source.config_of(name)
        if wanted.get("retention.ms") == "-1" and int(str(topic.setting("retention.ms"))) >= 0 and not topic.is_compacted:
            _LOGGER.warning(
                "connector %s: topic %s forgets rows after retention.ms=%s, also those that are still in the table; to keep them: "
                "streamkit topics alter %s --config %s",
                self._source.name, name, topic.setting("retention.ms"), name, " --config ".join(f"{key}={value}" for key, value in wanted.items()),
            )  # fmt: skip
        return topic

    def _new(self, name: str, rows: pa.Table, unknown: Collection[str]) -> tuple[Topic, Callable[[], Topic]]:
        source = self._source
        own = source.settings["topic.config."]
        partitions = source.partitions_of(name)
        format = source.format_of_bytes()
        if format is not None and is_opaque(rows):
            if source.settings["key"]:
                raise ConfigError(
                    f"connector {source.name}: found key={','.join(source.settings['key'])}, and nothing says which columns the values have, so "
                    f"the topic {name} would have the columns key and value; expected {source.says_columns}, or no key"
                )
            topic = self._log.create_topic(name, format=format, partitions=partitions, config=own)  # it takes all bytes
            self._check_bytes(topic, rows)
            return topic, lambda: topic
        key = self.key_of(name, rows)
        missing = sorted(set(key) - set(rows.column_names))
        if missing and set(missing) <= set(unknown):
            raise SchemaError(
                f"the key column {missing[0]!r} is null, and no row before it says of which type it is; expected a value"
            )
        if missing:
            raise (SchemaError if source.IS_BY_RECORD else ConfigError)(
                f"connector {source.name}: the key column {missing[0]!r} of topic {name} is not among the rows' columns "
                f"{', '.join(_named(rows))}"
            )
        _refuse_null_keys(name, rows, key)
        config = dict(source.config_of(name))
        if set(key) != set(source.key_of(name)):  # rows of another key are no versions of one row
            config.pop("cleanup.policy", None)
        schema, settings = _schema_of(rows, key, _required(source)), {**config, **own}
        count = self._log.settings.topic_partitions if partitions is None else partitions
        topic = declare_topic(name, schema, key or None, None, count, settings)
        return topic, lambda: self._log.create_topic(name, schema, key=key or None, partitions=count, config=settings)


def _refuse_null_keys(topic: str, rows: pa.Table, key: Sequence[str]) -> None:
    """SchemaError for rows that a topic cannot take, before its columns are made to fit them: the others alone say these."""
    for name in key:
        numbers = range(rows.num_rows)
        if name in rows.column_names:
            numbers = pc.indices_nonzero(rows[name].is_null()).to_pylist()
        if numbers:
            raise SchemaError(
                f"row {numbers[0]}, topic {topic}: column {name!r}: found null, and the column is of the key", tuple(numbers)
            )


def _without_foreign_nulls(topic: Topic, rows: pa.Table) -> pa.Table:
    """
    The rows without columns of another type than the topic's that are null in all of them, as of deletions: null is of any type.

    So a row without a value is what it is alone, whatever other rows have there.
    """
    foreign = []
    for column in topic.schema:
        if column.name in topic.key or column.name not in rows.column_names:
            continue
        found, kept = rows.schema.field(column.name).type, column.arrow.type
        one_widens = found == kept or is_wider(found, kept) or is_wider(kept, found)
        if not one_widens and rows[column.name].null_count == rows.num_rows:
            foreign.append(column.name)
    return rows.drop_columns(foreign)


def _schema_of(rows: pa.Table, key: Sequence[str], required: Collection[str]) -> Schema:
    """The topic's columns: keys first, as Kafka has them apart; others may be null, unless the settings say that they are not."""
    parsed = Schema.parse(pa.schema([rows.schema.field(name) for name in _named(rows)]))
    return Schema(tuple(SchemaColumn(column.name, column.type, column.name not in (*key, *required)) for column in parsed))


def _advice(topic: Topic, names: Sequence[str]) -> str:
    """What to do where records say no types, so that those of the first rows, which had whole numbers, are the topic's."""
    wanted = Schema(tuple(replace(one, type="double") if one.name in names else one for one in topic.schema))
    return (
        f"a column that was made of whole numbers stays one of them. To have both: another topic that is created with topic.schema='{wanted}', "
        "or records that say their types"
    )


def _required(source: Source) -> set[str]:
    """The columns that the settings declare as NOT NULL; none where transforms make others."""
    if source.chain is not None and not source.chain.keeps_columns:
        return set()
    declared = formats_of(source).columns if source.IS_RAW else source.settings.get("schema")
    return {column.name for column in Schema.parse(declared) if not column.nullable} if declared else set()


def _widened(topic: Topic, rows: pa.Table) -> Schema:
    """The topic's columns, of wider types where the rows have those, and the rows' new ones behind them."""
    columns = {column.name: column for column in topic.schema}
    found = Schema.parse(pa.schema([rows.schema.field(name) for name in _named(rows)]))
    for column in found:
        known = columns.get(column.name)
        if known is None:
            columns[column.name] = SchemaColumn(column.name, column.type)
        elif column.name not in (*topic.key, topic.timestamp) and is_wider(column.arrow.type, known.arrow.type):
            columns[column.name] = replace(known, type=column.type)
    return Schema(tuple(columns.values()))


def _named(rows: pa.Table) -> list[str]:
    return [name for name in rows.column_names if name not in _OWN]


def _columns_of(topic: Topic, rows: pa.Table) -> pa.Table:
    """The columns that the producer takes; those of the topic that the rows lack are null."""
    kept = rows.select([name for name in rows.column_names if name in topic.schema or name in _SENT or name not in _OWN])
    for column in topic.schema:
        if column.name in kept.column_names:
            place, found = kept.column_names.index(column.name), kept[column.name]
            if is_wider(column.arrow.type, found.type):
                kept = kept.set_column(place, column.arrow.with_nullable(True), widened(found, column.arrow.type))
        else:
            kept = kept.append_column(column.arrow.with_nullable(True), pa.nulls(kept.num_rows, column.arrow.type))
    return kept
