"""
The figures of a log for Prometheus: its applications, topics, groups and connectors, whether they run or not.

All of them come from the catalog, in one look. Counters of an application count from its first start, so they go on over restarts; a reset
lets them begin at 0 again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from streamkit.connectors.runtime.status import FAILED, RUNNING, read_status
from streamkit.description.applications import is_running, rows_in_stores, steps_of
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.epoch_buckets import EPOCH_SECONDS, LATENCY, OLDEST_SECONDS, SUM, cumulative
from streamkit.log.input_lag import input_partitions
from streamkit.log.log import Log
from streamkit.log.statistics import statistics_of
from streamkit.state.restoring import restoring_now

PREFIX = "streamkit_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DROPPED = (
    "late",
    "null_key",
    "error",
    "expired",
    "deletion",
    "not_found",
    "overflow",
    "emitted_early",
    "duplicate",
    "before_1970",
)


def metrics_text(log: Log) -> bytes:
    """Everything, in Prometheus' text form."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_LogCollector(log))
    return generate_latest(registry)


def metric_names() -> frozenset[str]:
    """The names under which samples come, for boards and alerts that refer to them."""
    suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
    return frozenset(family.name + suffix for family in _Families().every() for suffix in suffixes[family.type])


@final
class _Families:
    """The families of one look, by their names without the prefix."""

    def __init__(self) -> None:
        app, step = ("application",), ("application", "step")
        self.application_info = _gauge("application_info", "An application; always 1", (*app, "generation", "tasks"))
        self.application_up = _gauge(
            "application_up", "Whether a driver of the application has been heard of in the last minute", app
        )
        self.epochs = _counter("epochs", "Committed epochs", app)
        self.last_commit = _gauge("last_commit_timestamp_seconds", "When the newest epoch was planned, since 1970", app)
        self.input_records = _counter("input_records", "Records read, by input topic", (*app, "topic"))
        self.input_lag = _gauge("input_lag_records", "Records that wait for the application", (*app, "topic", "partition"))
        self.input_lag_seconds = _gauge("input_lag_seconds", "How long the oldest record that waits has waited", (*app, "topic"))
        self.input_missing = _gauge("input_missing", "Whether a topic that the application reads does not exist", (*app, "topic"))
        self.step_rows_in = _counter("step_rows_in", "Rows that a step took", step)
        self.step_rows_out = _counter("step_rows_out", "Rows that a step gave", step)
        self.step_busy = _counter("step_busy_seconds", "Time in which a step was at work, of all tasks together", step)
        self.dropped = _counter("dropped_records", "Rows that a step left out, by reason", (*step, "reason"))
        self.epoch_seconds = _histogram("epoch_seconds", "How long the phases of epochs took", (*app, "phase"))
        self.oldest = _histogram(
            "epoch_oldest_record_seconds", "How old the oldest record of an epoch was at its commit", (*app, "since")
        )
        self.latency = SummaryMetricFamily(
            f"{PREFIX}record_latency_seconds", "How old records were at the commit", labels=(*app, "since")
        )
        self.stream_time = _gauge("stream_time_seconds", "Stream time, since 1970", app)
        self.store_rows = _gauge("store_rows", "Rows in a store; of a large table about so many", (*app, "store"))
        self.store_changes = _counter("store_changes", "Changes of a store", (*app, "store"))
        self.changelog_records = _gauge("store_changelog_records", "Records in the changelog of a store", (*app, "store"))
        self.changelog_bytes = _gauge("store_changelog_bytes", "Bytes in the changelog of a store", (*app, "store"))
        self.restore_remaining = _gauge("restore_remaining_records", "Changes that stores being restored still lack", app)
        self.output_records = _counter("output_records", "Rows written, by output topic", (*app, "topic"))
        self.topic_records = _gauge("topic_records", "Records in a topic", ("topic",))
        self.topic_bytes = _gauge("topic_bytes", "Bytes of a topic", ("topic",))
        self.topic_end_offset = _gauge("topic_end_offset", "The next offset of a partition", ("topic", "partition"))
        self.group_lag = _gauge("group_lag_records", "Records that wait for a consumer group", ("group", "topic"))
        self.group_members = _gauge("group_members", "Members of a consumer group", ("group",))
        self.connector_up = _gauge("connector_task_up", "Whether a task of a connector runs", ("connector", "task"))
        self.connector_failed = _gauge("connector_task_failed", "Whether a task of a connector has failed", ("connector", "task"))
        self.trash_files = _gauge("log_trash_files", "Files that wait to be deleted", ())

    def every(self) -> Iterator[Metric]:
        """All of them."""
        yield from vars(self).values()


def _gauge(name: str, text: str, labels: Iterable[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, text, labels=tuple(labels))


def _counter(name: str, text: str, labels: Iterable[str]) -> CounterMetricFamily:
    return CounterMetricFamily(PREFIX + name, text, labels=tuple(labels))


def _histogram(name: str, text: str, labels: Iterable[str]) -> HistogramMetricFamily:
    return HistogramMetricFamily(PREFIX + name, text, labels=tuple(labels))


@final
class _LogCollector(Collector):
    """Takes one look when it is asked."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def collect(self) -> Iterator[Metric]:
        families = _Families()
        for state in self._log.catalog.applications.every():
            _application(self._log, state, families)
        _topics(self._log, families)
        _connectors(self._log, families)
        yield from families.every()


def _application(log: Log, state: ApplicationState, families: _Families) -> None:
    name, totals = state.name, state.metrics
    families.application_info.add_metric((name, str(state.generation), str(state.tasks)), 1)
    families.application_up.add_metric((name,), float(is_running(log, state)))
    families.epochs.add_metric((name,), state.epoch)
    if last := log.catalog.epochs.last(state.id, 1):
        families.last_commit.add_metric((name,), last[0].timestamp_ms / 1000)
    if state.stream_time_ms is not None:
        families.stream_time.add_metric((name,), state.stream_time_ms / 1000)
    for family, metric in (
        (families.input_records, "read"),
        (families.output_records, "written"),
        (families.store_changes, "changes"),
    ):
        for label, count in totals.get(metric, {}).items():
            family.add_metric((name, label), count)
    for store, rows in rows_in_stores(state).items():
        families.store_rows.add_metric((name, store), rows)
    _lag(log, state, families)
    _steps(log, state, families)
    _times(name, totals, families)
    families.restore_remaining.add_metric(
        (name,), sum(one.changes_total - one.changes for one in restoring_now(log.storage.root, name))
    )


def _lag(log: Log, state: ApplicationState, families: _Families) -> None:
    """What waits for an application, by partition, and since when; and the topics that it needs and that are gone."""
    now_ms, since = log.clock.now_ms(), dict[str, list[int]]()
    for one in input_partitions(log, state):
        families.input_lag.add_metric((state.name, one.topic, str(one.partition)), one.lag)
        waiting = log.catalog.manifest.waiting_since_ms(one.topic_id, one.partition, one.next_offset) if one.lag else []
        since.setdefault(one.topic, []).extend(waiting)
    for topic, times in since.items():
        families.input_lag_seconds.add_metric((state.name, topic), max(0.0, (now_ms - min(times)) / 1000) if times else 0.0)
        families.input_missing.add_metric((state.name, topic), 0)
    for topic in log.catalog.applications.current_inputs(state).missing:
        families.input_missing.add_metric((state.name, topic), 1)


def _steps(log: Log, state: ApplicationState, families: _Families) -> None:
    for step in steps_of(log, state):
        labels = (state.name, step.step)
        families.step_rows_in.add_metric(labels, step.rows_in)
        families.step_rows_out.add_metric(labels, step.rows_out)
        families.step_busy.add_metric(labels, step.busy_us / 1e6)
        for reason in DROPPED:
            if reason in step.counts:
                families.dropped.add_metric((*labels, reason), step.counts[reason])


def _times(application: str, totals: Mapping[str, Any], families: _Families) -> None:
    for family, metric in ((families.epoch_seconds, EPOCH_SECONDS), (families.oldest, OLDEST_SECONDS)):
        for label, buckets in totals.get(metric, {}).items():
            family.add_metric((application, label), cumulative(buckets), buckets[SUM])
    for since, latency in totals.get(LATENCY, {}).items():
        families.latency.add_metric((application, since), latency["records"], latency[SUM])


def _topics(log: Log, families: _Families) -> None:
    found = statistics_of(log)
    stores = {
        store.changelog_topic_id: (state.name, store.name)
        for state in log.catalog.applications.every()
        for store in state.stores.values()
    }
    names = {topic.name: topic.id for topic in log.catalog.topics.every()}
    for topic in found.topics:
        if (store := stores.get(names.get(topic.topic, -1))) is not None:
            families.changelog_records.add_metric(store, topic.total("records"))
            families.changelog_bytes.add_metric(store, topic.total("bytes"))
        elif not topic.internal:
            families.topic_records.add_metric((topic.topic,), topic.total("records"))
            families.topic_bytes.add_metric((topic.topic,), topic.total("bytes"))
            for partition in topic.partitions:
                families.topic_end_offset.add_metric((topic.topic, str(partition.partition)), partition.end_offset)
    for group in found.groups:
        families.group_members.add_metric((group.group,), group.members)
        for name, lag in group.lag.items():
            families.group_lag.add_metric((group.group, name), lag)
    families.trash_files.add_metric((), found.trash_files)


def _connectors(log: Log, families: _Families) -> None:
    for task in read_status(log):
        labels = (task.connector, str(task.task))
        families.connector_up.add_metric(labels, float(task.state == RUNNING))
        families.connector_failed.add_metric(labels, float(task.state == FAILED))
