"""A global table: a compacted topic read whole, up to a position that the epoch's plan fixes, and from then on what came since."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.rows.rows import concatenate, empty_rows, last_of_each
from streamkit.engine.stage.registry import run_alone
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import read_frame
from streamkit.log.storage.storage import Storage
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED
from streamkit.plan.operator import Operator
from streamkit.plan.operators.decode import Decode
from streamkit.plan.program import Input
from streamkit.state.changelog import extents_by_place
from streamkit.state.key_index import NOWHERE, KeyIndex

TABLES_KEPT = 16  # of all applications in a process
SUPERSEDED_MAX = 1 << 18  # so many rows are read before only the newest of each key is kept, or as many as there are keys
CHANGES_PART = 8  # changes are laid into the table once they are more than an eighth of it,
CHANGES_MIN = 4096  # and more than so many

Extents = Mapping[tuple[int, int], Sequence[Extent]]


@dataclass(frozen=True, eq=False)
class KeyedRows:
    """The newest row of each key, and an index of the keys as bytes, in the same order."""

    rows: pa.RecordBatch
    key: tuple[str, ...]
    index: KeyIndex

    @classmethod
    def of(cls, rows: pa.RecordBatch, key: tuple[str, ...]) -> KeyedRows:
        """Rows whose keys are distinct."""
        return cls(rows, key, KeyIndex(encode_keys([rows[name] for name in key])))

    def find(self, columns: Sequence[pa.Array]) -> Integers:
        """For each row of these columns the position of the one with that key; -1 where there is none."""
        wanted, keys = columns[0], self.rows[self.key[0]]
        is_simple = (
            len(columns) == 1 and wanted.type == keys.type and (pa.types.is_integer(keys.type) or pa.types.is_string(keys.type))
        )
        if is_simple and self.rows.num_rows <= len(wanted) and not wanted.null_count:
            # Arrow makes a table of the keys for each call: of few keys that is faster than to make bytes of all rows.
            places: Integers = pc.index_in(wanted, keys).fill_null(NOWHERE).to_numpy(zero_copy_only=False).astype(np.int64)
            return places
        return self.index.find(encode_keys(columns))


@dataclass(frozen=True, eq=False)
class GlobalTableRows:
    """
    The rows of the topic as of some extents, and the changes that came since, deletions among them.

    `storage`, `source`, `steps` and `key` say how it is read: its key is that behind the steps.
    """

    storage: Storage
    source: Input
    steps: tuple[Operator, ...]
    key: tuple[str, ...]
    extents: Extents
    whole: KeyedRows
    changes: KeyedRows | None = None

    @classmethod
    def read(
        cls,
        storage: Storage,
        source: Input,
        extents: Sequence[Extent],
        steps: tuple[Operator, ...],
        key: tuple[str, ...],
        application: str = "",
    ) -> GlobalTableRows:
        """
        The table as of the end of these extents, after the steps, by its key behind them.

        One version is kept for each application. Where it is of the first of these extents, only those behind it are read; where extents
        were merged or dropped since, or the plan is older, the topic is read whole. What an older plan reads is not kept.
        """
        name, wanted = (application, storage, source, steps, key), extents_by_place(extents)
        with _lock:
            kept = _kept.pop(name, None)
            try:
                found = _whole(storage, source, steps, key, wanted) if kept is None else kept._as_of(wanted)
                if kept is None or not _is_start(wanted, kept.extents):
                    kept = found
            finally:
                if kept is not None:
                    _kept[name] = kept
            if len(_kept) > TABLES_KEPT:
                _kept.popitem(last=False)
        return found

    def match(self, columns: Sequence[pa.Array]) -> tuple[pa.RecordBatch, Integers]:
        """Rows, and for each row of these columns the position among them of the one with that key; -1 where there is none."""
        places = self.whole.find(columns)
        if self.changes is None:
            return self.whole.rows, places
        changed = self.changes.find(columns)
        is_changed = changed != NOWHERE
        if not is_changed.any():
            return self.whole.rows, places
        is_old, is_new = (places != NOWHERE) & ~is_changed, is_changed.copy()
        is_new[is_changed] = ~_deletions(self.changes.rows.take(pa.array(changed[is_changed])))
        parts = [self.whole.rows.take(pa.array(places[is_old])), self.changes.rows.take(pa.array(changed[is_new]))]
        found = np.full(len(places), NOWHERE, np.int64)
        found[is_old] = np.arange(parts[0].num_rows)
        found[is_new] = parts[0].num_rows + np.arange(parts[1].num_rows)
        return concatenate(parts), found

    def _as_of(self, wanted: Extents) -> GlobalTableRows:
        if not _is_start(self.extents, wanted) or not all(_keeps_keys_apart(step) for step in self.steps):
            return _whole(self.storage, self.source, self.steps, self.key, wanted)
        added = [extent for place, found in wanted.items() for extent in found[len(self.extents.get(place, ())) :]]
        if not added:
            return self
        fresh = _stepped(_newest_of(self.storage, self.source, added), self.steps)
        rows = fresh if self.changes is None else _newest(concatenate([self.changes.rows, fresh]), self.key)
        table = replace(self, extents=wanted, changes=KeyedRows.of(rows, self.key))
        return table._settled() if rows.num_rows > CHANGES_MIN + self.whole.rows.num_rows // CHANGES_PART else table

    def _settled(self) -> GlobalTableRows:
        """The same table with its changes laid into it."""
        assert self.changes is not None
        replaced = self.whole.index.find(self.changes.index.keys)
        is_left = np.ones(self.whole.rows.num_rows, bool)
        is_left[replaced[replaced != NOWHERE]] = False
        live = self.changes.rows.filter(pa.array(~_deletions(self.changes.rows)))
        rows = concatenate([self.whole.rows.filter(pa.array(is_left)), live])
        return replace(self, whole=KeyedRows.of(rows, self.key), changes=None)


_kept: OrderedDict[Hashable, GlobalTableRows] = OrderedDict()
_lock = Lock()  # tasks in threads wait for the one that reads


def _whole(
    storage: Storage, source: Input, steps: tuple[Operator, ...], key: tuple[str, ...], extents: Extents
) -> GlobalTableRows:
    found = [extent for _, part in sorted(extents.items()) for extent in part]
    rows = _stepped(_newest_of(storage, source, found), steps)
    live = rows.filter(pa.array(~_deletions(rows)))
    return GlobalTableRows(storage, source, steps, key, extents, KeyedRows.of(live, key))


def _newest_of(storage: Storage, source: Input, extents: Sequence[Extent]) -> pa.RecordBatch:
    """The newest row of each key in these extents, with deletions; rows that are superseded do not pile up."""
    found, waiting, kept = [empty_rows(source.schema, DELETED)], 0, 0
    for extent in extents:
        found.append(_frame_rows(storage, source, extent))
        waiting += found[-1].num_rows
        if waiting > max(SUPERSEDED_MAX, kept):
            found, waiting = [_newest(concatenate(found), source.key)], 0
            kept = found[0].num_rows
    return _newest(concatenate(found), source.key)


def _newest(rows: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    """The last row of each key."""
    places = last_of_each(encode_keys([rows[name] for name in key]))
    return rows if len(places) == rows.num_rows else rows.take(pa.array(places))


def _stepped(rows: pa.RecordBatch, steps: Sequence[Operator]) -> pa.RecordBatch:
    for step in steps:
        rows = run_alone(step, rows)
    return rows


def _deletions(rows: pa.RecordBatch) -> Mask:
    deletions: Mask = pc.fill_null(rows[DELETED], False).to_numpy(zero_copy_only=False)
    return deletions


def _is_start(first: Extents, whole: Extents) -> bool:
    """Whether each partition begins with the extents that it has in `first`; not if these were merged, compacted or dropped."""
    return all(list(whole.get(place, ()))[: len(part)] == list(part) for place, part in first.items())


def _keeps_keys_apart(step: Operator) -> bool:
    """Whether two keys of the topic are two keys behind a step; not so where two texts are one value, as in JSON."""
    return not isinstance(step, Decode) or step.keys.name in ("string", "bytes")


def _frame_rows(storage: Storage, source: Input, extent: Extent) -> pa.RecordBatch:
    batch = read_frame(storage, extent, [*source.schema.names, DELETED], source)
    deleted = batch[DELETED] if DELETED in batch.schema.names else pa.array(np.zeros(batch.num_rows, bool))
    columns = [batch[name] for name in source.schema.names]
    return pa.RecordBatch.from_arrays([*columns, deleted], names=[*source.schema.names, DELETED])
