"""
A record in a changelog that its application did not write: found once something cannot be read, so that reading costs nothing more.

A changelog is read as bytes, and an operator decodes keys and values later, of many records at once. So its error knows no offset. Where one
fails, the changelogs of its stage are read again, frame by frame, and the first record that is none of its store is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamkit.arrays import AnyArray
from streamkit.errors import CorruptionError, EvaluationError, FormatVersionError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import read_rows
from streamkit.log.storage.storage import Storage
from streamkit.names import DELETED, changelog_topic
from streamkit.plan.program import ProgramStore
from streamkit.state.changelog import CommittedChanges, PlanFile
from streamkit.state.key_group import changelog_partitions_of
from streamkit.state.layout import LISTED, decode_lists, layout_of
from streamkit.state.row import decode_rows

UNREADABLE = (CorruptionError, FormatVersionError, ValueError, LookupError, OverflowError, pa.ArrowException)


@dataclass(frozen=True)
class KeptStore:
    """A store of an application: its number, its changelog, and into how many key groups and partitions these are divided."""

    application: str
    store: ProgramStore
    number: int
    changelog_id: int
    key_groups: int
    partitions: int


def check_changelogs(storage: Storage, changes: CommittedChanges, kept: Sequence[KeptStore], groups: range) -> None:
    """
    CorruptionError that names the first record of these stores' changelogs, in these key groups, which is none of its store.

    Nothing if all are, or if files are gone meanwhile.
    """
    with suppress(FileNotFoundError):
        extents = tuple(_extents(storage, changes))
        for one in kept:
            partitions = changelog_partitions_of(groups, one.key_groups, one.partitions)
            for extent in extents:
                if extent.topic_id == one.changelog_id and extent.partition in partitions:
                    _check(storage, extent, one)


def is_of_state(error: BaseException) -> bool:
    """Whether an error may come from stored bytes that are none of their store; also one that came through a user's processor."""
    if isinstance(error, EvaluationError):
        return isinstance(error.__cause__, CorruptionError | FormatVersionError)
    return isinstance(error, UNREADABLE)


def _extents(storage: Storage, changes: CommittedChanges) -> Iterator[Extent]:
    for path in changes.plan_files:
        yield from PlanFile.read(storage, path).extents
    yield from changes.extents


def _check(storage: Storage, extent: Extent, kept: KeptStore) -> None:
    rows, offsets = read_rows(storage, extent, extent.base_offset, extent.next_offset)
    if _reason(rows, extent.partition, kept) is None:
        return
    for row in range(rows.num_rows):
        if (reason := _reason(rows.slice(row, 1), extent.partition, kept)) is not None:
            raise _error(kept, extent.partition, int(offsets[row]), reason)


def _reason(rows: pa.RecordBatch, partition: int, kept: KeptStore) -> str | None:
    """Why some of these records are none of the store; None if all may be."""
    layout, store = layout_of(kept.store), kept.store
    try:
        groups, times, _ = layout.split(rows["key"], [column.type for column in store.key])
        numbers = np.array([int.from_bytes(key[2:4], "big") for key in rows["key"].to_pylist()], np.int64)  # of stores
        listed = np.zeros(rows.num_rows, bool) if not layout.has_lists else times[0] == LISTED
        live = rows["value"].is_valid().to_numpy(zero_copy_only=False) & ~_deletions(rows)
        decode_rows(rows["value"].filter(pa.array(live & ~listed)), ["bigint", *(column.type for column in store.value)])
        if listed.any():
            decode_lists(rows["value"].filter(pa.array(live & listed)))
    except UNREADABLE as error:
        return str(error)
    return _wrong_place(groups, numbers, partition, kept)


def _wrong_place(groups: AnyArray, numbers: AnyArray, partition: int, kept: KeptStore) -> str | None:
    if (numbers != kept.number).any():
        return f"found a key of the store with number {numbers[numbers != kept.number][0]}; expected {kept.number}"
    own = groups * kept.partitions // kept.key_groups
    if (own != partition).any():
        return f"found a key of the key group {groups[own != partition][0]}, whose changes are in another partition"
    return None


def _deletions(rows: pa.RecordBatch) -> AnyArray:
    if DELETED not in rows.schema.names:
        return np.zeros(rows.num_rows, bool)
    found: AnyArray = rows[DELETED].fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _error(kept: KeptStore, partition: int, offset: int, reason: str) -> CorruptionError:
    name, application = kept.store.name, kept.application
    topic = changelog_topic(application, name)
    return CorruptionError(
        f"topic {topic}, partition {partition}, offset {offset}: the record does not belong to the store {name!r} of the application {application!r}: "
        f"{reason}. Expected records that the application wrote; another program wrote this one. Start from scratch with `streamkit apps reset "
        f"{application}`, or restore a backup of the log; or give the step that keeps it another store (store=… or name=…), and delete this one by "
        f"app.drop_store({name!r})",
        topic,
        partition,
        offset,
        offset + 1,
    )
