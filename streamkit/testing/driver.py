"""A test of a topology in one process: rows go in, the clock moves, outputs and stores are looked at."""

from __future__ import annotations

import datetime as dt
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, final

import pyarrow as pa

from streamkit.clock import HandClock
from streamkit.config import Settings
from streamkit.dsl.topology import Topology
from streamkit.engine.epoch.event_time import event_times
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.planner import EVERYTHING
from streamkit.errors import ConfigError, TopologyError
from streamkit.expressions.python.python_functions import called_twice
from streamkit.formats.format import Format
from streamkit.log.consume.reader import milliseconds
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.log.produce.receipt import Receipt
from streamkit.log.rows.given_rows import gathered
from streamkit.log.topic.formats import KEY, declare_format, register_schema
from streamkit.log.topic.settings import RETENTION_MS, TIMESTAMP_AFTER_MAX_MS, UNLIMITED
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP
from streamkit.plan.added_topics import created, declared_outputs_read
from streamkit.plan.duration import duration_ms
from streamkit.plan.inputs import sources_of
from streamkit.state.view import StoreView, open_views
from streamkit.testing.comparison import hashable, store_difference, topic_difference
from streamkit.testing.epoch_tracer import EpochTracer
from streamkit.testing.placed_rows import placed_rows
from streamkit.testing.script import Drained, Piped, ProcessedAll, Restarted, Script
from streamkit.testing.stepped_run import SteppedRun
from streamkit.testing.traced_epoch import TracedEpoch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamkit.plan.analysis import Analyzer
    from streamkit.schema import Schema

Moment: TypeAlias = int | str | dt.datetime
PartitionOffsets: TypeAlias = dict[int, int]  # by partition
DeclaredTopic: TypeAlias = "str | Schema | pa.Schema | Mapping[str, Any]"
TRACED_EPOCHS = 5
EACH, ONE, ALL = "each", "one", "all"
_logger = logging.getLogger(__name__)
START = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
PATIENT = {RETENTION_MS: "-1", TIMESTAMP_AFTER_MAX_MS: UNLIMITED}  # a test's times have nothing to do with the clock's


@final
class TopologyTestDriver:
    """
    Runs a topology in this process, without Spark and without a disk, and compares it with Spark on request.

        app = Topology("delays")
        flights = app.stream("flights", schema="origin string, delay int", key="origin")
        flights.group_by("origin").agg(flights=F.count("*"), store="flights_per_origin").emit("every").to("counts")

        with TopologyTestDriver(app) as driver:
            driver.pipe("flights", {"origin": "JFK", "delay": 20}, timestamp="2013-01-01 05:00")
            assert driver.read("counts", "origin", "flights") == [{"origin": "JFK", "flights": 1}]
            assert driver.store("flights_per_origin").get("JFK")["flights"] == 1

    It is the engine itself: planner, readers, exchange, kernels, transactions. But the catalog, the files of the log and the stores
    are in memory, and the clock shows the same time until you move it.

    Args:
        topology: what to test.
        topics: the columns of inputs that have no `schema=`: SQL text or a schema, or a dict of the arguments of
            `log.create_topic`, such as `{"schema": "origin string, delay int", "key": "origin", "partitions": 4}`.
        log: a log whose declarations of topics are used instead; its rows are not used.
        tasks: how many tasks each kernel has.
        partitions: how many partitions input topics have whose declaration does not say.
        batching: which records an epoch reads.
            "each": the records of one call of `pipe`. "one": a single record. "all": nothing runs until you look at something, and
            then all waiting records are one epoch. A number, or a `random.Random`: epochs are cut at random, and begin at random.
        max_records_per_epoch: a bound for each epoch, as in `streamkit.run`.
        start_time: what the clock shows at the beginning; 2020-01-01 unless given.
        analyzer: what types the expressions; see `streamkit.compile`.
        traced_epochs: for how many of the last epochs `traced` says what they did; an assertion that fails in the `with` block shows them.
        keeps_columns: rows keep columns that no later step reads, so that a trace shows them.

    Final states, and what `emit("every")` and `emit("final")` give, do not depend on tasks or batching, as long as rows are piped
    in the order of their times, or there is one topic of one partition. Rows that are piped later, with a time before rows that
    were processed already, are late, as they would be on Spark. `emit("latest")` gives the newest result of each key in each epoch, so
    the results in between depend on the batching; the newest result of each key does not.

    Functions of users (`F.udf`, `map_values` …) are called twice on the same values: EvaluationError if they give two results, because
    an epoch that is repeated after a crash must give the same results again. Functions of `peek` and `foreach` are called once.

    Raises what `streamkit.compile` raises, and ConfigError for options out of range.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        topics: Mapping[str, DeclaredTopic] | None = None,
        log: Log | None = None,
        tasks: int = 1,
        partitions: int = 1,
        batching: str | int | random.Random = EACH,
        max_records_per_epoch: int | None = None,
        start_time: Moment = START,
        analyzer: Analyzer | None = None,
        traced_epochs: int = TRACED_EPOCHS,
        keeps_columns: bool = False,
    ) -> None:
        self.topology = topology
        self._batching = _checked_batching(batching)
        self._clock = HandClock(_moment_ms(start_time))
        self._start_ms = self._clock.now_ms()
        self._log = open_log(IN_MEMORY, self._clock)
        try:
            topics_made = [self._created(topic) for topic in _declared(topology, topics or {}, log, partitions)]
            self.program = compile_with_settings(topology, self._log, analyzer, keeps_columns=keeps_columns, is_tested=True)
            read_back = declared_outputs_read(self.program, self._log.catalog.topics.find)
            self._script = Script((*topics_made, *(self._created(topic) for topic in read_back)))
            is_as_it_runs = analyzer is None and all(one.as_tested is one for one in topology.outputs)
            self._tested = topology if is_as_it_runs else self.program
            self._tracer = EpochTracer(self._log, self.program, traced_epochs)
            self._run = SteppedRun(
                self._log, self.program, max_records_per_epoch, self._tracer.epoch if traced_epochs else nullcontext
            )
            self._tasks = tasks
            self._begin()
        except BaseException:
            self._log.close()
            raise
        self._producer = self._log.producer()
        self._waiting = 0
        self._read_up_to: dict[str, PartitionOffsets] = {}

    def __repr__(self) -> str:
        state = "running" if self.is_running else "crashed"
        return f"TopologyTestDriver({self.topology.name!r}, tasks={self._tasks}: {state}, epoch {self.epoch})"

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, AssertionError) and hasattr(error, "add_note"):  # from Python 3.11 on
            with suppress(Exception):  # what the test is about is its own error
                error.add_note(_told(self.traced()))
        self.close()

    def close(self) -> None:
        """Forget everything; a second call does nothing."""
        self._run.die()
        self._log.close()

    def traced(self) -> list[TracedEpoch]:
        """
        What each of the last epochs did, oldest first: records, rows of steps, changes of stores, results, what was left out and why.

        With `batching="one"` an epoch is a record. The driver keeps `traced_epochs` of them. Records that wait are not processed for this.
        """
        return list(self._tracer.epochs)

    def forget_traced(self) -> None:
        """Let `traced` begin with the next epoch."""
        self._tracer.epochs.clear()

    @property
    def log(self) -> Log:
        """The log in memory, with everything that was committed; records that wait by `batching` are processed first."""
        self._process_all()
        return self._log

    # Rows in

    def pipe(
        self, topic: str, rows: Any, *, timestamp: Moment | None = None, headers: Mapping[str, bytes | str | None] | None = None
    ) -> None:
        """
        Append rows to a topic, and process them as `batching` says.

        `rows` is a dict, a list or generator of them, an Arrow table or batch, or a DataFrame of pandas or polars. A row may have `_timestamp`, `_deleted` and
        `_headers` beside its columns. `timestamp` is the time of rows without one: milliseconds since 1970, a datetime or ISO
        8601 text, UTC unless it has a zone; else they have the time of the clock. `headers` are the headers of every row.
        SchemaError for rows that do not fit; then none is appended.

        Rows from `log.read` have `_partition` and `_offset`, and keep both and their `_timestamp`. A record without a key is left out with a
        warning where an opaque topic is compacted, since no table has a row for it: Kafka Streams' driver takes such a record, too.
        """
        sent = self._with_keys(topic, _with_headers(rows, headers))
        time_ms = None if timestamp is None else _moment_ms(timestamp)
        if placed := placed_rows(sent):
            for one in placed:
                receipt = one.send(self._log, self._producer, topic, time_ms)
                self._keep(Piped(topic, one.rows, time_ms, self._clock.now_ms(), receipt, placed=one))
            self._process_some()
        elif isinstance(sent, list) and len(sent) == 1 and isinstance(sent[0], dict):
            self._send(topic, sent, time_ms, self._producer.send(topic, sent[0], timestamp_ms=time_ms))
        elif len(sent):
            self._send(topic, sent, time_ms, self._producer.send_batch(topic, sent, timestamp_ms=time_ms))

    def delete(self, topic: str, key: Mapping[str, Any], *, timestamp: Moment | None = None) -> None:
        """Append the tombstone of a key, given as key columns and values; it deletes the row of a table."""
        time_ms = None if timestamp is None else _moment_ms(timestamp)
        receipt = self._producer.delete(topic, key, timestamp_ms=time_ms)
        self._send(topic, dict(key), time_ms, receipt, is_deletion=True)

    def _with_keys(self, name: str, rows: Any) -> Any:
        topic = self._log.catalog.topics.find(name)
        if topic is None or topic.format is None or not topic.is_compacted or not isinstance(rows, list):
            return rows
        kept = [row for row in rows if not isinstance(row, dict) or row.get(KEY) is not None]
        if len(kept) < len(rows):
            _logger.warning(
                "topic %s: %d records without a key are left out, since the topic keeps rows by key", name, len(rows) - len(kept)
            )
        return kept

    def _send(self, topic: str, rows: Any, time_ms: int | None, receipt: Receipt, *, is_deletion: bool = False) -> None:
        self._producer.flush()
        self._keep(Piped(topic, rows, time_ms, self._clock.now_ms(), receipt, is_deletion))
        self._process_some()

    def _keep(self, piped: Piped) -> None:
        """Note rows that were sent, and that they wait."""
        self._script.actions.append(piped)
        self._waiting += 1 if piped.is_deletion else len(piped.rows)

    # Time

    @property
    def now(self) -> dt.datetime:
        """The time that the clock shows."""
        return dt.datetime.fromtimestamp(self._clock.now_ms() / 1000, dt.timezone.utc)

    def advance_wall_clock(self, length: str | dt.timedelta | None = None, **parts: float) -> None:
        """
        Move the clock on by "5 minutes", a timedelta, or `minutes=5`, and run the ticks that operators asked for.

        Stream time, by which windows close, does not move: only records move it. Windows with `close_after_idle` also close by the clock.
        """
        self._process_all()
        self._clock.advance(duration_ms(dt.timedelta(**parts) if length is None else length, "advance of the clock"))
        with called_twice():
            self._run.process()
        self._script.actions.append(ProcessedAll())

    def drain(self) -> None:
        """Process all records that wait, and close all windows, as at the end of a run with `drain=True`."""
        self._process_all()
        with called_twice():
            self._run.drain()
        self._script.actions.append(Drained())

    # Rows out

    def read(self, topic: str, *columns: str) -> list[dict[str, Any]]:
        """
        The rows appended to a topic since the last call, by partition and offset.

        With `columns` the rows have only these, `_headers` too if it is named; without it, all columns of the topic, then `_timestamp`,
        `_partition`, `_offset` and `_deleted`.
        """
        before, end = self._unread(topic)
        if before == end and not columns:
            return []
        return _dicts(self._log, topic, self._rows(topic, before, end, columns), columns)

    def read_arrow(self, topic: str, *columns: str) -> pa.Table:
        """As `read`, but as an Arrow table."""
        found = self._rows(topic, *self._unread(topic), columns)
        return found.select(list(columns)) if columns else found

    def _unread(self, topic: str) -> tuple[PartitionOffsets, PartitionOffsets]:
        """Where the rows begin and end that were not read yet, and are now."""
        self._process_all()
        before = self._read_up_to.get(topic, {})
        self._read_up_to[topic] = end = self._log.end_offsets(topic)
        return before, end

    def _rows(self, topic: str, before: PartitionOffsets, end: PartitionOffsets, columns: Sequence[str]) -> pa.Table:
        return _with_deleted(self._log.read(topic, _stored(columns), start=before, end=end))

    def read_all(self, topic: str, *columns: str) -> list[dict[str, Any]]:
        """All rows of a topic, even if they were read before; otherwise as `read`."""
        self._process_all()
        return _dicts(self._log, topic, _with_deleted(self._log.read(topic, _stored(columns))), columns)

    def newest(self, topic: str) -> dict[Any, dict[str, Any]]:
        """
        The newest row of each key of a topic that is not deleted, by its key: a value, or a tuple if there are several columns.

        A key that is NaN is found under `math.nan`; an array in a key is a tuple, and a struct the tuple of its values.
        """
        key = self._log.topic(topic).key
        if not key:
            raise ConfigError(f"the topic {topic!r} has no key; read_all() gives its rows")
        found: dict[Any, dict[str, Any]] = {}
        for row in self.read_all(topic):
            place = hashable(row[key[0]] if len(key) == 1 else [row[name] for name in key])
            found.pop(place, None)
            if not row[DELETED]:
                found[place] = {name: value for name, value in row.items() if name not in (PARTITION, OFFSET, DELETED)}
        return found

    def store(self, name: str) -> StoreView:
        """A view of a store, with `get`, `range`, `to_arrow` and others; StoreNotFoundError lists the existing stores."""
        self._process_all()
        return self._log.store(self.topology.name, name)

    def metrics(self) -> Counter[str]:
        """The counts since the beginning, over all operators: `records`, `written`, `late`, `null_key` …; 0 for any other name."""
        self._process_all()
        counted: Counter[str] = Counter()
        for name, value in self._log.catalog.applications.get(self.topology.name).metrics.items():
            numbers = value.values() if isinstance(value, dict) else [value]
            if all(isinstance(number, int) for number in numbers):
                counted[name] = sum(numbers)
        return counted

    @property
    def epoch(self) -> int:
        """How many epochs were committed."""
        return self._log.catalog.applications.get(self.topology.name).epoch

    # Crashes

    @property
    def is_running(self) -> bool:
        """Whether the application runs: it runs until `crash`, and again after `restore`."""
        return self._run.is_alive

    def crash(self, at: str | None = None) -> None:
        """
        Let the application die now, or when it reaches the fail point `at` (see `streamkit.failpoints`).

        It loses what it had not committed, and its stores. Until `restore` you can pipe rows and read outputs, but nothing is
        processed.
        """
        if at is None:
            self._run.die()
        else:
            self._check_running()
            self._run.die_at(at)

    def restore(self, tasks: int | None = None) -> None:
        """Start the application again from its last commit; with another number of tasks, if given."""
        self._run.die()
        self._tasks = self._tasks if tasks is None else tasks
        self._begin()
        self._process_some()

    def restart(self, tasks: int | None = None) -> None:
        """
        Process all records that wait, then stop and start the application, with another number of tasks, if given.

        Its stores are restored from the changelogs. A store without a log is lost if its changes are not kept any more, as it is if its folder is lost.
        """
        self._process_all()
        self.restore(tasks)

    def _begin(self) -> None:
        self._run.start(self._tasks)
        self._script.actions.append(Restarted(self._tasks))

    def _check_running(self) -> None:
        if not self.is_running:
            raise ConfigError("the application has crashed; call restore() first")

    # Epochs

    def step(self, records: int = 1) -> bool:
        """
        Process only the next of the records that wait by `batching="all"`, or that many; returns whether there was one.

        The next record is the first in the canonical order over all topics. Work that only the clock causes counts as a record, too.
        """
        self._check_running()
        before = self.epoch
        with called_twice():
            taken = self._run.process(lambda: records, epochs=1)
        self._waiting = max(0, self._waiting - taken)
        return self.epoch > before

    def _process_some(self) -> None:
        """Run the epochs that `batching` wants now."""
        if self._batching == ALL or not self._waiting:
            return
        if isinstance(self._batching, random.Random) and (epochs := self._batching.randrange(3)) < 2:
            with called_twice():
                taken = self._run.process(self._cut, epochs=epochs)
            least = 0 if self._run.is_counted else 1  # rows that are read twice count twice, so some may still wait
            self._waiting = max(least, self._waiting - taken)
            return
        self._process_all()

    def _process_all(self) -> None:
        """Run epochs until nothing waits, unless the application has crashed."""
        if not self._waiting or not self.is_running:
            return
        with called_twice():
            self._run.process(self._cut, waiting=self._waiting)
        if self.is_running:
            self._waiting = 0
            self._script.actions.append(ProcessedAll())

    def _cut(self) -> int:
        """How many records the next epoch takes at most."""
        if isinstance(self._batching, random.Random):
            return self._batching.randint(1, max(1, self._waiting))
        return 1 if self._batching == ONE else EVERYTHING

    # Topics

    def _created(self, topic: Topic) -> Topic:
        return self._log.catalog.topics.create(
            replace(topic.declaration, config=tuple(sorted({**dict(topic.config), **PATIENT}.items())))
        )

    # Spark

    def run_on_spark(self, session: SparkSession | None = None) -> None:
        """
        Repeat on Spark everything that was done with this driver, with a log on disk, and compare every output topic and store.

        AssertionError shows the first difference. Of topics with newest results (`emit("latest")`) the newest row of each key is
        compared. Sums of doubles may differ in their last bits. Crashes are not repeated. It takes seconds: Spark runs as few
        epochs as the order of the rows allows, and is started if `session` is None and none is active.
        """
        self._process_all()
        self._check_running()
        if any(operator.follows_clock for operator in self.program.operators):
            raise ConfigError(
                "the topology asks for ticks of the wall clock, or for windows that close after idleness by it; the clock cannot be moved on Spark: "
                "compare without them"
            )
        from streamkit.engine.runs.options import AVAILABLE_NOW
        from streamkit.launch.run import run

        name, clock = self.topology.name, HandClock(self._start_ms)
        reads_back = bool({source.topic for source in self.program.inputs} & {output.topic for output in self.program.outputs})
        with tempfile.TemporaryDirectory(prefix="streamkit-") as folder, open_log(folder, clock) as twin:
            twin.settings = replace(twin.settings, maintenance_interval_ms=0)

            def process(tasks: int, drain: bool) -> None:
                # In turn all in Spark's tasks, and small epochs in the driver's process, as in a query that goes on.
                is_first = twin.settings.local_epoch_records > 0
                twin.settings = replace(twin.settings, local_epoch_records=0 if is_first else Settings().local_epoch_records)
                before = -1
                while reads_back and (epochs := _epochs(twin, name)) > before:
                    run(self._tested, session, twin, tasks, AVAILABLE_NOW).wait()  # leaves to the next one what it has written
                    before = epochs
                if drain or not reads_back:
                    run(self._tested, session, twin, tasks, None if drain else AVAILABLE_NOW, drain=drain).wait()

            self._script.play(twin, clock, self._time_bounds, process)
            self._compare(twin)

    def _compare(self, twin: Log) -> None:
        """AssertionError with the first difference from the log of another run."""
        name = self.topology.name
        cut_dependent = {sink.topic for sink in self.topology.outputs if sink.child.traits.gives_newest}
        outputs = sorted({output.topic for output in self.program.outputs})
        differences = [
            *(topic_difference(topic, self._log, twin, newest_only=topic in cut_dependent) for topic in outputs),
            *(store_difference(name, view.store.name, self._log, twin) for view in open_views(self._log, name)),
        ]
        found = [difference for difference in differences if difference is not None]
        if found:
            raise AssertionError(found[0])

    def _time_bounds(self, piped: Piped) -> tuple[int, int]:
        """The least and the greatest event time of rows that were piped."""
        offsets = piped.receipt.result() or {}
        start = {partition: first for partition, (first, _) in offsets.items()}
        end = {partition: following for partition, (_, following) in offsets.items()}
        source = next((one for one in self.program.inputs if one.topic == piped.topic and one.event_time is not None), None)
        columns = [] if source is None or source.event_time is None else list(source.event_time.columns_read)
        rows = self._log.read(piped.topic, columns, partitions=list(offsets), start=start, end=end)
        if source is None:
            times = rows[TIMESTAMP].cast(pa.int64()).to_pylist()
        else:
            times = [time for batch in _with_deleted(rows).to_batches() for time in event_times(source, batch).tolist()]
        return min(times), max(times)


def _epochs(log: Log, application: str) -> int:
    """How many epochs an application has committed; 0 of one that has never started."""
    return next((state.epoch for state in log.catalog.applications.every() if state.name == application), 0)


def _told(epochs: Sequence[TracedEpoch]) -> str:
    """Epochs in words, for whoever reads why a test failed."""
    return "\n".join(["The last epochs of the test driver:", *(f"-- {one.text()}" for one in epochs)]) if epochs else ""


def _declared(topology: Topology, topics: Mapping[str, DeclaredTopic], log: Log | None, partitions: int) -> list[Topic]:
    """The topics that a driver makes: those given, else those of the log, else those that the sources describe."""
    there = () if log is None else log.topics()
    declared = {topic.name: created(topic, partitions) for topic in topology.added_topics if topic.name not in there}
    declared |= {name: _given(name, given, partitions) for name, given in topics.items()}
    written = {sink.topic for sink in topology.outputs}
    for source in sources_of(topology.roots):
        if source.topic in declared or (source.topic in written and source.topic not in there):
            continue  # what the topology itself writes is created as its start does it
        if log is not None:
            declared[source.topic] = log.topic(source.topic)
        elif source.decoding is not None:
            declared[source.topic] = declare_topic(source.topic, partitions=partitions, format=source.decoding.topic_format)
        elif source.schema is None:
            raise TopologyError(
                f"what the topic {source.topic!r} holds is unknown; expected schema= and key= where it is read, or "
                f'topics={{"{source.topic}": {{"schema": …, "key": …}}}}',
                source.at,
            )
        else:
            declared[source.topic] = declare_topic(source.topic, source.schema, source.key, None, partitions)
    outputs = [log.topic(sink.topic) for sink in topology.outputs if log is not None and sink.topic in there]
    return [*declared.values(), *(topic for topic in outputs if topic.name not in declared)]


def _given(name: str, given: DeclaredTopic, partitions: int) -> Topic:
    """The topic that the arguments of `log.create_topic` declare, or a schema alone."""
    if not isinstance(given, Mapping):
        return declare_topic(name, given, partitions=partitions)
    if not given.keys() & {"format", "format_schema", "format_settings"} or isinstance(given.get("format"), Format):
        return declare_topic(name, **{"partitions": partitions, **given})
    others = {argument: value for argument, value in given.items() if not argument.startswith("format")}
    opaque = declare_format(given.get("format"), given.get("format_schema"), given.get("format_settings"))
    register_schema(opaque)
    return declare_topic(name, **{"partitions": partitions, **others}, format=opaque)


def _checked_batching(batching: str | int | random.Random) -> str | random.Random:
    if isinstance(batching, random.Random):
        return batching
    if isinstance(batching, int) and not isinstance(batching, bool):
        return random.Random(batching)  # noqa: S311  not for secrets
    if batching in (EACH, ONE, ALL):
        return str(batching)
    raise ConfigError(f"batching={batching!r}; expected {EACH!r}, {ONE!r}, {ALL!r}, a seed or a random.Random")


def _moment_ms(moment: Moment) -> int:
    """A moment in milliseconds since 1970; UTC unless it has a zone."""
    if isinstance(moment, str):
        try:
            moment = dt.datetime.fromisoformat(moment.replace("Z", "+00:00"))
        except ValueError:
            raise ConfigError(f"found the time {moment!r}; expected ISO 8601 text such as '2013-01-01 05:00'") from None
    if isinstance(moment, dt.datetime) and moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.timezone.utc)
    return milliseconds(moment)


def _with_headers(rows: Any, headers: Mapping[str, bytes | str | None] | None) -> Any:
    """The rows as they are sent: dicts copied, each with the headers."""
    rows = [rows] if isinstance(rows, Mapping) else gathered(rows)
    is_python = isinstance(rows, Sequence)
    if headers is None:
        return [dict(row) if isinstance(row, Mapping) else row for row in rows] if is_python else rows
    if not is_python:
        raise ConfigError("headers= goes with dicts; expected a column _headers in a table or DataFrame")
    pairs = [(name, value.encode() if isinstance(value, str) else value) for name, value in headers.items()]
    return [{**row, HEADERS: pairs} if isinstance(row, Mapping) else row for row in rows]


def _stored(columns: Sequence[str]) -> list[str] | None:
    """The columns to ask a topic for; those of a record are there unasked."""
    return [name for name in columns if name not in (TIMESTAMP, PARTITION, OFFSET, DELETED)] if columns else None


def _with_deleted(table: pa.Table) -> pa.Table:
    return table if DELETED in table.column_names else table.append_column(DELETED, pa.repeat(False, table.num_rows))


def _dicts(log: Log, topic: str, table: pa.Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    rows = log.decode(topic, table)
    return [{name: row[name] for name in columns} for row in rows] if columns else rows
