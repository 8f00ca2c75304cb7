"""A log: a location that holds topics, and the surface through which clients use it."""

from __future__ import annotations

import datetime as dt
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, final

import pyarrow as pa

from streamkit.clock import Clock, SystemClock
from streamkit.config import Settings
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.consume.assignment import Assignment, FixedAssignment, WholeTopics, topic_names
from streamkit.log.consume.consumer import MAX_POLL_RECORDS, Consumer, PartitionsCallback
from streamkit.log.consume.consumer_groups import ConsumerGroups
from streamkit.log.consume.membership import (
    MAX_POLL_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Heart,
    Membership,
    Subscription,
)
from streamkit.log.consume.pin import Pin
from streamkit.log.consume.reader import OffsetBounds, Reader, TimeBound, TimeRange, check_bounds, check_columns
from streamkit.log.consume.time_lookup import offsets_for_times
from streamkit.log.database.heartbeats import Heartbeats, heartbeats_at
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.maintenance import compaction, maintenance
from streamkit.log.maintenance.maintenance import lapsed_holders
from streamkit.log.maintenance.merge import Merged, merge_topic
from streamkit.log.maintenance.record_deletion import RecordDeletion
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.maintenance.survivors import MEMORY_BYTES
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.producer_settings import ProducerSettings
from streamkit.log.rescue import findings
from streamkit.log.rescue.backup import Backup, back_up
from streamkit.log.rescue.copies import copy_and_prune
from streamkit.log.rescue.fsck import check_log
from streamkit.log.rescue.repair import RepairReport, repair
from streamkit.log.rescue.storage_change import StorageChange, change_storage
from streamkit.log.storage.inline_storage import InlineStorage, is_in_memory
from streamkit.log.storage.replicated_storage import current_storage
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.formats import declare_format, register_schema, rows_of
from streamkit.log.topic.settings import SettingValue
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.names import local_root
from streamkit.schema import Schema

if TYPE_CHECKING:
    from streamkit.notebook.topic_watch import TopicWatch
    from streamkit.state.view import StoreView


@final
class Log:
    """
    Topics at one location. Tasks may use `storage.files`; only drivers and clients use the catalog.

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
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self.root = root
        self.location = location or root
        self.has_password = has_password
        self.catalog = catalog
        self.storage = storage
        self.clock = clock
        self.settings = settings
        self.heartbeats = heartbeats or heartbeats_at(root)
        self.process = os.getpid()
        self.is_closed = False

    def __repr__(self) -> str:
        return f"Log({self.location!r})"

    @property
    def opens_elsewhere(self) -> bool:
        """Whether another process can open it by its location alone: none in memory, with a password, or with a clock of its own."""
        return self.root != IN_MEMORY and not self.has_password and isinstance(self.clock, SystemClock)

    @property
    def storage(self) -> InlineStorage:
        """Where slabs are: files, and what small commits have left in the catalog."""
        return self._storage

    @storage.setter
    def storage(self, storage: Storage) -> None:
        find = self.catalog.inline_slabs.find
        self._storage = storage if isinstance(storage, InlineStorage) else InlineStorage(storage, find)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be sent to another process; send its storage and what was read from its catalog")

    def close(self) -> None:
        """Close the catalog; a second call does nothing."""
        self.is_closed = True
        self.catalog.close()

    def create_topic(
        self,
        name: str,
        schema: str | Schema | pa.Schema | None = None,
        key: str | Sequence[str] | None = None,
        timestamp: str | None = None,
        partitions: int | None = None,
        config: Mapping[str, SettingValue] | None = None,
        partition_by: str | Sequence[str] | None = None,
        format: str | None = None,
        format_schema: str | Mapping[str, Any] | Sequence[Any] | None = None,
        format_settings: Mapping[str, Any] | None = None,
    ) -> Topic:
        """
        Create a topic of rows with this schema; if it exists and was declared in the same way, it is returned.

        `key` names the key columns, `timestamp` the column with the event time, `partition_by` those key columns that
        choose the partition (all of them unless given). `partitions` is the setting `topic_partitions` (4) unless given.
        `config` has Kafka's settings; `settings.py` lists them. TopicExistsError, SchemaError or ConfigError if something does not fit.

        With a `format` (`json`, `avro`, `protobuf`, `csv`, `string`, `bytes`) in place of a schema the topic is opaque: `key binary,
        value binary`, keyed by `key`. Producers encode the value that `send` is given; Arrow and pandas data must have encoded bytes; `decode` decodes values.
        `format_schema` is the schema of the values: Avro's or JSON's, the text of a .proto file, the columns of CSV.
        `format_settings` may have `schema.registry.url` and more (docs/formats.md): values are then in the registry's wire format,
        their schemas under the subject `<topic>-value`, where a `format_schema` is registered now.
        """
        count = self.settings.topic_partitions if partitions is None else partitions
        is_opaque = format is not None or format_schema is not None or format_settings is not None
        opaque = declare_format(format, format_schema, format_settings) if is_opaque else None
        declared = declare_topic(name, schema, key, timestamp, count, config, partition_by, format=opaque)
        register_schema(declared.format)
        return replace(self.catalog.topics.create(declared), log=self)

    def alter_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, SettingValue | None] | None = None,
        schema: str | Schema | pa.Schema | None = None,
        format_schema: str | Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> Topic:
        """
        Change a topic, and return it as it is then.

        `partitions` may grow: existing rows stay in their partitions, and as in Kafka new rows of a key may be written to another one.
        `config` changes settings; None sets one back to its default. `schema` is the whole new schema: columns
        that may be null can be added, types can get wider; older rows read as null and as the wider type. Open producers,
        readers and applications go on with the topic as they know it; if a reader finds a wider type than it knows, it raises a
        SchemaError. SchemaError for any other change of the schema, with both; ConfigError for fewer partitions, and
        for more if stores, the state of an application or compaction need the rows of a key in one partition.

        `format_schema` is the new schema of an opaque topic's values. A registry checks it by the subject's compatibility; without a
        registry, Avro's rules decide, by the format's setting `schema.compatibility` (BACKWARD unless given). SchemaError names both schemas.
        """
        parsed = None if schema is None else Schema.parse(schema)
        alteration = Alteration(partitions, {} if config is None else config, parsed, format_schema)
        if format_schema is not None:
            register_schema(alteration.applied_to(self.catalog.topics.get(name)).format)
        return replace(self.catalog.topics.alter(name, alteration), log=self)

    def topics(self, internal: bool = False) -> list[str]:
        """The names of the topics, sorted; those that belong to applications only on request."""
        return [topic.name for topic in self.catalog.topics.every() if internal or not topic.internal]

    def topic(self, name: str) -> Topic:
        """The topic of that name; else TopicNotFoundError, which lists the topics that exist."""
        return replace(self.catalog.topics.get(name), log=self)

    def program_before(self, application: str) -> str:
        """The program of the newest start of an application, as JSON text; empty if it has never started."""
        known = any(state.name == application for state in self.catalog.applications.every())
        return self.catalog.applications.program_of(application) if known else ""

    def describe(self, topic: str) -> dict[str, Any]:
        """What a topic is and how much it holds: offsets, rows and bytes by partition and in all, every setting with its value."""
        return self.catalog.topics.describe(topic)

    def delete_topic(self, name: str) -> None:
        """
        Delete a topic with its rows. TopicNotFoundError if there is none, ConfigError while it backs a store.

        As in Kafka, a topic in use is deleted too: producers, readers and applications that use it get an error at their next step
        (TopicNotFoundError or EpochFailedError), even if a topic of that name has been created again.
        """
        storage = self.storage_now()
        for path in self.catalog.topics.delete(name):
            storage.delete(path)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset after the last committed row, by partition."""
        return self.catalog.manifest.end_offsets(self.catalog.topics.get(topic).id)

    def set_storage(
        self,
        roots: Sequence[str],
        replication_factor: int | None = None,
        min_insync_replicas: int | None = None,
        *,
        adopt: bool = False,
        force: bool = False,
    ) -> None:
        """
        Keep copies of the log's files in these folders too, best on disks of their own; name all folders, not only new ones.

        Each slab is written `replication_factor` times (at first once per folder), and acknowledged when `min_insync_replicas`
        copies (at first 1) are durable; both keep their former values unless given.
        `repair` copies the existing files. Open producers, also of this `Log`, keep the former folders and numbers; a folder that is no
        longer named refuses their writes. If a folder that was named before is empty, it counts as a new disk. `adopt` says that the log
        has moved, or that a folder has lost its marker. ConfigError, and nothing is changed, for a folder in use, for numbers that do not
        fit, and, unless `force`, if slabs would lose their only whole copy.
        """
        change = StorageChange(roots, replication_factor, min_insync_replicas, adopt, force)
        self.storage = change_storage(self.root, self.catalog, change)

    @property
    def local_root(self) -> str:
        """The folder of this host below which the local stores of applications are: the root, unless the setting `local_dir` names another."""
        return self.root if is_in_memory(self.storage) else local_root(self.root, self.settings.local_dir)

    def storage_now(self) -> InlineStorage:
        """The storage as it is on record now: another process may have changed the roots since the log was opened."""
        self.storage = current_storage(self.storage, self.catalog.replication())
        return self.storage

    def repair(self, *, is_dry: bool = False, progress: Callable[[int, int], None] | None = None) -> RepairReport:
        """
        Check every copy of every slab, and replace missing and damaged copies by whole ones; with `is_dry` only check.

        ConfigError if the log keeps one copy only: there is nothing to repair from.
        """
        return repair(self.storage_now().files, self.catalog, is_dry=is_dry, progress=progress)

    def merge(self, topic: str) -> Merged:
        """
        Join the small files of a topic into larger ones, up to its `segment.bytes`; no row, offset or time changes.

        Safe beside readers and writers, and it may be interrupted at any time. The files it replaces are deleted by
        `maintain`, after the setting `file_delete_delay_ms`.
        """
        return merge_topic(self.catalog, self.catalog.topics.get(topic), SegmentWriter(self.storage_now(), self.catalog))

    def maintain(self, topics: Iterable[str] | None = None) -> maintenance.MaintenanceReport:
        """
        Do now the maintenance that a running application does every `maintenance_interval_ms`, and return what was done.

        This is retention by the topics' settings, compaction, merges, and the deletion of files that nothing has referred to for
        `file_delete_delay_ms`; of the named topics, or of all. Readers, writers and other maintenance may run at the same time.
        """
        return maintenance.maintain(self, topics)

    def delete_records(self, topic: str, before: int | Mapping[int, int], *, force: bool = False) -> dict[int, int]:
        """
        Delete the rows before an offset, of all partitions or by partition, as Kafka's DeleteRecords does; -1 is the end.

        Exactly these rows are deleted: if the offset is within a frame, the frame is rewritten as two. Returns the earliest offset left, by partition.
        ConfigError if a pin or a running application still needs one of them (and nothing is deleted), unless `force`;
        OffsetOutOfRangeError if an offset lies behind the end.
        """
        found = self.catalog.topics.get(topic)
        lapsed = lapsed_holders(self.catalog, self.heartbeats)
        return RecordDeletion(self.catalog, self.storage_now(), found, lapsed, force).run(before)

    def pin(self, topic: str, start: OffsetBounds = None) -> Pin:
        """
        Keep the rows of a topic from `start` on (an offset, or offsets by partition; else all that are left) from retention.

        Use it in a `with` block, or `release` it. A reader needs none, unless it takes longer than `file_delete_delay_ms`
        over rows that retention is about to drop. OffsetOutOfRangeError if some are gone already.
        """
        found = self.catalog.topics.get(topic)
        starts = dict.fromkeys(range(found.partitions)) | check_bounds(found, "start", start)
        return Pin(self.catalog, self.heartbeats, {found.id: starts})

    def producer(
        self,
        id: str | None = None,
        linger_ms: float | None = ProducerSettings.linger_ms,
        batch_size: int = ProducerSettings.batch_size,
        buffer_memory: int = ProducerSettings.buffer_memory,
        max_block_ms: float = ProducerSettings.max_block_ms,
    ) -> Producer:
        """
        A producer of rows, for any number of threads; use it in a `with` block. With an `id` it fences all older instances of that id.

        Sequence numbers given to `send_batch` are remembered by `id`, across processes. The settings are Kafka's, see ProducerSettings.
        Without `linger_ms` rows are committed by `flush`, by a full batch, by `receipt.result()` and at the end of the `with` block; so if
        the block raises, its waiting rows are not committed. With `linger_ms` they are also committed that long after they were sent.
        """
        settings = ProducerSettings(linger_ms, batch_size, buffer_memory, max_block_ms)
        return Producer(
            self.storage, self.catalog, self.clock, id, self.settings.frame_rows, settings, self.settings.inline_slab_bytes
        )

    def consumer(
        self,
        topics: str | Sequence[str] | None = None,
        group: str | None = None,
        *,
        auto_offset_reset: str = "earliest",
        columns: Sequence[str] | None = None,
        assignor: str = "cooperative-sticky",
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS,
        instance_id: str | None = None,
        max_poll_records: int = MAX_POLL_RECORDS,
        on_assigned: PartitionsCallback | None = None,
        on_revoked: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
    ) -> Consumer:
        """
        A consumer of rows; use it in a `with` block, or close it. See `Consumer`.

        With `topics` and a `group` it is a member of the group: the members share the partitions, and begin where the group has committed.
        With topics and no group it reads all partitions; without topics it reads those given to `assign`.
        `auto_offset_reset` says where to begin if there is no committed offset, or if its row is gone: `earliest`, `latest`, `none`
        (an error). `assignor` is `cooperative-sticky` or `range`. An `instance_id` keeps the partitions over a restart within
        `session_timeout_ms`. Callbacks get a list of (topic, partition): `on_assigned` before the first rows, `on_revoked`
        while they can still be committed, `on_lost` when it is too late. TopicNotFoundError if a topic does not exist,
        ConfigError for bad arguments.
        """
        names = topic_names(topics)
        for name in names:
            check_columns(self.catalog.topics.get(name), columns)
        assignment: Assignment = FixedAssignment(self.catalog, {}, group)
        heart = None
        if names and group is not None:
            wish = Subscription(group, names, assignor, session_timeout_ms, max_poll_interval_ms, instance_id)
            assignment = membership = Membership(self.catalog, self.heartbeats, wish)
            heart = Heart(membership)
        elif names:
            assignment = WholeTopics(self.catalog, names)
        return Consumer(
            self.storage,
            self.catalog,
            assignment,
            group=group,
            heart=heart,
            auto_offset_reset=auto_offset_reset,
            columns=columns,
            max_poll_records=max_poll_records,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            on_lost=on_lost,
        )

    def offsets_for_times(self, topic: str, moment: int | dt.datetime) -> dict[int, int | None]:
        """
        The first offset of each partition whose event time is this or later; None where there is none.

        `moment` is in milliseconds since 1970, or a datetime with a zone. One frame a partition is read, whatever it holds.
        """
        return offsets_for_times(self.storage, self.catalog, self.catalog.topics.get(topic), moment)

    @property
    def groups(self) -> ConsumerGroups:
        """Its consumer groups: `names()`, `describe(group)`, `reset(group, offsets)`, `delete(group)`."""
        return ConsumerGroups(self.catalog, self.heartbeats)

    def read(
        self,
        topic: str,
        columns: Sequence[str] | None = None,
        partitions: Iterable[int] | None = None,
        start: OffsetBounds = None,
        end: OffsetBounds = None,
        start_time: TimeBound = None,
        end_time: TimeBound = None,
    ) -> pa.Table:
        """
        The committed rows of a topic as one snapshot, ordered by partition and offset.

        The table has the columns, then `_timestamp`, `_partition`, `_offset`, and `_deleted` if a row is a tombstone.
        `start` and `end` are an offset for all partitions, or offsets by partition; `start_time` and `end_time` bound the event
        time, as a datetime or in ms. Neither end is included. Frames outside the bounds are not read.
        """
        return self._reader(topic, columns, partitions, start, end, TimeRange.of(start_time, end_time)).table()

    def scan(
        self,
        topic: str,
        columns: Sequence[str] | None = None,
        partitions: Iterable[int] | None = None,
        start: OffsetBounds = None,
        end: OffsetBounds = None,
        start_time: TimeBound = None,
        end_time: TimeBound = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that `read` gives, a frame at a time, and always with `_deleted`: for topics larger than memory."""
        return self._reader(topic, columns, partitions, start, end, TimeRange.of(start_time, end_time)).batches()

    def fsck(self, deep: bool = False) -> findings.CheckReport:
        """
        Check every invariant of the log, writing nothing, and return what was found; others may go on writing.

        With `deep`, every frame is read and decoded, and local stores are compared with their changelogs.
        """
        return check_log(self.root, self.storage.files, self.catalog.database, deep)

    def backup(self, target: str | os.PathLike[str], verify: bool = False) -> Backup:
        """
        Back up the log into a folder, as of one moment, while it is used; into an earlier backup only what is new.

        The folder opens as a log. Slabs are hard links on the same file system, else copies; all of it is durable when this
        returns. `verify` copies damaged slabs again and checks all: CorruptionError if anything is wrong then. ConfigError if the
        folder holds something else, or a backup that has been written to, or if another backup into it is under way.
        """
        return back_up(self.root, self.storage_now().files, self.catalog.database, target, verify)

    def copy_catalog(self, min_journal_bytes: int = 0) -> str | None:
        """
        Put a copy of the catalog into the log's folder `backups`, where a rebuild finds it; returns its path below the log's.

        The two newest copies are kept; journal files that the older of them covers are deleted. With `min_journal_bytes`
        nothing is done, and None returned, while the journal is smaller. ConfigError unless the catalog is a file of SQLite.
        """
        return copy_and_prune(self.catalog, self.root, min_journal_bytes)

    def decode(self, topic: str, rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
        """
        Rows that were read from a topic as dicts of Python values; those of an opaque topic decoded by its format.

        It takes what `read`, `scan` and `poll` give. SchemaError names the first row not of the format. Times that no datetime
        can hold are numpy's.
        """
        return rows_of(self.catalog.topics.get(topic).format, rows)

    def compact(
        self, topic: str, memory_bytes: int = MEMORY_BYTES, progress: Callable[[int], None] | None = None
    ) -> compaction.CompactionReport:
        """
        Keep only the newest record of each key of a topic, up to its committed end; all that stay keep offset, time and headers.

        Records younger than `min.compaction.lag.ms` are left alone. A deletion goes when it was cleaned once, `delete.retention.ms`
        have passed since, and every application and every consumer group that reads the topic has read it. Keys take at most
        `memory_bytes` at a time; `progress` gets the number of rows looked at.
        ConfigError if the topic's `cleanup.policy` does not say `compact`.
        """
        return compaction.compact(
            self.storage_now(), self.catalog, self.clock, self.catalog.topics.get(topic), memory_bytes, progress
        )

    def store(self, application: str, name: str) -> StoreView:
        """
        A view of an application's store, with `get`, `many`, `range`, `prefix`, `to_arrow` and others, as of the last committed epoch.

        docs/queries.md has them all. A view that is kept is faster than a new one for each call.

        ConfigError if there is no such application, StoreNotFoundError if it has no such store.
        """
        view: StoreView = importlib.import_module("streamkit.state.view").open_view(self, application, name)  # a layer above
        return view

    def watch(self, topic: str, where: str | None = None, chart: Sequence[str] | None = None, *, rows: int = 20) -> TopicWatch:
        """
        The newest rows of a topic in a notebook, newest first, once a second as they come.

        `where` is a condition as `streamkit consume --where` takes it: `amount > 10 and city = 'Rome'`. `chart=("window_start", "clicks",
        "city")` draws the second column over the first, a time or a number, with a line for each value of the third, if there is one. Of a
        look the newest 10,000 rows are read, and the newest `rows`, 500 at most, are shown. TopicNotFoundError, or ConfigError for what
        does not fit the topic. docs/notebooks.md has more.
        """
        watch = importlib.import_module("streamkit.notebook.topic_watch").TopicWatch  # a layer above
        found: TopicWatch = watch(self, topic, where, chart, rows)
        return found

    def _reader(
        self,
        topic: str,
        columns: Sequence[str] | None,
        partitions: Iterable[int] | None,
        start: OffsetBounds,
        end: OffsetBounds,
        times: TimeRange,
    ) -> Reader:
        return Reader(self.storage, self.catalog, self.catalog.topics.get(topic), columns, partitions, start, end, times)
