"""A log: a location that holds topics, and the surface through which clients use it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, final

import pyarrow as pa

from streamkit.clock import Clock, SystemClock
from streamkit.config import Settings, load_settings
from streamkit.errors import ConfigError, SetupError
from streamkit.log import compaction
from streamkit.log.address import Address, is_address, parse_address
from streamkit.log.alteration import Alteration
from streamkit.log.catalog import Catalog
from streamkit.log.formats import declare_format, rows_of
from streamkit.log.producer import Producer
from streamkit.log.reader import Bounds, Moment, Reader, Times
from streamkit.log.repair import RepairReport, repair
from streamkit.log.replicated_storage import ReplicatedStorage, create_root, open_storage
from streamkit.log.replication import Replication, StorageRoot
from streamkit.log.settings import SETTINGS, Scalar
from streamkit.log.sqlite import IN_MEMORY, SqliteDatabase
from streamkit.log.storage import FileStorage, MemoryStorage, Storage
from streamkit.log.survivors import MEMORY_BYTES
from streamkit.log.topic import Topic, declare_topic
from streamkit.names import CATALOG_FILE, IDENTITY_FOLDER, fresh_token
from streamkit.schema import Schema

if TYPE_CHECKING:
    from streamkit.state.view import StoreView


@final
class Log:
    """
    Topics at one location. `storage` may travel to tasks; the catalog stays with drivers and clients.

    `root` is the absolute directory, or `:memory:`; `location` opens the same log elsewhere: the root, or a URL of
    PostgreSQL, from which a password was left out (`has_password`). A log belongs to the process that opened it.
    """

    def __init__(
        self,
        root: str,
        storage: Storage,
        catalog: Catalog,
        clock: Clock,
        settings: Settings,
        location: str | None = None,
        *,
        has_password: bool = False,
    ) -> None:
        self.root = root
        self.location = location or root
        self.has_password = has_password
        self.storage = storage
        self.catalog = catalog
        self.clock = clock
        self.settings = settings

    def __repr__(self) -> str:
        return f"Log({self.location!r})"

    def __enter__(self) -> Log:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot travel to another process; send its storage and what was read from its catalog")

    def close(self) -> None:
        """Close the catalog; a second call does nothing."""
        self.catalog.close()

    def create_topic(
        self,
        name: str,
        schema: str | Schema | pa.Schema | None = None,
        key: str | Sequence[str] | None = None,
        timestamp: str | None = None,
        partitions: int | None = None,
        config: Mapping[str, Scalar] | None = None,
        partition_by: str | Sequence[str] | None = None,
        format: str | None = None,
        format_schema: str | Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> Topic:
        """
        Create a topic of rows with this schema; one that exists and was declared equally is returned as it is.

        `key` names the key columns, `timestamp` the column with the event time, `partition_by` those key columns that
        choose the partition (all of them unless given). `partitions` is the setting `topic_partitions` (4) unless given.
        `config` has Kafka's settings; `settings.py` says which are in force. TopicExistsError, SchemaError or ConfigError say what does not fit.

        With a `format` (`json`, `avro`, `string`, `bytes`) in place of a schema the topic is opaque: `key binary, value
        binary`, keyed by `key`. Producers encode what `send` is given, Arrow and pandas go in as they are, `decode` reads it.
        `format_schema` is the schema of `avro` values.
        """
        count = self.settings.topic_partitions if partitions is None else partitions
        opaque = None if format is None and format_schema is None else declare_format(format, format_schema)
        return self.catalog.create_topic(declare_topic(name, schema, key, timestamp, count, config, partition_by, format=opaque))

    def alter_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, Scalar | None] | None = None,
        schema: str | Schema | pa.Schema | None = None,
    ) -> Topic:
        """
        Change a topic, and return it as it is then.

        `partitions` may grow: rows that are there stay where they are, and as in Kafka new rows of a key may go to another
        partition. `config` changes settings, None sets one back to its default. `schema` is the whole new schema: columns
        that may be null can be added, types can get wider; older rows read as null and as the wider type. Producers, readers
        and applications that are open go on with the topic as they know it; a reader that meets a wider type than it knows
        gets a SchemaError. SchemaError for any other change of the schema, with both; ConfigError for fewer partitions, and
        for more where stores, the state of an application or compaction need the rows of a key together.
        """
        parsed = None if schema is None else Schema.parse(schema)
        return self.catalog.alter_topic(name, Alteration(partitions, dict(config or {}), parsed))

    def topics(self, internal: bool = False) -> list[str]:
        """The names of the topics, sorted; those that belong to applications only if asked for."""
        return [topic.name for topic in self.catalog.topics() if internal or not topic.internal]

    def topic(self, name: str) -> Topic:
        """The topic of that name; else TopicNotFoundError, which lists those that exist."""
        return self.catalog.topic(name)

    def describe(self, topic: str) -> dict[str, Any]:
        """What a topic is and how much it holds: offsets, rows and bytes by partition and in all, every setting with its value."""
        found = self.catalog.topic(topic)
        names = ("partition", "start_offset", "end_offset", "rows", "bytes")
        partitions = [dict(zip(names, row, strict=True)) for row in self.catalog.partition_sizes(found.id)]
        return {
            "name": found.name,
            "id": found.id,
            "schema": str(found.schema),
            "version": found.version,
            "schemas": [
                {"version": past.version, "schema": str(Schema.parse(past.schema)), "created_ms": past.created_ms}
                for past in self.catalog.schema_versions(found.id)
            ],
            "format": found.format and found.format.name,
            "format_schema": found.format and found.format.schema,
            "key": list(found.key),
            "timestamp": found.timestamp,
            "partition_by": list(found.partition_by),
            "internal": found.internal,
            "partitions": partitions,
            "rows": sum(partition["rows"] for partition in partitions),
            "bytes": sum(partition["bytes"] for partition in partitions),
            "config": {name: found.setting(name) for name in SETTINGS},
        }

    def delete_topic(self, name: str) -> None:
        """
        Delete a topic with its rows. TopicNotFoundError if there is none, ConfigError while it backs a store.

        As in Kafka, nobody is asked who uses it: producers, readers and applications that do get an error at their next
        step (TopicNotFoundError or EpochFailedError), also when a topic of that name has been created anew.
        """
        for path in self.catalog.delete_topic(name):
            self.storage.delete(path)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset after the last committed row, by partition."""
        return self.catalog.end_offsets(self.catalog.topic(topic).id)

    def set_storage(self, roots: Sequence[str], replication_factor: int | None = None, min_insync_replicas: int = 1) -> None:
        """
        Keep copies of the log's files under these folders too, best on disks of their own; all that are wanted, not those to add.

        Each slab is written `replication_factor` times (once per root and the log's own folder unless given) and
        acknowledged when `min_insync_replicas` copies are durable. It holds for whoever opens the log from now on; `repair`
        copies what is there already. ConfigError for a folder that has files of its own, or numbers that do not fit.
        """
        known = {root.path: root for root in self.catalog.replication().roots}
        folders = [os.path.abspath(os.path.expanduser(root)) for root in roots]
        factor = 1 + len(folders) if replication_factor is None else replication_factor
        Replication(factor, min_insync_replicas, tuple(StorageRoot(folder, "") for folder in folders))  # checks before it creates
        chosen = tuple(known.get(folder) or create_root(folder, fresh_token()) for folder in folders)
        replication = Replication(factor, min_insync_replicas, chosen)
        self.catalog.change_replication(replication)
        self.storage = open_storage(self.root, replication)

    def repair(self, *, is_dry: bool = False, progress: Callable[[int, int], None] | None = None) -> RepairReport:
        """
        Check every copy of every slab, and make missing and damaged ones anew from a whole one; `is_dry` only looks.

        ConfigError if the log keeps one copy only: there is nothing to repair from.
        """
        if not isinstance(self.storage, ReplicatedStorage):
            raise ConfigError(f"{self!r} keeps one copy of its files; add storage roots first: streamkit storage set")
        return repair(self.storage, self.catalog, is_dry=is_dry, progress=progress)

    def producer(self, id: str | None = None) -> Producer:
        """
        A producer of rows; use it in a `with` block. With an `id` it fences every older instance of that id.

        Sequence numbers given to `send_batch` are remembered by `id`, across processes.
        """
        return Producer(self.storage, self.catalog, self.clock, id, frame_rows=self.settings.frame_rows)

    def read(
        self,
        topic: str,
        columns: Sequence[str] | None = None,
        partitions: Iterable[int] | None = None,
        start: Bounds = None,
        end: Bounds = None,
        start_time: Moment = None,
        end_time: Moment = None,
    ) -> pa.Table:
        """
        The committed rows of a topic as one snapshot, ordered by partition and offset.

        The table has the columns, then `_timestamp`, `_partition`, `_offset`, and `_deleted` if a row is a tombstone.
        `start` and `end` are an offset for all partitions, or offsets by partition; `start_time` and `end_time` bound the event
        time, as a datetime or in ms. Neither end is included. Frames outside of either are not read.
        """
        return self._reader(topic, columns, partitions, start, end, Times.of(start_time, end_time)).table()

    def scan(
        self,
        topic: str,
        columns: Sequence[str] | None = None,
        partitions: Iterable[int] | None = None,
        start: Bounds = None,
        end: Bounds = None,
        start_time: Moment = None,
        end_time: Moment = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that `read` gives, a frame at a time, and always with `_deleted`: for topics larger than memory."""
        return self._reader(topic, columns, partitions, start, end, Times.of(start_time, end_time)).batches()

    def decode(self, topic: str, rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
        """
        Rows that were read from a topic as dicts of Python values; those of an opaque topic decoded by its format.

        It takes what `read`, `scan` and a consumer's `poll` give. SchemaError names the first row whose bytes are not of the format.
        """
        return rows_of(self.catalog.topic(topic).format, rows)

    def compact(
        self, topic: str, memory_bytes: int = MEMORY_BYTES, progress: Callable[[int], None] | None = None
    ) -> compaction.Report:
        """
        Keep only the newest record of each key of a topic, up to its committed end; all that stay keep offset, time and headers.

        Records younger than `min.compaction.lag.ms` are left alone. A deletion goes when it was cleaned once, `delete.retention.ms`
        have passed since, and every application that reads the topic has read it. Keys take at most `memory_bytes` at a
        time; `progress` is told how many rows were looked at.
        ConfigError if the topic's `cleanup.policy` does not say `compact`.
        """
        return compaction.compact(self.storage, self.catalog, self.clock, self.catalog.topic(topic), memory_bytes, progress)

    def store(self, application: str, name: str) -> StoreView:
        """
        A view of an application's store, with `get`, `range`, `to_arrow` and `to_pandas`, as of the last committed epoch.

        ConfigError if there is no such application, StoreNotFoundError if it has no such store.
        """
        view: StoreView = importlib.import_module("streamkit.state.view").open_view(self, application, name)  # a layer above
        return view

    def _reader(
        self,
        topic: str,
        columns: Sequence[str] | None,
        partitions: Iterable[int] | None,
        start: Bounds,
        end: Bounds,
        times: Times,
    ) -> Reader:
        return Reader(self.storage, self.catalog, self.catalog.topic(topic), columns, partitions, start, end, times)


def open_log(path_or_url: str | os.PathLike[str] | None = None, clock: Clock | None = None, vfs: str | None = None) -> Log:
    """
    Open the log at a directory, which is made if it is missing; `:memory:` is a log that lives and dies with this object.

    For a log that several hosts share: `postgresql://user@host/database?schema=name&storage=/shared/directory`. The catalog
    is in that schema (`streamkit` unless given), the slabs are in the directory, which every host must see; without
    `storage`, the setting `log_storage` (`$STREAMKIT_LOG_STORAGE`) names it. The first opening binds the two together.

    Without an argument: `$STREAMKIT_LOG`, else the setting `log` (`.streamkit`). `vfs` names a SQLite VFS for the catalog,
    for tests that inject faults. FormatVersionError if a newer StreamKit wrote it, ConfigError for a place that cannot be,
    SetupError if psycopg is missing.
    """
    settings = load_settings()
    chosen = clock or SystemClock()
    location = os.fspath(path_or_url) if path_or_url is not None else settings.log
    if location == IN_MEMORY:
        return Log(location, MemoryStorage(), Catalog(SqliteDatabase(IN_MEMORY), chosen), chosen, settings)
    if is_address(location):
        return _open_shared(parse_address(location, settings.log_storage), chosen, settings)
    root = _directory(location)
    _refuse_bare_storage(root)
    catalog = Catalog(SqliteDatabase(os.path.join(root, CATALOG_FILE), vfs), chosen)
    return Log(root, open_storage(root, catalog.replication()), catalog, chosen, settings)


def has_log(location: str) -> bool:
    """Whether there is a log at a location already, as far as its files tell; opening one would make it."""
    if is_address(location):
        return os.path.isdir(os.path.join(parse_address(location, load_settings().log_storage).storage, IDENTITY_FOLDER))
    return "://" in location or os.path.isdir(os.path.expanduser(location))


def _open_shared(address: Address, clock: Clock, settings: Settings) -> Log:
    try:
        postgres = importlib.import_module("streamkit.log.postgres")
    except ImportError as error:
        raise SetupError(f"a log in PostgreSQL needs psycopg ({error}): pip install 'streamkit[postgres]'") from error
    catalog = Catalog(postgres.PostgresDatabase(address), clock)
    try:
        catalog.claim_storage(FileStorage(address.storage))
        storage = open_storage(address.storage, catalog.replication())
    except BaseException:
        catalog.close()
        raise
    return Log(storage.root, storage, catalog, clock, settings, address.text, has_password=address.has_password)


def _refuse_bare_storage(root: str) -> None:
    if os.path.isdir(os.path.join(root, IDENTITY_FOLDER)):
        raise ConfigError(f"{root} holds the slabs of a log whose catalog is in PostgreSQL; open that by its postgresql:// URL")


def _directory(location: str) -> str:
    """The absolute directory of a location, made if it is missing."""
    scheme = location.partition("://")[0] if "://" in location else "file"
    if scheme != "file":
        raise ConfigError(
            f"a log at {scheme}:// is not supported yet; found {location!r}, expected a directory, or a postgresql:// URL"
        )
    root = os.path.abspath(os.path.expanduser(location.removeprefix("file://")))
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the log directory {root} cannot be used: {error.strerror}") from error
    return root
