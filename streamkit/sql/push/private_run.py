"""
A topology that runs for one who looks: in this process, with stores in memory, on a log of its own that nobody else sees.

Records of the real log are copied into the private one as they come, with their partitions, times and headers. So the application has no
positions and no stores in the real log, and leaves nothing there.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_batch
from streamkit.dsl.topology import Topology
from streamkit.engine.epoch.epoch import EpochEnd
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.local import run_next
from streamkit.engine.runs.start import start
from streamkit.errors import Location
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate_all
from streamkit.log.log import Log
from streamkit.log.maintenance.record_deletion import RecordDeletion
from streamkit.log.opening import open_log
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, HEADERS, PARTITION, TIMESTAMP
from streamkit.plan.expression import Expression, TypedExpression
from streamkit.plan.inputs import sources_of
from streamkit.plan.program import Program
from streamkit.plan.traits import STREAM
from streamkit.recast import recast
from streamkit.sql.execution.session_settings import EARLIEST
from streamkit.sql.push.followed_topic import FollowedTopic
from streamkit.state.stores import MemoryStores

TIDY_SECONDS = 10.0  # between two times at which records that were read leave memory
TIDY_ROWS = 1 << 18  # that are copied before they leave memory at once
WHOLE_BYTES = 1 << 29  # of records that are copied before any of them is processed
KEY_GROUPS, CHANGELOG_PARTITIONS = 8, 1
UNBOUNDED = str((1 << 63) - 1)
AS_THEY_COME = {
    "cleanup.policy": "delete", "retention.ms": "-1", "message.timestamp.type": "CreateTime", "message.timestamp.before.max.ms": UNBOUNDED,
    "message.timestamp.after.max.ms": UNBOUNDED,
}  # fmt: skip


@dataclass(frozen=True)
class GivenColumns:
    """
    Which columns of a topic are given, in which order: a key is kept, whether somebody asks for it or not. All, if none is named.

    Those `of_key` are computed of the key alone, as a query at a place has it, so that a deletion has them, too.
    """

    names: Sequence[str] = ()
    of_key: Sequence[tuple[str, Expression]] = ()
    at: Location | None = None

    def typed(self, topic: Topic, time_zone: str) -> tuple[tuple[str, TypedExpression], ...]:
        """The columns that are computed of the key."""
        wanted = [one for one in self.of_key if one[0] in self.names]
        return ExpressionAnalyzer(time_zone).project(topic.schema.select(topic.key), wanted, self.at) if wanted else ()


class PrivateRun:
    """
    Runs a topology on copies of the records of a log, and gives the rows of its topic `output`. For one thread.

    Topics that are read as tables, and `tables`, are read from their beginning, others from where `offset_reset` says.
    """

    def __init__(
        self,
        log: Log,
        topology: Topology,
        output: str,
        offset_reset: str,
        columns: GivenColumns = GivenColumns(),
        tables: Collection[str] = (),
    ) -> None:
        self._log = log
        self._output = output
        self._columns = columns.names
        self._open = ExitStack()
        self._private = self._open.enter_context(open_log(":memory:", log.clock))
        self._private.settings = replace(
            log.settings, key_groups=KEY_GROUPS, changelog_partitions=CHANGELOG_PARTITIONS, maintenance_interval_ms=0
        )
        try:
            self._begin(topology, offset_reset, tables)
            self._of_key = columns.typed(self._private.topic(output), topology.time_zone)
        except BaseException:
            self.close()
            raise

    def _begin(self, topology: Topology, offset_reset: str, tables: Collection[str]) -> None:
        sources = sources_of(topology.roots)
        tables = {source.topic for source in sources if source.relation != STREAM or source.topic in tables}
        begins = {source.topic: EARLIEST if source.topic in tables else offset_reset for source in sources}
        self._consumers = {name: self._consumer(name, begin) for name, begin in begins.items()}
        for name in begins:
            self._private.catalog.topics.create(_as_they_come(self._log.topic(name)))
        program = _without_logs(topology, self._private)
        self._planner = start(
            self._private.catalog, self._private.storage, program, tasks=1, settings=self._private.settings, clock=self._log.clock
        )
        self._producer = self._open.enter_context(self._private.producer())
        self._stores = MemoryStores()
        self._end: EpochEnd | None = None
        self._given = dict.fromkeys(range(self._private.topic(self._output).partitions), 0)
        self._copied, self._tidied_s = 0, time.monotonic()
        self._drain(tables)

    def _consumer(self, topic: str, begin: str) -> FollowedTopic:
        names = [*self._log.topic(topic).schema.names, HEADERS]
        followed = FollowedTopic(self._log, topic, begin, names)
        self._open.callback(followed.close)
        return followed

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, and `_deleted`."""
        own = self._private.topic(self._output).schema.arrow
        is_known = bool(self._columns) and set(self._columns) <= set(own.names)
        return pa.schema(
            [*(own.field(name) for name in (self._columns if is_known else own.names)), pa.field(DELETED, pa.bool_())]
        )

    def _drain(self, tables: set[str]) -> None:
        """Copy what tables hold, before anything is processed: streams meet whole tables."""
        for name in tables:
            while self._copy(self._consumers[name], 0.0):
                pass

    def step(self, timeout_s: float) -> pa.RecordBatch | None:
        """The next rows; None if none came in time. Waits for records, or for the moment at which windows close."""
        watch = self._log.catalog.watch()  # before the look: what is committed after it ends the wait
        if not self._copy_all():
            before = self._end or self._planner.committed_end()
            watch.wait(min(timeout_s, self._planner.wait_s(before)))
            self._copy_all()
        self._process()
        found = self._rows()
        if self._copied > TIDY_ROWS or time.monotonic() - self._tidied_s > TIDY_SECONDS:
            self._tidy()
        return found

    def close(self) -> None:
        """Stop, and forget all."""
        self._open.close()

    def _copy_all(self) -> bool:
        """
        Copy what has come; returns whether there was anything.

        A poll gives a part of it, often of few partitions. Only of what is there together the order of all records is known, so nothing is
        processed before all of it is copied.
        """
        copied = 0
        while copied < WHOLE_BYTES and (more := sum(self._copy(consumer, 0.0) for consumer in self._consumers.values())):
            copied += more
        return copied > 0

    def _copy(self, consumer: FollowedTopic, timeout_s: float) -> int:
        """Copy the next records; returns how many bytes they have."""
        table = consumer.poll(timeout_s)
        if table is None:
            return 0
        topic = table.column("_topic")[0].as_py()
        names = [*self._private.topic(topic).schema.names, HEADERS, TIMESTAMP, DELETED]
        self._producer.send_batch(topic, table.select(names), partitions=table.column(PARTITION).to_numpy())
        self._producer.flush()
        self._copied += table.num_rows
        return int(table.nbytes)

    def _process(self) -> None:
        while (claim := run_next(self._planner, splits=1, stores=self._stores, before=self._end)) is not None:
            self._end = claim.end
            self._planner = self._planner.with_near_anchor()

    def _rows(self) -> pa.RecordBatch | None:
        """What the topology has made since the last look."""
        ends = self._private.end_offsets(self._output)
        if ends == self._given:
            return None
        found = self._private.read(self._output, start=self._given, end=ends)
        self._given = ends
        if DELETED not in found.column_names:
            found = found.append_column(DELETED, pa.repeat(False, found.num_rows))
        found = found.sort_by(TIMESTAMP) if len(ends) > 1 else found
        return self._with_keys(one_batch(found)).select(self.schema.names)

    def _with_keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, of which deletions have what is computed of their key, too."""
        deleted = pc.fill_null(rows.column(DELETED), False)
        if not self._of_key or not pc.any(deleted).as_py():
            return rows
        for name, values in evaluate_all(self._of_key, rows).items():
            place = rows.schema.get_field_index(name)
            known = pc.if_else(deleted, recast(values, rows.column(name).type), rows.column(name))
            rows = rows.set_column(place, rows.schema.field(name), known)
        return rows

    def _tidy(self) -> None:
        """Let go of records that were read, and of old changes of stores."""
        state = self._planner.catalog.applications.get(self._planner.application.name)
        names = {self._private.topic(name).id: name for name in self._consumers}
        for topic_id, offsets in state.positions.items():
            if topic_id in names:
                self._delete(names[topic_id], offsets)
        self._delete(self._output, self._given)
        self._private.maintain()
        self._copied, self._tidied_s = 0, time.monotonic()

    def _delete(self, name: str, before: Mapping[int, int]) -> None:
        """Delete records of the private log that were read: nobody goes back to them, since nobody restores the run."""
        catalog, topic = self._private.catalog, self._private.topic(name)
        holders = {holder for partition in before for holder in catalog.retention.floors(topic.id, partition, frozenset())}
        RecordDeletion(catalog, self._private.storage, topic, frozenset(holders)).run(dict(before))


def _as_they_come(topic: Topic) -> Topic:
    """The topic for copies of its records: each keeps its time, whatever it is, and none is deleted by itself."""
    config = tuple(sorted({**dict(topic.config), **AS_THEY_COME}.items()))
    return replace(topic.declaration, config=config, timestamp=None, internal=False)


def _without_logs(topology: Topology, log: Log) -> Program:
    """The program of a topology, whose stores keep no log: nobody will restore them."""
    program = compile_with_settings(topology, log)
    if not program.stores:
        return program
    topology.disable_logging(*(store.name for store in program.stores))
    return compile_with_settings(topology, log)
