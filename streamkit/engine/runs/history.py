"""The last epochs of an application as a table: what each took, how long, and how far behind its records were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from streamkit.engine.epoch.row_counting import rows_after_each
from streamkit.engine.runs.epoch_report import TASK_MS, TOOK_MS
from streamkit.engine.stage.context import READ, WRITTEN
from streamkit.log.catalog import applications
from streamkit.log.catalog import epochs as catalog_epochs
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.epochs import LAG, LATENCY_MS, EpochRecord
from streamkit.log.database.database import Transaction

BY_NAME = pa.map_(pa.string(), pa.int64())
COLUMNS = pa.schema(
    [
        ("epoch", pa.int64()),
        ("generation", pa.int64()),
        ("time", pa.timestamp("ms", tz="UTC")),
        ("committed_at", pa.timestamp("ms", tz="UTC")),
        ("stream_time", pa.timestamp("ms", tz="UTC")),
        ("records", pa.int64()),
        ("restored", pa.int64()),
        ("late", pa.int64()),
        ("read", BY_NAME),
        ("written", BY_NAME),
        ("lag", BY_NAME),
        ("store_rows", BY_NAME),
        ("plan_ms", pa.float64()),
        ("tasks_ms", pa.float64()),
        ("commit_ms", pa.float64()),
        ("slowest_task_ms", pa.float64()),
        ("mean_task_ms", pa.float64()),
        ("oldest_since_arrival_ms", pa.float64()),
        ("mean_since_arrival_ms", pa.float64()),
        ("oldest_since_event_ms", pa.float64()),
        ("mean_since_event_ms", pa.float64()),
    ]
)


def history_of(catalog: Catalog, application: str, last: int) -> pa.Table:
    """
    The last epochs of an application, read at one moment: one row an epoch, oldest first, with the columns of `COLUMNS`; null where an epoch says nothing.

    `time` is that of the epoch, by which it was planned; `committed_at` is when others could first see it. How long
    the commit of an epoch took is told by the next one, so the newest has none, nor has one behind which another process went on.

    ConfigError if there is no such application.
    """
    state, epochs = catalog.read(partial(_read, application=application, last=last))
    following: list[EpochRecord | None] = [*epochs[1:], None][: len(epochs)]
    changelog_ids = {store.name: store.changelog_topic_id for store in state.stores.values()}
    store_rows = rows_after_each(epochs, state.epoch, state.metrics, changelog_ids)
    rows = [
        _row(epoch, after) | {"store_rows": list(counted.items())}
        for epoch, after, counted in zip(epochs, following, store_rows, strict=True)
    ]
    return pa.Table.from_pylist(rows, COLUMNS)


def _read(transaction: Transaction, application: str, last: int) -> tuple[ApplicationState, Sequence[EpochRecord]]:
    state = applications.get(transaction, application)
    return state, catalog_epochs.last(transaction, state.id, last)


def _row(epoch: EpochRecord, after: EpochRecord | None) -> dict[str, Any]:
    metrics, took, by_task = epoch.metrics, epoch.metrics.get(TOOK_MS, {}), epoch.metrics.get(TASK_MS, {})
    since: Mapping[str, Mapping[str, float]] = metrics.get(LATENCY_MS, {})
    is_next = after is not None and after.epoch == epoch.epoch + 1
    return {
        "epoch": epoch.epoch,
        "generation": epoch.generation,
        "time": epoch.timestamp_ms,
        "committed_at": epoch.committed_ms,
        "stream_time": epoch.stream_time_ms,
        "records": metrics.get("records"),
        "restored": metrics.get("restored"),
        "late": sum(metrics.get("late", {}).values()),
        **{name: list(metrics.get(name, {}).items()) for name in (READ, WRITTEN, LAG)},
        "plan_ms": took.get("plan"),
        "tasks_ms": took.get("tasks"),
        "commit_ms": after.metrics.get(TOOK_MS, {}).get("commit_before") if after is not None and is_next else None,
        "slowest_task_ms": by_task.get("slowest"),
        "mean_task_ms": by_task.get("mean"),
        **{
            f"{which}_since_{what}_ms": since.get(what, {}).get(which)
            for what in ("arrival", "event")
            for which in ("oldest", "mean")
        },
    }
