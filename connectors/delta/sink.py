"""Rows of topics into Delta tables: rows and positions are one commit of Delta's log."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from streamkit import failpoints
from streamkit.connectors.delta.refused_rows import refused_rows
from streamkit.connectors.delta.table import STORAGE, errors, library, open_table
from streamkit.connectors.newest import newest
from streamkit.connectors.placeholders import check_names
from streamkit.connectors.setting import Setting
from streamkit.connectors.sink import Sink
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED
from streamkit.names import TOPIC as TOPIC_COLUMN

CONFLICTS_MAX = 20
REFUSED = ("failed validation check", "Cast error")  # what the library says of values; it has no class for it
TOO_LONG = f"(os error {errno.ENAMETOOLONG})"  # the library has no number for it either
NO_ROOM = f"(os error {errno.ENOSPC})"  # the library has no number for it


class DeltaSink(Sink):
    """
    Appends rows, or upserts them by the topic's key, exactly once.

    `path` may contain `${topic}`, which is replaced by the name that routers give; a missing table is created. Each partition of the topic has two
    transactions of Delta: `streamkit/<connector>/<topic>/<partition>`, whose version is the next offset, and the same with `/generation`, by which an
    older instance is refused. Columns that a topic gets later are added to the table.
    """

    takes_other_names = True
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        Setting("path", "where the table is; ${topic} is replaced by the topic's name"),
        Setting("write.mode", "append, or upsert by the topic's key", default="append", choices=("append", "upsert")),
        Setting("partition.by", "the columns that choose a folder when the table is created", "list", ()),
        Setting("delta.", "properties of a table that is created, such as delta.enableChangeDataFeed", default=None),
        STORAGE,
        Setting("batch.rows", "how many rows a commit has at most", "integer", 1_000_000, least=1),
        Setting("batch.linger.ms", "how long a commit waits for more rows", "integer", 1_000, least=0),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._topics: dict[str, Topic] = {}
        self._tables: dict[str, Any] = {}
        self._offsets: dict[TopicPartition, int | None] = {}
        self._generation = 0

    def check(self) -> None:
        """The path has no placeholder that stands for nothing."""
        check_names("path", self.settings["path"])

    def topic(self, topic: Topic) -> None:
        """An upsert needs a key."""
        if self.settings["write.mode"] == "upsert" and not topic.key:
            raise ConfigError(
                f"topic {topic.name} has no key, and write.mode=upsert needs one; use write.mode=append, or give the topic a key"
            )
        missing = [name for name in self.settings["partition.by"] if name not in topic.schema]
        if missing:
            raise ConfigError(f"topic {topic.name} has no column {missing[0]!r} for partition.by; it has {topic.schema}")
        self._topics[topic.name] = topic

    def open(self, generation: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Create the tables, and take the partitions over: older handles can commit no more."""
        self._generation = generation
        for name in {self.target_of(place.topic) for place in partitions}:
            with self._has_room(name):
                self._tables[name] = self._opened(self._topics[name])
                self._take_over(name, [place for place in partitions if self.target_of(place.topic) == name])
        return {place: offset for place, offset in self._offsets.items() if offset is not None}

    def put(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        """Commit rows and next offsets; FencedError if another instance has taken a partition over."""
        moved = {place: end for place, end in ends.items() if self._offsets.get(place) != end}
        if not moved:
            return
        topic = self._topics[self.target_of(next(iter(moved)).topic)]
        self._refuse_empty_texts(topic, rows)
        transactions = [self._transaction(place, end) for place, end in moved.items()]
        transactions += [self._transaction(place, self._generation, "/generation") for place in moved]
        failpoints.reach("connect.in_target")
        with self._has_room(topic.name, rows), self._refusing(topic, rows):
            self._commit(topic, list(moved), lambda: self._write(topic, rows, transactions))
        self._offsets |= moved

    def is_retryable(self, error: Exception) -> bool:
        """Trouble of the object store passes; what the table refuses does not."""
        refused = (errors().DeltaProtocolError, errors().SchemaMismatchError, errors().TableNotFoundError)
        return super().is_retryable(error) or (
            isinstance(error, errors().DeltaError | OSError) and not isinstance(error, refused)
        )

    @contextmanager
    def _has_room(self, topic: str, rows: pa.Table | None = None) -> Iterator[None]:
        try:
            yield
        except (errors().DeltaError, OSError) as error:
            if NO_ROOM not in str(error):
                raise
            raise self.full(f"the Delta table {self._path(topic)}", rows, error) from error

    @contextmanager
    def _refusing(self, topic: Topic, rows: pa.Table) -> Iterator[None]:
        """Tell what the table refuses of the rows from other errors, and which rows they are."""
        try:
            yield
        except Exception as error:
            partitions = self._tables[topic.name].metadata().partition_columns
            if rows.num_rows and partitions and TOO_LONG in str(error):
                raise SchemaError(self._long_folder(topic, rows, partitions)) from error
            if not rows.num_rows or not any(said in str(error) for said in REFUSED):
                raise
            refused = refused_rows(self._tables[topic.name], rows.select(list(topic.schema.names)), rows[DELETED])
            said = next(iter(refused.values()), f"the Delta table refuses it: {' '.join(str(error).split())}")
            raise SchemaError(said, tuple(refused), tuple(refused.values())) from error

    def _long_folder(self, topic: Topic, rows: pa.Table, names: Sequence[str]) -> str:
        """What to say of rows among which is one whose folder has a name that the storage does not take."""
        values = {name: str(rows[name][0].as_py())[:80] for name in names if name in rows.column_names and rows.num_rows == 1}
        shown = f", found {', '.join(f'{name}={value}' for name, value in values.items())}" if values else ""
        return (
            f"the Delta table {self._path(topic.name)} is partitioned by {', '.join(map(repr, names))}{shown}, and the folder of a value has a longer "
            "name than the storage takes (the library writes all digits of a number such as 1e300); expected shorter values, or partition.by "
            "without this column"
        )

    def _path(self, topic: str) -> str:
        return str(self.settings["path"]).replace("${topic}", topic)

    def _opened(self, topic: Topic) -> Any:
        path = self._path(topic.name)
        found = open_table(self, path)
        if found is not None:
            self._check(topic, found)
            self._check_partitions(topic, found.metadata().partition_columns)
            return found
        self._check_partitions(topic, self.settings["partition.by"])
        properties = {f"delta.{name}": value for name, value in self.settings["delta."].items()}
        schema = pa.schema([field.with_nullable(True) for field in topic.schema.arrow])
        library().DeltaTable.create(
            path, schema, mode="ignore", partition_by=list(self.settings["partition.by"]) or None, configuration=properties or None,
            storage_options=self.settings["storage."] or None,
        )  # fmt: skip
        return open_table(self, path)

    def _check(self, topic: Topic, table: Any) -> None:
        found = {field.name: pa.field(field).type for field in pa.schema(table.schema().to_arrow())}
        for column in topic.schema:
            kind = found.get(column.name)
            if kind is not None and not _is_alike(kind, column.arrow.type):
                raise SchemaError(
                    f"the Delta table {self._path(topic.name)} has the column {column.name!r} as {kind}, and topic {topic.name} as {column.type}; "
                    "expected the same type: write to another path, or convert it with the transform Cast"
                )

    def _check_partitions(self, topic: Topic, names: Sequence[str]) -> None:
        """Refuse folders named by bytes or fractions: the library writes other bytes into the name, and -1.50 as -1.-50."""
        for name in names:
            kind = topic.schema[name].arrow.type if name in topic.schema else None
            if kind is not None and (pa.types.is_binary(kind) or (pa.types.is_decimal(kind) and kind.scale > 0)):
                raise ConfigError(
                    f"the Delta table {self._path(topic.name)} is partitioned by {name!r} of type {topic.schema[name].type}, whose values the "
                    "library does not write as they are; expected partition.by without it"
                )

    def _refuse_empty_texts(self, topic: Topic, rows: pa.Table) -> None:
        """Delta has no empty text in a partition column: it is null there, so it would come back as another value."""
        for name in self._tables[topic.name].metadata().partition_columns:
            if name not in topic.schema or topic.schema[name].type not in ("string", "binary"):
                continue
            empty = pc.indices_nonzero(pc.equal(pc.binary_length(rows[name]), 0)).to_pylist()
            if empty:
                raise SchemaError(
                    f"the column {name!r} is empty, and the Delta table {self._path(topic.name)} is partitioned by it, where Delta reads an empty "
                    "text as null; expected another text, null, or a table that is not partitioned by it",
                    tuple(empty),
                )

    def _transaction(self, place: TopicPartition, version: int, kind: str = "") -> Any:
        return library().Transaction(self._application(place, kind), version)

    def _application(self, place: TopicPartition, kind: str = "") -> str:
        return f"streamkit/{self.name}/{place.topic}/{place.partition}{kind}"

    def _properties(self, transactions: Sequence[Any]) -> Any:
        return library().CommitProperties(app_transactions=list(transactions), max_commit_retries=3)

    def _take_over(self, name: str, places: Sequence[TopicPartition]) -> None:
        transactions = [self._transaction(place, self._generation, "/generation") for place in places]

        def claim() -> None:
            table = self._tables[name]
            newer = [
                place
                for place in places
                if (table.transaction_version(self._application(place, "/generation")) or -1) > self._generation
            ]
            if newer:
                raise self.fenced(newer[0])
            table.create_write_transaction([], "append", table.schema(), commit_properties=self._properties(transactions))
            table.update_incremental()

        self._tried(name, claim)
        self._offsets |= {place: self._tables[name].transaction_version(self._application(place)) for place in places}

    def _commit(self, topic: Topic, places: Sequence[TopicPartition], write: Any) -> None:
        def commit() -> None:
            for place in places:
                known = self._tables[topic.name].transaction_version(self._application(place, "/generation"))
                if known != self._generation:
                    raise self.fenced(place)
            write()

        self._tried(topic.name, commit)

    def _tried(self, name: str, action: Any) -> None:
        """Do what commits; if others have committed meanwhile, look at the table and do it again."""
        for attempt in range(CONFLICTS_MAX):
            try:
                action()
            except errors().CommitFailedError:
                if attempt == CONFLICTS_MAX - 1:
                    raise
                self._tables[name] = open_table(self, self._path(name))
            else:
                return

    def _write(self, topic: Topic, rows: pa.Table, transactions: Sequence[Any]) -> None:
        table = self._tables[topic.name]
        properties = self._properties(transactions)
        columns = list(topic.schema.names)
        if not rows.num_rows:
            table.create_write_transaction([], "append", table.schema(), commit_properties=properties)
            table.update_incremental()
        elif self.settings["write.mode"] == "append":
            self._check_deletions(rows)
            library().write_deltalake(
                table, rows.select(columns), mode="append", schema_mode="merge", commit_properties=properties
            )
        else:
            self._merge(topic, newest(rows.select([*columns, DELETED]), topic.key), properties)
            if any(table.transaction_version(one.app_id) != one.version for one in transactions):
                self._write(
                    topic, rows.slice(0, 0), transactions
                )  # a merge that changes no row, such as deletions, commits nothing

    def _merge(self, topic: Topic, rows: pa.Table, properties: Any) -> None:
        same = " AND ".join(_is_same(name, rows[name]) for name in topic.key)
        values = {_quoted(name): f"source.{_quoted(name)}" for name in topic.schema.names}
        merge = self._tables[topic.name].merge(
            rows, same, source_alias="source", target_alias="target", merge_schema=True, commit_properties=properties
        )
        merge = merge.when_matched_delete(f"source.{DELETED}").when_matched_update(values)
        merge.when_not_matched_insert(values, f"NOT source.{DELETED}").execute()

    def _check_deletions(self, rows: pa.Table) -> None:
        deletions = tuple(row for row, deleted in enumerate(rows[DELETED].to_pylist()) if deleted)
        if deletions:
            name = rows[TOPIC_COLUMN][0].as_py()
            raise SchemaError(
                f"topic {name}: found a deletion; write.mode=append keeps rows for ever, write.mode=upsert deletes the row of a key",
                deletions,
            )


def _is_same(name: str, column: pa.ChunkedArray) -> str:
    """
    How a key is compared: null is a value of keys like others; `=` alone lets the library leave files out.

    In parentheses, because the library's SQL takes what stands behind the word FROM, an AND too, as a part of the comparison.
    """
    return f"(target.{_quoted(name)} {'IS NOT DISTINCT FROM' if column.null_count else '='} source.{_quoted(name)})"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _is_alike(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Delta has a type for what Arrow calls it: views and large types are the same, and so are units of time."""
    plain = {"string_view": "string", "large_string": "string", "binary_view": "binary", "large_binary": "binary"}
    texts = [str(kind) for kind in (found, wanted)]
    texts = [plain.get(text, text) for text in texts]
    return texts[0] == texts[1] or pa.types.is_nested(wanted)
