"""Which key groups, tasks and keys the newest changes of a store are about: where one of them has most, more tasks do not help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.expressions.core.groups import group
from streamkit.log.slab.extent import Extent
from streamkit.state.changelog import read_changes
from streamkit.state.key_group import tasks_of_key_groups
from streamkit.state.layout import layout_of
from streamkit.state.snapshot import StateSnapshot, find_store, snapshot_of_store
from streamkit.state.state_reader import OpenLog

CHANGES_MAX = 500_000  # so many of the newest are looked at
KEYS_SHOWN = 5
HOT = 4.0  # times as many changes as an even share, from which on a key group is called hot


@dataclass(frozen=True)
class HotKey:
    """A key, by the names of its columns, and its part of the changes."""

    key: dict[str, Any]
    key_group: int
    share: float


@dataclass(frozen=True)
class StoreLoad:
    """
    Where the newest changes of a store went: how many were looked at, and how many each key group and each task had of them.

    A change is a key in an epoch, so a key that comes often within one counts once.
    """

    application: str
    store: str
    changes: int
    by_key_group: tuple[int, ...]
    by_task: tuple[int, ...]
    hottest: tuple[HotKey, ...]

    @property
    def hot_key_groups(self) -> tuple[int, ...]:
        """The key groups with several times an even share, the hottest first."""
        counts = np.array(self.by_key_group)
        found = np.flatnonzero(counts > HOT * max(1, self.changes) / len(counts))
        return tuple(found[np.argsort(-counts[found], kind="stable")].tolist())

    @property
    def busiest_task(self) -> float:
        """How many times an even share the task with the most changes has; 1 where all have as many."""
        return max(self.by_task) * len(self.by_task) / self.changes if self.changes else 1.0


def load_of(log: OpenLog, application: str, store: str) -> StoreLoad:
    """The load of a store at its newest committed epoch; StoreNotFoundError lists the stores there are."""
    snapshot = log.catalog.read(lambda transaction: snapshot_of_store(transaction, application, store))
    found = find_store(snapshot.program, store)
    parts = list(_newest_keys(log, snapshot, snapshot.application.stores[store].changelog_topic_id))
    keys = pa.concat_arrays([pa.nulls(0, pa.binary()), *parts])
    layout = layout_of(found)
    groups, _, columns = layout.split(keys, [column.type for column in found.key])
    by_group = np.bincount(groups, minlength=snapshot.program.key_groups)
    owners = tasks_of_key_groups(np.arange(snapshot.program.key_groups), snapshot.application.tasks, snapshot.program.key_groups)
    by_task = np.bincount(owners, by_group, snapshot.application.tasks).astype(np.int64)
    return StoreLoad(
        application,
        store,
        len(keys),
        tuple(by_group.tolist()),
        tuple(by_task.tolist()),
        _hottest(found.key.names, groups, columns),
    )


def _newest_keys(log: OpenLog, snapshot: StateSnapshot, changelog_id: int) -> Iterator[pa.BinaryArray]:
    """The state keys of the newest changes of a changelog, over all its partitions back to about the same time."""
    share, left = snapshot.share(range(snapshot.program.key_groups)), CHANGES_MAX
    extents = [extent for extent in snapshot.changes.extents if extent.topic_id == changelog_id]
    for extent in sorted(extents, key=_recency, reverse=True):
        if left <= 0:
            return
        for keys, _, _ in read_changes(log.storage, [extent], extent.base_offset, share.prefixes):
            left -= len(keys)
            yield keys


def _recency(extent: Extent) -> tuple[int, int]:
    return extent.max_timestamp, extent.base_offset


def _hottest(names: tuple[str, ...] | list[str], groups: Integers, columns: list[pa.Array]) -> tuple[HotKey, ...]:
    """The keys with the most changes, most first."""
    if not len(groups):
        return ()
    found, keys = group([pa.array(groups), *columns], len(groups))
    counts = np.bincount(found.codes, minlength=found.size)[found.used]
    top = np.argsort(-counts, kind="stable")[:KEYS_SHOWN]
    key_groups, *values = (column.take(pa.array(top)).to_pylist() for column in keys)
    return tuple(
        HotKey(dict(zip(names, key, strict=True)), key_group, int(count) / len(groups))
        for key_group, key, count in zip(key_groups, zip(*values, strict=True), counts[top], strict=True)
    )
