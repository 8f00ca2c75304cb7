"""A task of a sink: rows of its partitions, from the positions in the foreign system on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from streamkit import failpoints
from streamkit.connectors.runtime import positions
from streamkit.connectors.runtime.converters import topic_of_sink
from streamkit.connectors.runtime.error_log import log_failures
from streamkit.connectors.runtime.failed_records import dead_letters, declare_dead_letters
from streamkit.connectors.runtime.letter_limits import within_limits
from streamkit.connectors.runtime.outgoing import targets_of
from streamkit.connectors.runtime.pipeline import PipelineStep, RecordFailure, in_topics, pass_through
from streamkit.connectors.runtime.refused_rows import EndOffsets, put_what_is_taken
from streamkit.connectors.runtime.retry import Retry
from streamkit.connectors.runtime.shares import partitions_of
from streamkit.connectors.runtime.source_task import producer_name
from streamkit.connectors.runtime.steps import steps_of_sink
from streamkit.connectors.runtime.task import IDLE_SECONDS, Orders, TaskProgress, check_columns, close, origin_of, refuse
from streamkit.connectors.sink import Sink
from streamkit.errors import ConfigError, FencedError
from streamkit.log.consume.consumer import Consumer, TopicPartition
from streamkit.log.log import Log
from streamkit.log.produce.producer import Producer
from streamkit.log.topic.topic import Topic
from streamkit.names import HEADERS, OFFSET, PARTITION, ROW_NUMBER, TOPIC

PARTITIONS_SECONDS = 2.0  # between two looks for new partitions
COMMIT_SECONDS = 0.25  # between two commits of the group of a busy sink whose target keeps the positions
OTHER_TARGET = "give the connector another name, and another target, such as another path, because what the former one has written stays there"


def group_name(connector: str) -> str:
    """The group whose offsets show how far a sink has come, as Kafka Connect names it."""
    return f"connect-{connector}"


def reset_group(log: Log, connector: str, topics: Iterable[str]) -> None:
    """Let a sink begin where its target says, or at the beginning of its topics if the target keeps no positions."""
    log.groups.reset(group_name(connector), {topic: _starts(log, topic) for topic in topics})


class SinkTask:
    """Runs a sink from the positions that it finds in the foreign system."""

    def __init__(
        self, sink: Sink, task: int, tasks: int, log: Log, *, is_once: bool = False, check: Callable[[], None] = lambda: None
    ) -> None:
        self.progress = TaskProgress()
        self._sink = sink
        self._task = task
        self._tasks = tasks
        self._log = log
        self._is_once = is_once
        self._check = check
        self._steps: dict[str, Sequence[PipelineStep]] = {}
        self._retry: Retry | None = None
        self._dead_letters: str = sink.settings["errors.deadletterqueue.topic.name"]
        # Offsets of a partition whose dead letters are written, the target's position or not.
        self._lettered: dict[str, set[int]] = {}
        self._producer: Producer | None = None
        self._target_keeps_positions = False
        self._committed_at = -math.inf
        self._uncommitted: set[Consumer] = set()  # the group does not know yet what these have put

    def run(self, orders: Orders) -> None:
        """Work until the orders say stop, or `--once` has reached the end; raises what the sink or the log raises."""
        sink = self._sink
        mine = self._partitions()
        self._retry = Retry.of(sink.settings, sink.is_retryable, orders.stop)
        with ExitStack() as stack:
            self._prepare_dead_letters(stack)
            generation = self._log.catalog.producers.open(group_name(sink.name)).epoch
            self._check()
            stack.callback(close, sink)
            sink.use(self._log)
            topics = [self._log.topic(name) for name in sink.settings["topics"]]
            # The sink hears of its topics once, so it has their columns of this moment. Records under later schemas are read into these.
            self._steps = {topic.name: steps_of_sink(sink, topic, self._log) for topic in topics}
            targets = targets_of(sink, [topic_of_sink(sink, topic, sink.IS_RAW) for topic in topics])
            for target in {target.name: target for target in targets.values()}.values():
                sink.topic(target)
            sink.routes = {topic: target.name for topic, target in targets.items()}
            kept = self._opened(generation, mine)
            self._target_keeps_positions = kept is not None
            self._uncommitted.clear()
            consumers = [stack.enter_context(self._consumer(topic, mine)) for topic in topics]
            for consumer in consumers:
                self._seek(consumer, kept)
            self._follow(consumers, mine, self._ends(mine) if self._is_once else None, orders)
            self._commit_group()

    def _opened(self, generation: int, mine: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        try:
            return self._sink.open(generation, mine)
        except FencedError as error:
            raise FencedError(
                f"{error}. If no other worker runs it: the target knows a connector of this name from another log; give this one another name"
            ) from error

    def _consumer(self, topic: Topic, mine: Sequence[TopicPartition]) -> Consumer:
        consumer = self._log.consumer(
            group=group_name(self._sink.name),
            columns=[*topic.schema.names, HEADERS],
            max_poll_records=self._sink.settings["batch.rows"],
        )
        consumer.assign([place for place in mine if place.topic == topic.name])
        return consumer

    def _partitions(self) -> list[TopicPartition]:
        return partitions_of(self._task, self._tasks, self._sink.settings["topics"], self._log)

    def _prepare_dead_letters(self, stack: ExitStack) -> None:
        if self._dead_letters:
            positions.declare_positions(self._log)
            declare_dead_letters(self._log, self._dead_letters)
            self._producer = stack.enter_context(self._log.producer(producer_name(self._sink.name, self._task)))
            known = positions.read_positions(self._log, self._sink.name)
            self._lettered = {split: set(position["offsets"]) for split, position in known.items()}

    def _seek(self, consumer: Consumer, kept: Mapping[TopicPartition, int] | None) -> None:
        """
        Begin at the target's positions, if it keeps any, else at the group's; ConfigError where the two contradict each other.

        The group has a position before anything is written, so a target with one that the group does not know has it from elsewhere.
        """
        if kept is None:
            return
        places = consumer.assignment()
        committed, starts, ends = consumer.committed(), self._bounds(places, partial(_starts, self._log)), self._ends(places)
        for place in places:
            offset, group = kept.get(place, 0), committed[place]
            where = f"connector {self._sink.name}: the target has topic {place.topic}, partition {place.partition} up to offset {offset}"
            if group is not None and group > max(offset, starts[place]):
                raise ConfigError(
                    f"{where}, but {group} was committed: it has lost rows, as when it was restored from a backup. To write them again: "
                    f"streamkit connect offsets reset {self._sink.name}"
                )
            if offset > ends[place]:
                raise ConfigError(
                    f"{where}, but the topic ends at {ends[place]}: it is another topic, or it has lost rows. To write what the topic has: "
                    + OTHER_TARGET
                )
            if group is None and offset > 0:
                raise ConfigError(
                    f"{where}, but from this topic nothing was written: the target has it from another log, or from a topic of that name "
                    f"which was deleted. To write all that the topic has: {OTHER_TARGET}. To go on behind that offset: "
                    f"streamkit connect offsets reset {self._sink.name}"
                )
            if place in kept:
                consumer.seek(place.topic, place.partition, offset)
            else:
                consumer.seek_to_beginning([place])
        consumer.commit({(place.topic, place.partition): max(kept.get(place, 0), starts[place]) for place in places})

    def _ends(self, places: Sequence[TopicPartition]) -> EndOffsets:
        return self._bounds(places, self._log.end_offsets)

    def _bounds(self, places: Sequence[TopicPartition], offsets: Callable[[str], Mapping[int, int]]) -> EndOffsets:
        bounds = {name: offsets(name) for name in {place.topic for place in places}}
        return {place: bounds[place.topic][place.partition] for place in places}

    def _follow(
        self, consumers: Sequence[Consumer], mine: Sequence[TopicPartition], until: EndOffsets | None, orders: Orders
    ) -> None:
        """Put what comes; returns at the end, or when the task's partitions are others now: then it is opened again."""
        look, watch = time.monotonic() + PARTITIONS_SECONDS, self._log.catalog.watch()
        while not orders.stop.is_set():
            if until is None and time.monotonic() > look:
                if self._partitions() != mine:
                    return
                look = time.monotonic() + PARTITIONS_SECONDS
            if orders.wait_if_paused():
                self._commit_group()
                continue
            reached = (item for consumer in consumers for item in consumer.position().items())
            if until is not None and all(offset >= until[place] for place, offset in reached):
                return
            self._linger(consumers, orders)
            polled = [self._put_next(consumer) for consumer in consumers]
            if any(polled):
                watch = self._log.catalog.watch()
            elif self._uncommitted:
                self._commit_group()
            elif until is None:
                watch.wait(IDLE_SECONDS)

    def _put_next(self, consumer: Consumer) -> bool:
        rows = consumer.poll(0.0)
        if rows is None:
            return False
        failpoints.reach("connect.polled")
        self._put(rows, consumer)
        return True

    def _linger(self, consumers: Sequence[Consumer], orders: Orders) -> None:
        """Wait until a batch is full, or has waited long enough."""
        linger_ms = self._sink.settings["batch.linger.ms"]
        if not linger_ms or self._is_once:
            return
        until, watch = time.monotonic() + linger_ms / 1_000, self._log.catalog.watch()
        while (left_s := until - time.monotonic()) > 0 and not orders.stop.is_set():
            lag = sum(sum(consumer.lag().values()) for consumer in consumers)
            if lag >= self._sink.settings["batch.rows"]:
                return
            watch.wait(min(IDLE_SECONDS, left_s))

    def _put(self, rows: pa.Table, consumer: Consumer) -> None:
        topic = rows[TOPIC][0].as_py()
        ends = consumer.position()
        is_tolerant = self._sink.settings["errors.tolerance"] == "all"
        passed = pass_through(self._steps[topic], topic, rows, self._retry, is_tolerant=is_tolerant)
        ready = [part for _, part in in_topics(passed.parts)]
        failures = list(passed.failures)
        self._letter(topic, rows, failures)
        part = ready[0] if ready else rows.slice(0, 0).append_column(ROW_NUMBER, pa.nulls(0, pa.int64()))
        put_what_is_taken(self._sink, part, ends, lambda refused: self._letter(topic, rows, refused))
        failpoints.reach("connect.target_committed")
        self._uncommitted.add(consumer)
        # Where the target keeps the positions, the group only shows them: each commit would wake all who wait for the log.
        if not self._target_keeps_positions or time.monotonic() > self._committed_at + COMMIT_SECONDS:
            self._commit_group()
        self.progress.rows += rows.num_rows
        self.progress.commit(self._log.clock.now_ms())
        self.progress.lag = sum(consumer.lag().values())

    def _commit_group(self) -> None:
        """Let the group know how far the rows that were put reach."""
        for consumer in self._uncommitted:
            consumer.commit()
        self._uncommitted.clear()
        self._committed_at = time.monotonic()

    def _letter(self, topic: str, rows: pa.Table, failures: Sequence[RecordFailure]) -> None:
        if not failures:
            return
        places = [f"topic {topic}, partition {rows[PARTITION][one.row]}, offset {rows[OFFSET][one.row]}" for one in failures]
        check_columns(self._sink, places[0], failures)
        log_failures(origin_of(self._sink, self._task), self._sink.settings, topic, rows, failures)
        refuse(self._sink, topic, places, failures)
        self.progress.failed_rows += len(failures)
        if self._producer is None:
            return
        fresh = [one for one in failures if rows[OFFSET][one.row].as_py() not in self._lettered.get(_split(topic, rows, one), ())]
        if fresh:
            self._write_letters(topic, rows, fresh)

    def _write_letters(self, topic: str, rows: pa.Table, fresh: Sequence[RecordFailure]) -> None:
        """Write dead letters, and which they are: a batch that is read again after a failure does not write them twice."""
        assert self._producer is not None
        found = self._log.topic(topic)
        ids = {f"{topic}-{partition}": str(found.id) for partition in range(found.partitions)}
        letters = dead_letters(origin_of(self._sink, self._task), topic, rows, found.key, fresh, identities=ids)
        known = {split: set(offsets) for split, offsets in self._lettered.items()}
        for one in fresh:
            known.setdefault(_split(topic, rows, one), set()).add(rows[OFFSET][one.row].as_py())
        touched = {_split(topic, rows, one) for one in fresh}
        for split in touched:
            first = _first_offset(rows, int(split.rpartition("-")[2]))
            known[split] = {offset for offset in known[split] if offset >= first}
        with self._producer.transaction():
            self._producer.send_batch(self._dead_letters, within_limits(self._log, self._dead_letters, letters))
            positions.send_positions(
                self._producer, self._sink.name, {split: {"offsets": sorted(known[split])} for split in touched}
            )
        self._lettered = known


def _starts(log: Log, topic: str) -> Mapping[int, int]:
    return log.catalog.manifest.start_offsets(log.topic(topic).id)


def _first_offset(rows: pa.Table, partition: int) -> int:
    """The lowest offset of a partition among the rows."""
    found: int = pc.min(rows.filter(pc.equal(rows[PARTITION], partition))[OFFSET]).as_py()
    return found


def _split(topic: str, rows: pa.Table, failure: RecordFailure) -> str:
    return f"{topic}-{rows[PARTITION][failure.row].as_py()}"
