"""A scan of a store: what each task gets by plan, since tasks never open the catalog (law 2), and how it reads that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from streamkit.errors import CorruptionError
from streamkit.log.log import Log
from streamkit.log.storage.inline_storage import storage_with
from streamkit.log.values.keys import key_groups
from streamkit.plan.earlier_program import read_program
from streamkit.query.store_filters import StoreFilters
from streamkit.recast import recast
from streamkit.spark.dataframe.options import StoreOptions
from streamkit.spark.dataframe.store_table import asked_schema, store_condition
from streamkit.spark.task_storage import StoragePlace, place_of, task_storage
from streamkit.state.changelog import CommittedChanges
from streamkit.state.format import is_earlier
from streamkit.state.snapshot import StateSnapshot, find_store, snapshot_of_store
from streamkit.state.state_reader import warn_once
from streamkit.state.stored_rows import StoredRows, WantedRows
from streamkit.state.task_state import Share, StoreAheadError, TaskState, read_changelogs, read_state, told_unread

if TYPE_CHECKING:
    from streamkit.expressions.analysis.row_condition import RowCondition

ATTEMPTS = 5


@dataclass(frozen=True)
class StoreScan:
    """A store of a program (as JSON), and what of it is read in which form."""

    place: StoragePlace
    program: str
    store: str
    number: int
    is_earlier: bool
    schema: pa.Schema
    wanted: WantedRows
    condition: RowCondition | None

    def stored(self) -> StoredRows:
        program = read_program(self.program)
        return StoredRows(program, find_store(program, self.store), self.number, self.is_earlier)


class StorePartition(InputPartition):
    """What one task reads: rows of these key groups, or these keys, from a task's share of the state, and the bytes of slabs that are no files."""

    def __init__(
        self,
        scan: StoreScan,
        share: Share,
        groups: range,
        keys: pa.BinaryArray | None,
        folder: Path,
        changes: CommittedChanges,
        inline: Mapping[str, bytes],
    ) -> None:
        super().__init__(None)
        self.scan = scan
        self.share = share
        self.groups = groups
        self.keys = keys
        self.folder = folder
        self.changes = changes
        self.inline = inline

    def __repr__(self) -> str:
        found = "" if self.keys is None else f", {len(self.keys)} keys"
        return f"StorePartition({self.scan.store}, key groups {self.groups.start} to {self.groups.stop - 1}{found})"


def plan_store_scan(log: Log, options: StoreOptions, schema: StructType) -> list[StorePartition]:
    """The tasks that read a store as of the newest epoch, as far as `where` leaves anything of it."""
    for left in reversed(range(ATTEMPTS)):
        log.storage_now()
        found = log.catalog.read(lambda transaction: snapshot_of_store(transaction, options.application, options.store))
        try:
            return list(_planned(log, found, options, schema))
        except FileNotFoundError:  # maintenance has moved what was found a moment ago into a file
            if not left:
                raise
    raise AssertionError("the last attempt returns or raises")


def _planned(log: Log, found: StateSnapshot, options: StoreOptions, schema: StructType) -> Iterator[StorePartition]:
    store, application = find_store(found.program, options.store), found.application
    stored = StoredRows(found.program, store, application.stores[store.name].number, is_earlier(application))
    form = asked_schema(f"{options.application}/{options.store}", stored.schema, schema)
    condition = store_condition(stored.schema, options.where)
    filters = StoreFilters() if condition is None else StoreFilters.of(condition)
    scan = StoreScan(
        place_of(log),
        json.dumps(found.program.to_json()),
        store.name,
        stored.number,
        stored.is_earlier,
        form,
        filters.wanted(stored),
        condition,
    )
    keys = filters.keys(stored)
    whole = filters.whole_key(stored) if keys is None else keys
    of_keys = None if whole is None else key_groups(whole, found.program.key_groups).astype(np.int64)
    for task in range(application.tasks):
        groups = found.groups(task)
        own_keys = None
        if of_keys is not None and whole is not None:
            own = np.flatnonzero((of_keys >= groups.start) & (of_keys < groups.stop))
            if not len(own):
                continue
            taken = pa.array(own)
            groups = range(int(of_keys[own].min()), int(of_keys[own].max()) + 1)
            if keys is not None:
                own_keys = stored.layout.keys(stored.number, of_keys[own], [column.take(taken) for column in whole]).unique()
        share = found.share(found.groups(task))
        share = share if scan.store in found.program.unlogged else share.logged  # what the others have lost does not matter
        places = set(share.places)
        extents = tuple(one for one in found.changes.extents if (one.topic_id, one.partition) in places)
        inline = log.storage.bytes_of(extent.path for extent in extents)
        folder = found.folder(log.local_root, task)
        yield StorePartition(scan, share, groups, own_keys, folder, replace(found.changes, extents=extents), inline)


def read_store_scan(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """
    The rows of a task's part, key group by key group.

    The local store is read if it is on this host, at that epoch or one before it; else the changelogs.
    """
    if not isinstance(partition, StorePartition):  # Spark's own, where the scan has no tasks
        return
    scan, share, changes = partition.scan, partition.share, partition.changes
    storage = storage_with(task_storage(scan.place), partition.inline)
    stored = scan.stored()

    def from_changelogs() -> TaskState:
        return read_changelogs(storage, replace(share, groups=partition.groups), changes)

    def opened() -> TaskState:
        try:
            return read_state(storage, partition.folder, share, changes)
        except StoreAheadError:  # the application has moved it on since
            return from_changelogs()

    yield from _read(stored, partition, opened, from_changelogs)


def _read(
    stored: StoredRows, partition: StorePartition, opened: Callable[[], TaskState], from_changelogs: Callable[[], TaskState]
) -> Iterator[pa.RecordBatch]:
    """One batch a key group; from where the local store turns out to be damaged, by the changelogs."""
    places: list[range | None] = [None] if partition.keys is not None else [range(at, at + 1) for at in partition.groups]
    state = opened()
    try:
        for groups in places:
            try:
                rows = _rows(stored, state, partition, groups)
            except CorruptionError as error:
                warn_once(told_unread(error, partition.share, partition.changes))
                state.close()
                state = from_changelogs()
                rows = _rows(stored, state, partition, groups)
            if partition.scan.condition is not None:
                rows = partition.scan.condition.kept(rows)
            if rows.num_rows:
                yield _cast(rows, partition.scan.schema)
    finally:
        with closing(state):
            pass


def _rows(stored: StoredRows, state: TaskState, partition: StorePartition, groups: Sequence[int] | None) -> pa.RecordBatch:
    if groups is None:
        assert partition.keys is not None, "either keys or key groups are read"
        values = state.get(partition.keys)
        return stored.rows(partition.keys.filter(values.is_valid()), values.drop_null())
    keys, values = state.scan(stored.ranges(groups, partition.scan.wanted))
    mask = stored.is_wanted(keys, partition.scan.wanted)
    return stored.rows(keys, values) if mask is None else stored.rows(keys.filter(mask), values.filter(mask))


def _cast(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [recast(rows[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
