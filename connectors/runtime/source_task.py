"""A task of a source: each poll, and the positions after it, in one transaction of the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TypeAlias

import pyarrow as pa

from streamkit import failpoints
from streamkit.connectors.runtime import positions
from streamkit.connectors.runtime.destination import Destination
from streamkit.connectors.runtime.error_log import log_failures
from streamkit.connectors.runtime.failed_records import as_read, dead_letters, declare_dead_letters
from streamkit.connectors.runtime.identity import adopted, checked, with_identities, without_identities
from streamkit.connectors.runtime.letter_limits import within_limits
from streamkit.connectors.runtime.pipeline import FAILURES, Passed, PipelineStep, RecordFailure, pass_through, pass_together
from streamkit.connectors.runtime.retry import Retry
from streamkit.connectors.runtime.shares import splits_of
from streamkit.connectors.runtime.steps import steps_of_source
from streamkit.connectors.runtime.targets import TARGETS, Targets, check_targets, topic_ids, with_targets
from streamkit.connectors.runtime.task import POLL_SECONDS, Orders, TaskProgress, check_columns, close, origin_of, refuse
from streamkit.connectors.source import Polled, Position, RecordPlace, Source, Unread
from streamkit.errors import ConfigError, OutcomeUnknownError, RecordTooLargeError, SchemaError
from streamkit.log.log import Log
from streamkit.log.produce.producer import Producer
from streamkit.log.topic.formats import KEY, OPAQUE_SCHEMA, VALUE
from streamkit.log.topic.topic import Topic
from streamkit.names import OFFSET, PARTITION, ROW_NUMBER, TIMESTAMP, TOPIC

PlacedRecord: TypeAlias = tuple[RecordPlace | None, dict[str, object]]  # a dead letter, and where its record was read
_SETTLE_TRIES = 20
SPLITS_SECONDS = 2.0  # between two looks for new splits
IDENTITY_SECONDS = 1.0  # between two looks at whether splits are what they were


def producer_name(connector: str, task: int) -> str:
    """The producer whose opening fences an older instance of the task."""
    return f"connect-{connector}-{task}"


class SourceTask:
    """Runs a source from its committed positions on."""

    def __init__(
        self, source: Source, task: int, tasks: int, log: Log, *, is_once: bool = False, check: Callable[[], None] = lambda: None
    ) -> None:
        self.progress = TaskProgress()
        self._source = source
        source.is_bounded = is_once
        self._task = task
        self._tasks = tasks
        self._log = log
        self._is_once = is_once
        self._check = check  # after the older instance is fenced, before anything is read
        self._destination = Destination(log, source)
        self._steps: Sequence[PipelineStep] = ()
        self._retry: Retry | None = None
        self._positions: dict[str, Position | None] = {}
        self._identities: Mapping[str, str] = {}
        self._topic_ids: Mapping[str, int] = {}
        self._identified = 0.0
        self._has_passed = False  # whether the transforms have let a record through
        self._dead_letters: str = source.settings["errors.deadletterqueue.topic.name"]

    def run(self, orders: Orders) -> None:
        """Work until the orders say stop, or `--once` has reached the end; raises what the source or the log raises."""
        positions.declare_positions(self._log)
        if self._dead_letters:
            declare_dead_letters(self._log, self._dead_letters)
        self._retry = Retry.of(self._source.settings, self._source.is_retryable, orders.stop)
        with ExitStack() as stack:
            producer = stack.enter_context(self._log.producer(producer_name(self._source.name, self._task)))  # it fences
            self._check()
            stack.callback(close, self._source)
            before = positions.read_with_targets(self._log, self._source.name)
            known = positions.read_positions(self._log, self._source.name)
            self._source.use(self._log)
            mine = splits_of(self._task, self._tasks, self._source.splits())
            for split in mine:
                if split in known:
                    positions.check_position(type(self._source), self._source.name, split, known[split])
            self._destination.declare()
            self._steps = steps_of_source(self._source, self._log)
            self._source.refused = []
            is_of_rows = self._source.chain is None or self._source.chain.keeps_columns  # else its columns are others
            if is_of_rows and self._source.settings["topic"] in self._log.topics():
                topic = self._log.topic(self._source.settings["topic"])
                self._check_key(topic)
                self._source.topic(topic)
            self._positions = {split: known.get(split) for split in mine}
            targets = {split: position[TARGETS] for split, position in before.items() if TARGETS in position and split in mine}
            self._identify(producer, targets)
            self._compare_targets(producer, targets)
            self._source.open(without_identities(self._positions))
            self._follow(producer, orders)

    def _check_key(self, topic: Topic) -> None:
        """ConfigError if the setting `key` names other columns than the key of the topic that is there: nothing would come of it."""
        key = self._source.settings["key"]
        if key and topic.schema != OPAQUE_SCHEMA and set(key) != set(topic.key):
            raise ConfigError(
                f"connector {self._source.name}: topic {topic.name} has {'the key ' + ','.join(topic.key) if topic.key else 'no key'}, and the setting "
                f"says key={','.join(key)}; expected the key that the topic has, or another topic"
            )

    def _identify(self, producer: Producer, targets: Mapping[str, Targets]) -> None:
        """Find out whether the positions are of what is there now."""
        self._identities = self._source.identities(list(self._positions))
        silent = adopted(self._positions, self._identities)
        if silent:
            kept = {split: {**one, TARGETS: targets[split]} if split in targets else one for split, one in silent.items()}
            with producer.transaction():
                positions.send_positions(producer, self._source.name, kept)
        self._positions = checked(self._source, {**self._positions, **silent}, self._identities)
        self._identified = time.monotonic()

    def _compare_targets(self, producer: Producer, before: Mapping[str, Targets]) -> None:
        """Find out whether what comes goes where what came before went; a position that does not say it does so from now on."""
        self._topic_ids = topic_ids(self._log)
        known = self._known()
        gone = {
            split: self._source.without_topic(known[split])
            for split in check_targets(self._source, known, before, self._topic_ids)
        }
        self._positions.update(gone)
        forgotten = [split for split, position in gone.items() if position is None]
        if forgotten:
            with producer.transaction():
                positions.forget_positions(producer, self._source.name, forgotten)
        silent = {split: position for split, position in self._known().items() if split not in before}
        said = with_targets(self._source, silent, self._topic_ids)
        if said != silent:
            with producer.transaction():
                positions.send_positions(producer, self._source.name, said)

    def _check_identities(self) -> None:
        """Now and then while it runs: ConnectionError, which starts the task again, where that says what becomes of another one."""
        if not self._identities or time.monotonic() - self._identified < IDENTITY_SECONDS:
            return
        now = self._source.identities(list(self._positions))
        self._identified = time.monotonic()
        if checked(self._source, with_identities(self._known(), self._identities), now) != with_identities(
            self._known(), self._identities
        ):
            raise ConnectionError(f"connector {self._source.name}: what it reads was deleted and made again")

    def _known(self) -> dict[str, Position]:
        return {split: position for split, position in self._positions.items() if position is not None}

    def _follow(self, producer: Producer, orders: Orders) -> None:
        look = time.monotonic() + SPLITS_SECONDS
        while not orders.stop.is_set():
            if orders.wait_if_paused():
                continue
            polled = self._source.poll(0.0 if self._is_once else POLL_SECONDS)
            self._check_identities()
            if polled is not None:
                failpoints.reach("connect.polled")
                self._write(producer, polled)
            elif self._is_once and self._source.is_at_end():
                return
            if not self._is_once and time.monotonic() > look:
                self._look_for_splits()
                look = time.monotonic() + SPLITS_SECONDS

    def _look_for_splits(self) -> None:
        """Open the source again if it has new splits for this task."""
        found = splits_of(self._task, self._tasks, self._source.splits())
        if set(found) - set(self._positions):
            self._positions = {split: self._positions.get(split) for split in [*self._positions, *found]}
            self._identities = {**self._source.identities(list(self._positions)), **self._identities}
            self._source.open(without_identities(self._positions))

    def _write(self, producer: Producer, polled: Polled) -> None:
        """Write a poll; where somebody waits for an answer about rows that do not fit, he has it, and the others are written."""
        while True:
            try:
                self._write_all(producer, polled)
            except FAILURES:
                rest = self._source.without_refused(self._reason_of)
                if rest is None:
                    raise
                polled = rest
            else:
                return

    def _reason_of(self, topic: str, rows: pa.Table) -> SchemaError | None:
        """What is wrong with the first row that fails on its way to the topic."""
        failures = self._passed(topic, rows).failures
        if not failures:
            return None
        error, said = failures[0].error, str(failures[0].error)
        for row in getattr(error, "rows", ())[:1]:  # its number among the rows that were tried together
            said = said.replace(f"row {row}, ", "", 1).replace(f"row {row} takes", "it takes", 1)
        return (RecordTooLargeError if isinstance(error, RecordTooLargeError) else SchemaError)(said, (failures[0].row,))

    def _write_all(self, producer: Producer, polled: Polled) -> None:
        sends: list[tuple[str, pa.Table]] = []
        letters: list[PlacedRecord] = []
        taken = 0
        for topic, found in polled.tables.items():
            if not isinstance(found, pa.Table | Sequence):
                taken += self._take(topic, found, 0, found.count, sends, letters)
                continue
            for rows in [found] if isinstance(found, pa.Table) else found:
                passed = self._passed(topic, rows)
                sends += passed.parts
                self._has_passed |= bool(passed.parts)
                letters += self._letters(topic, rows, passed.failures)
                taken += rows.num_rows
        letters += self._refused_letters()
        if sends or letters or polled.positions:
            self._commit(producer, sends, _in_order(letters), polled)
        self._positions.update(polled.positions)
        self._source.committed(polled.positions)
        self.progress.rows += taken
        self.progress.commit(self._log.clock.now_ms())

    def _take(
        self, topic: str, records: Unread, start: int, end: int, sends: list[tuple[str, pa.Table]], letters: list[PlacedRecord]
    ) -> int:
        """Collect the rows that the records give and the dead letters of the records that fail; return how many rows there were."""
        reading = records.read(start, end)
        stops = (
            bool(reading.refused) and self._source.settings["errors.tolerance"] == "none"
        )  # what is behind one makes no columns
        is_whole = reading.is_sure and not (stops and end - start > 1)
        passed = pass_together(self._all_steps(), topic, reading.tables, self._retry) if is_whole else None
        if end - start > 1 and not isinstance(passed, list):
            middle = (start + end) // 2
            return sum(self._take(topic, records, *part, sends, letters) for part in ((start, middle), (middle, end)))
        for one in reading.refused:
            self._source.refuse_record(*one)
        if isinstance(passed, RecordFailure):
            letters += self._letters(topic, reading.tables[0].drop_columns([ROW_NUMBER]), [passed])
        else:
            sends += passed or []
            self._has_passed |= bool(passed)
        return sum(rows.num_rows for rows in reading.tables)

    def _all_steps(self) -> Sequence[PipelineStep]:
        return [
            *self._steps,
            PipelineStep("KAFKA_PRODUCE", self._destination.fitted, is_last=True, key_of=self._destination.key_of),
        ]

    def _passed(self, topic: str, rows: pa.Table) -> Passed:
        """The rows by topic as the topics take them; those that fail apart."""
        is_tolerant = self._source.settings["errors.tolerance"] == "all"
        return pass_through(
            self._all_steps(),
            topic,
            rows,
            self._retry,
            is_tolerant=is_tolerant,
        )

    def _refused_letters(self) -> list[PlacedRecord]:
        """Dead letters of what never was a row."""
        refused, self._source.refused = self._source.refused, []
        letters: list[PlacedRecord] = []
        for topic, record, error, place, time_ms in refused:
            times = {} if time_ms is None else {TIMESTAMP: pa.array([time_ms], pa.timestamp("ms", tz="UTC"))}
            value = pa.array([record], pa.binary())
            rows = pa.table({KEY: pa.nulls(1, pa.binary()), VALUE: value, **_place_columns(place), **times})
            found = self._letters(topic, rows, [RecordFailure(0, "VALUE_CONVERTER", error)], is_of_poll=False)
            letters += [(place, letter) for _, letter in found]
        return letters

    def _letters(
        self, topic: str, rows: pa.Table, failures: Sequence[RecordFailure], *, is_of_poll: bool = True
    ) -> list[PlacedRecord]:
        """Dead letters of failed rows, each with its place; the source knows the places of rows of the last poll alone, which `is_of_poll` says they are."""
        if not failures:
            return []
        is_tolerant = self._source.settings["errors.tolerance"] == "all"
        is_of_records = self._source.IS_BY_RECORD and is_tolerant  # whichever came before, and whichever start
        if not is_of_records and not (self._source.has_schemas_of_records and self._has_passed):
            check_columns(self._source, _place(rows, failures[0]) or f"topic {topic}", failures)
        log_failures(origin_of(self._source, self._task), self._source.settings, topic, rows, failures)
        places = [self._source.place_of(topic, failure.row) if is_of_poll else "" for failure in failures]
        refuse(
            self._source,
            topic,
            [place or _place(rows, failure) for place, failure in zip(places, failures, strict=True)],
            failures,
        )
        self.progress.failed_rows += len(failures)
        if not self._dead_letters:
            return []
        has_nulls = not (is_of_poll and self._source.has_schemas_of_records)
        key = self._source.key_of(topic)
        origin = origin_of(self._source, self._task)
        letters = dead_letters(origin, topic, rows, key, failures, has_nulls=has_nulls, identities=self._identities)
        found = ((_place_of(rows, failure), letter) for failure, letter in zip(failures, letters, strict=True))
        return [(place, letter | as_read(place and self._source.record_of(place))) for place, letter in found]

    def _commit(
        self, producer: Producer, sends: Sequence[tuple[str, pa.Table]], letters: list[dict[str, object]], polled: Polled
    ) -> None:
        self._destination.prepare(producer)
        try:
            with producer.transaction():
                for topic, rows in sends:
                    self._destination.send(producer, topic, rows.drop_columns([ROW_NUMBER]))
                if letters:
                    producer.send_batch(self._dead_letters, within_limits(self._log, self._dead_letters, letters))
                reached = with_identities(polled.positions, self._identities)
                ids = {**self._topic_ids, **self._destination.ids}
                positions.send_positions(producer, self._source.name, with_targets(self._source, reached, ids))
                failpoints.reach("connect.staged")
        except OutcomeUnknownError:
            _settle(producer)
        failpoints.reach("connect.committed")


def _settle(producer: Producer) -> None:
    """Find out whether a commit took effect, or make it take effect."""
    for attempt in range(_SETTLE_TRIES):
        try:
            producer.flush()
        except OutcomeUnknownError:
            if attempt == _SETTLE_TRIES - 1:
                raise
        else:
            return


def _in_order(letters: Sequence[PlacedRecord]) -> list[dict[str, object]]:
    """In the order of what was read, where all have a place there; else in that in which they were found."""
    places = [place for place, _ in letters if place is not None]
    if len(places) < len(letters):
        return [letter for _, letter in letters]
    order = sorted(range(len(letters)), key=places.__getitem__)
    return [letters[number][1] for number in order]


def _place_columns(place: RecordPlace | None) -> dict[str, pa.Array]:
    """Where a record came from, as rows say it."""
    if place is None:
        return {}
    topic, partition, offset = place
    return {
        TOPIC: pa.array([topic]),
        PARTITION: pa.array([partition], pa.int32()),
        OFFSET: pa.array([offset], pa.int64()),
    }


def _place_of(rows: pa.Table, failure: RecordFailure) -> RecordPlace | None:
    """Where a record came from, as places are compared; None if the source does not say it."""
    if any(name not in rows.column_names or not rows[name][failure.row].is_valid for name in (TOPIC, PARTITION, OFFSET)):
        return None
    return str(rows[TOPIC][failure.row]), int(rows[PARTITION][failure.row].as_py()), int(rows[OFFSET][failure.row].as_py())


def _place(rows: pa.Table, failure: RecordFailure) -> str:
    """Where a record came from, if the source says so."""
    names = [name for name in (TOPIC, PARTITION, OFFSET) if name in rows.column_names]
    return ", ".join(f"{name.removeprefix('_')} {rows[name][failure.row].as_py()}" for name in names)
