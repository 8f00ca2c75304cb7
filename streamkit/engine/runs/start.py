"""The start of an application: a new generation, its topics, its orphans collected, its planner."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from streamkit.clock import Clock, SystemClock
from streamkit.config import Settings, load_settings
from streamkit.engine.epoch.anchor import Anchor
from streamkit.engine.epoch.epoch import Application, OutputTopic, StoreNames
from streamkit.engine.evolution.adoption import Adoption
from streamkit.engine.evolution.continuation import Continuation, continued
from streamkit.engine.evolution.migration import Migration, unread_store
from streamkit.engine.evolution.waits import GivenResults
from streamkit.engine.runs.planner import EVERYTHING, Planner
from streamkit.errors import ConfigError, OrphanedStateError
from streamkit.failpoints import reach
from streamkit.log.catalog.applications import ApplicationState, StoreDeclaration
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.sql_queries import QueriesSeen
from streamkit.log.database.location import absolute_folder
from streamkit.log.database.system_error import obstacle
from streamkit.log.maintenance.orphans import collect_orphans
from streamkit.log.slab.kept_frames import KEPT_FRAMES
from streamkit.log.storage.inline_storage import is_in_memory
from streamkit.log.storage.replicated_storage import has_copies
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.settings import SettingValue
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.names import (
    application_folders,
    application_writer,
    changelog_topic,
    local_root,
    plan_folder,
    plan_generation,
    rebuilding,
)
from streamkit.plan.added_topics import created, declared_output, declared_outputs_read
from streamkit.plan.program import STREAM_KINDS, Program
from streamkit.state.changelog import COLUMNS
from streamkit.state.restoring import forget_restoring

CHANGELOG_SEGMENT_BYTES = 50 * 1024 * 1024
CHANGELOG_SEGMENT_MS = 3_600_000  # a restore reads what is not compacted; passes stay rare, because half of a topic must be dirty

UNLOGGED_RETENTION_MS = 600_000  # in which every task of an application that runs has applied the changes of an epoch


@dataclass(frozen=True)
class StoreRebuild:
    """
    Stores that are filled again at a start.

    `replay` does it, once the new generation has begun with this state, and the positions of the application stand still; it closes windows
    up to the times that it is given, by names.
    """

    stores: frozenset[str]
    replay: Callable[[Program, ApplicationState, GivenResults], Adoption]


def start(
    catalog: Catalog,
    storage: Storage,
    program: Program,
    *,
    tasks: int | None = None,
    default_tasks: int = 1,
    records_max: int | None = None,
    settings: Settings | None = None,
    clock: Clock | None = None,
    rebuild: StoreRebuild | None = None,
    follows: str | None = None,
    seen: QueriesSeen | None = None,
) -> Planner:
    """
    Begin a new generation of the program's application, which fences all older ones, and return its planner.

    Creates missing topics: those that the topology adds, outputs and changelogs; deletes what dead generations left behind, and brings
    stored state forward. The planner's program is this one with the parts of stores in the order in which they are stored. The stores
    of `rebuild` are filled again by it, before anything reads them; stores that the topology drops go with the next start then.
    `follows` names the application that this one follows. Raises ConfigError for options out of range, TopicNotFoundError for a missing
    input, OrphanedStateError if state would be left behind or misread, TopologyError for an output whose records have another form,
    FencedError if the queries or the generation that a runner has `seen` have changed.
    """
    check_options(tasks, records_max, program)
    settings = settings or load_settings()
    local_dir = checked_local_dir(storage, settings)
    added = _AddedTopics(catalog, program.application, seen)
    inputs = _inputs(added, program, settings)
    found = continued(catalog, program, rebuild.stores if rebuild is not None else frozenset())
    program = found.program_in_stored_order()
    check_logs(catalog, found, program, rebuild.stores if rebuild is not None else frozenset())
    stores = _checked_stores(catalog, program)
    added.add_missing(program.topics, max((topic.partitions for topic in inputs), default=1))
    outputs = [catalog.topics.find(one.topic) or added.create(declared_output(one, inputs)) for one in program.outputs]
    reach("start.before_commit")
    state = catalog.applications.start(
        program.application,
        tasks=tasks,
        default_tasks=default_tasks,
        key_groups=program.key_groups,
        program_hash=program.fingerprint if rebuild is None or found.known is None else found.known.program_hash,
        program=None if found.evolved or found.filled or rebuild is not None else program.text,
        inputs=_input_ids(program, inputs),
        stores=stores,
        dropped=[name for name in found.dropped if rebuild is None or name not in program.dropped_stores],
        compared=found.text,
        stale_times=found.stale_times({topic.name: topic.id for topic in inputs}) if rebuild is None else (),
        shifted_times=found.shifted_times,
        follows=follows,
        seen=seen,
    )
    reach("start.after_commit")
    collect_dead(catalog, storage, state)
    if rebuild is None:
        remove_rebuilding(catalog, storage, local_dir, program.application)
    clock = clock or SystemClock()
    topic_ids = tuple(topic.id for topic in inputs)
    adoption = rebuild.replay(program, state, found.given_results(state)) if rebuild is not None else None
    migration = Migration(catalog, storage, program, state, found.before, tuple(found.evolved), found.filled, topic_ids, adoption)
    migration.commit(clock.now_ms())
    inline_bytes = 0 if has_copies(storage) else settings.inline_slab_bytes  # the catalog would keep one copy
    application = _application(program, state, inputs, outputs, settings, inline_bytes, local_dir)
    changelog_ids = [store.changelog_id for store in application.stores.values()]
    # A flush of what small commits have left may take seconds, and small epochs need none: the first plan for Spark's tasks makes it.
    anchor = Anchor().moved(catalog, storage, application, changelog_ids, extents_max=0, flushes=False)
    rows_of = partial(KEPT_FRAMES.rows, is_last=False)  # for the readers of this process; those of Spark are in others
    bounds = _records_per_epoch(program, records_max or EVERYTHING, settings), settings.max_bytes_per_epoch
    return Planner(program, application, catalog, storage, clock, anchor, bounds[0], bytes_max=bounds[1], rows_of=rows_of)


def _checked_stores(catalog: Catalog, program: Program) -> list[StoreDeclaration]:
    """The stores of a program; ConfigError or TopicExistsError, before anything is written, for one whose changelog another store has."""
    stores = [declared_store(program, store.name) for store in program.stores]
    for store in stores:
        catalog.applications.check_changelog(program.application, store)
    return stores


@dataclass(frozen=True)
class _AddedTopics:
    """The topics that a start creates: none, but FencedError, for queries that are not those that were seen any more."""

    catalog: Catalog
    application: str
    seen: QueriesSeen | None

    def create(self, topic: Topic) -> Topic:
        return self.catalog.applications.create_topic(self.application, topic, self.seen)

    def add_missing(self, topics: Iterable[Topic], partitions: int) -> None:
        """Create those topics that do not exist; what is written has as many partitions as the widest input, unless it says how many."""
        for topic in topics:
            if self.catalog.topics.find(topic.name) is None:
                self.create(created(topic, partitions))


def _inputs(added: _AddedTopics, program: Program, settings: Settings) -> list[Topic]:
    """The topics that are read. A topic that the topology adds, or writes and reads again, is created unless it exists."""
    read = {source.topic for source in program.inputs}
    added.add_missing((topic for topic in program.topics if topic.name in read), settings.topic_partitions)
    for topic in declared_outputs_read(program, added.catalog.topics.find):
        added.create(topic)
    return [added.catalog.topics.get(source.topic) for source in program.inputs]


def _application(
    program: Program,
    state: ApplicationState,
    inputs: list[Topic],
    outputs: list[Topic],
    settings: Settings,
    inline_slab_bytes: int,
    local_dir: str,
) -> Application:
    """What the tasks of a new generation are told of their application."""
    return Application(
        id=state.id,
        name=state.name,
        generation=state.generation,
        tasks=state.tasks,
        key_groups=program.key_groups,
        changelog_partitions=program.changelog_partitions,
        store_memory_bytes=settings.store_memory_bytes,
        topic_ids=tuple(topic.id for topic in inputs),
        stores={
            store.name: StoreNames(state.stores[store.name].number, state.stores[store.name].changelog_topic_id)
            for store in program.stores
        },
        outputs=tuple(
            OutputTopic(
                topic.id,
                topic.name,
                topic.partitions,
                topic.partition_by,
                topic.compression,
                topic.timestamp,
                topic.is_stamped_on_append,
            )
            for topic in outputs
        ),
        inline_slab_bytes=inline_slab_bytes,
        local_dir=local_dir,
    )


def collect_dead(catalog: Catalog, storage: Storage, state: ApplicationState) -> int:
    """Delete what dead generations of an application staged and never committed; returns how many files."""
    writer = application_writer(state.id)
    slabs = collect_orphans(storage, catalog, writer, state.generation, committed_serial=state.epoch)
    plans = [path for path in storage.list(plan_folder(writer)) if (plan_generation(path) or 0) < state.generation]
    for path in plans:
        storage.delete(path)
    forget_restoring(storage.root, state.name)
    return len(slabs) + len(plans)


def remove_rebuilding(catalog: Catalog, storage: Storage, local_dir: str, application: str) -> None:
    """Remove the application that fills stores of this one again, with all it has, if there is one."""
    name = rebuilding(application)
    if all(state.name != name for state in catalog.applications.every()):
        return
    for path in catalog.applications.remove(name):
        storage.delete(path)
    for root in {storage.root, local_root(storage.root, local_dir)}:
        for folder in application_folders(name):
            shutil.rmtree(os.path.join(root, folder), ignore_errors=True)


def check_logs(catalog: Catalog, found: Continuation, program: Program, rebuilt: Collection[str] = ()) -> None:
    """OrphanedStateError for a store without a log that the start would have to read, or fill again, or that is to have a log from now on."""
    if found.before is None or found.known is None:
        return
    unlogged = {*found.before.unlogged, *program.unlogged}.intersection(found.known.stores)
    read = {one.stores[0] for one in found.filled.keepers} if found.filled is not None else set()
    for name in sorted(unlogged):
        dropping = (
            f"app.drop_store({', '.join(map(repr, found.before.keeper(name).stores if name in found.compared else (name,)))})"
        )
        if name in rebuilt:
            raise OrphanedStateError(
                f"the store {name!r} has no log, so a start cannot know which of its rows to delete; expected another store in its place, with "
                f"{dropping}"
            )
        if name not in found.compared or not catalog.manifest.purged_below(found.known.stores[name].changelog_topic_id):
            continue
        if name in found.evolved or name in read:
            raise unread_store(name, found.before.keeper(name).stores)
        if name not in program.unlogged:
            raise OrphanedStateError(
                f"the store {name!r} had no log until now, so its rows could not be restored from a log; expected "
                f"app.disable_logging({name!r}) as before, another store in its place, with {dropping}, or "
                f"`streamkit apps reset {program.application}`"
            )


def checked_local_dir(storage: Storage, settings: Settings) -> str:
    """The absolute folder of this host for the stores of logs, in which one for this log is made; empty without one. ConfigError if that cannot be."""
    if not settings.local_dir or is_in_memory(storage):
        return ""
    local_dir = absolute_folder(settings.local_dir, "setting local_dir")
    folder = local_root(storage.root, local_dir)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the setting local_dir is {settings.local_dir!r}, and {folder} cannot be made: {obstacle(error)}; expected a folder of this host in "
            "which stores can be written, or none"
        ) from error
    return local_dir


def _records_per_epoch(program: Program, records_max: int, settings: Settings) -> int:
    """How many records an epoch takes at most; fewer if each becomes many rows, so that these stay within `max_rows_per_epoch`."""
    if _rows_per_record(program) == 1:
        return records_max
    return min(records_max, max(1, records_within(program, settings.max_rows_per_epoch)))


def records_within(program: Program, rows: int) -> int:
    """How many records become at most so many rows."""
    return rows // _rows_per_record(program)


def _rows_per_record(program: Program) -> int:
    """How many rows an operator makes of a record at most."""
    return max((operator.rows_per_record for operator in program.operators), default=1)


def check_options(tasks: int | None, records_max: int | None, program: Program) -> None:
    """ConfigError for options out of range."""
    if tasks is not None and not 1 <= tasks <= program.key_groups:
        raise ConfigError(f"tasks={tasks}; expected 1 to {program.key_groups}, the number of key groups")
    if records_max is not None and records_max < 1:
        raise ConfigError(f"max_records_per_epoch={records_max}; expected at least 1")


def _input_ids(program: Program, inputs: Sequence[Topic]) -> dict[int, bool]:
    """The topics that the application reads, by id, and whether each epoch reads them from the beginning."""
    ids: dict[int, bool] = {}
    for source, topic in zip(program.inputs, inputs, strict=True):
        ids[topic.id] = ids.get(topic.id, False) or source.kind not in STREAM_KINDS
    return ids


def declared_store(program: Program, store: str) -> StoreDeclaration:
    """
    A store and its changelog; as in Kafka Streams its segments are small, and here also young, so that compaction comes soon.

    That of windows is also deleted by time. The time is the stream time that epochs commit, so `retention.ms` says how long that is.
    Of a store without a log the changes of the newest epochs are kept, by the time of the newest, and of keys nothing.
    """
    name = changelog_topic(program.application, store)
    config: dict[str, SettingValue] = {
        "cleanup.policy": "compact",
        "segment.bytes": CHANGELOG_SEGMENT_BYTES,
        "segment.ms": CHANGELOG_SEGMENT_MS,
    }
    if store in program.unlogged:
        config |= {"cleanup.policy": "delete", "retention.ms": UNLOGGED_RETENTION_MS}
    elif store in program.keeper(store).dated_stores:
        config |= {"cleanup.policy": "compact,delete", "retention.ms": program.changelog_retention_ms(store)}
    changelog = declare_topic(name, COLUMNS, "key", None, program.changelog_partitions, config, internal=True)
    return StoreDeclaration(store, changelog)
