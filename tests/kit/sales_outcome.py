"""What a run leaves behind, so that a run with crashes can be compared with one without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.planner import Planner
from streamkit.engine.runs.start import start
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.names import DELETED, SlabName, changelog_topic, store_folder
from streamkit.state.key_group import key_group_range
from streamkit.state.task_state import Share, open_state
from tests.kit import sales
from tests.kit.sampling import TAKES_ALL

Row = dict[str, Any]
Rows = Mapping[tuple[Any, ...], list[Row]]
Bytes = dict[bytes, bytes]
LAST_RECORDS = sales.EPOCH_RECORDS if TAKES_ALL else sales.RECORDS  # of an epoch of those that come to the end


@dataclass(frozen=True)
class Outcome:
    """
    All that must not depend on crashes, restarts, tasks and cuts.

    Records of `every` and `final` by key in their order; the newest records of `latest` topics; what changelogs fold to;
    the rows of the stores; what was read, how far stream time came, and what was counted on the way.
    """

    exact: dict[str, Rows]
    newest: dict[str, Rows]
    changelogs: Bytes
    stores: dict[str, list[Row]]
    positions: dict[int, dict[int, int]]
    stream_time_ms: int | None
    counts: dict[str, Any]


def outcome_of(log: Log) -> Outcome:
    state = log.catalog.applications.get(sales.APPLICATION)
    return Outcome(
        exact={topic: _by_key(log, topic) for topic in sales.EXACT_TOPICS},
        newest={topic: {key: rows[-1:] for key, rows in _by_key(log, topic).items()} for topic in sales.FOLDED_TOPICS},
        changelogs=folded_changelogs(log),
        stores=stores_of(log),
        positions=state.positions,
        stream_time_ms=state.stream_time_ms,
        counts={name: state.metrics.get(name) for name in ("records", "late", "null_key")},
    )


def _by_key(log: Log, topic: str) -> Rows:
    """Records by key, in the order of their partition, without offsets: those of other keys may lie between."""
    found = log.topic(topic)
    windows = [name for name in ("window_start",) if name in found.schema]
    by_key: dict[tuple[Any, ...], list[Row]] = {}
    for row in log.read(topic).drop_columns(["_offset"]).to_pylist():
        by_key.setdefault(tuple(row[name] for name in dict.fromkeys((*found.key, *windows))), []).append(row)
    return by_key


def stores_of(log: Log) -> dict[str, list[Row]]:
    """The rows of every store, as a view shows them."""
    return {store: _rows(log.store(sales.APPLICATION, store).to_arrow()) for store in sales.STORES}


def _rows(table: pa.Table) -> list[Row]:
    return sorted(table.to_pylist(), key=repr)


def folded_changelogs(log: Log, stores: Iterable[str] = sales.STORES) -> Bytes:
    """What the changelogs fold to, record by record; state keys name their store."""
    folded: Bytes = {}
    for store in stores:
        table = log.read(changelog_topic(sales.APPLICATION, store))
        deleted = table[DELETED].to_pylist() if DELETED in table.column_names else [False] * table.num_rows
        for key, value, gone in zip(table["key"].to_pylist(), table["value"].to_pylist(), deleted, strict=True):
            if gone:
                folded.pop(key, None)
            else:
                folded[key] = value
    return folded


def local_state(planner: Planner) -> Bytes:
    """Everything the tasks' own stores hold, opened as a kernel opens them."""
    application, program = planner.application, planner.program
    plan, _ = planner.plan(planner.committed_end(), planner.committed_end(), 1)
    found: Bytes = {}
    for stage in range(1, program.stages + 1):
        ids = tuple(application.stores[store.name].changelog_id for store in program.stores if store.stage == stage)
        for task in range(application.tasks):
            groups = key_group_range(task, application.tasks, application.key_groups)
            share = Share(groups, application.key_groups, application.changelog_partitions, ids)
            folder = Path(planner.storage.root) / store_folder(application.name, stage, task, application.tasks)
            state = open_state(planner.storage, folder, share, plan.changes)
            keys, values = state.scan([(b"", b"\xff\xfe")])
            state.close()
            assert all(int.from_bytes(key[:2], "big") in groups for key in keys.to_pylist())
            found |= dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    return found


def orphans_of(log: Log) -> set[SlabName]:
    """The application's slabs that the catalog does not name, not even in its trash."""
    state = log.catalog.applications.get(sales.APPLICATION)
    staged = set(log.storage.list(f"slabs/a{state.id}")) - log.catalog.manifest.referenced(f"a{state.id}")
    staged -= set(log.catalog.manifest.trash(1 << 62))
    return {name for path in staged if (name := SlabName.parse(path))}


def finish(folder: Path | str, *, tasks: int | None = None, records_max: int = LAST_RECORDS) -> Outcome:
    """Start again, run to the end of the backlog, check what must always hold, and return what came of it."""
    with open_log(folder) as log:
        planner = start(log.catalog, log.storage, sales.load_program(), tasks=tasks, records_max=records_max)
        assert orphans_of(log) == set(), "what dead generations staged was not collected"
        run_available(planner)
        check(log)
        found = outcome_of(log)
        assert local_state(planner) == found.changelogs
        return found


def check(log: Log) -> None:
    """Offsets are dense, and every slab that the catalog names is there."""
    assert log.catalog.manifest.check() == ()
    assert [path for path in log.catalog.manifest.slabs() if not log.storage.exists(path)] == []


def visible(log: Log) -> dict[str, Any]:
    """Everything an epoch moves, as a client sees it."""
    state = log.catalog.applications.get(sales.APPLICATION)
    ends = {topic: log.end_offsets(topic) for topic in log.topics(internal=True)}
    standing = (state.epoch, state.token, state.stream_time_ms, state.positions, state.metrics)
    return {
        "ends": ends,
        "standing": standing,
        "epochs": log.catalog.epochs.last(state.id),
        "slabs": log.catalog.manifest.referenced(f"a{state.id}"),
    }
