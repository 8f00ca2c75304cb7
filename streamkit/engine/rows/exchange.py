"""
The exchange: rows leave by key and arrive at the task that owns their key group.

What travels is packed: (task int, edge int, payload binary), many rows in a payload, so that the JVM shuffles few fat rows. Beside
the rows travel control rows, so that every task hears of each epoch: the plan once, a report of every reader split, and a report
of every kernel attempt upstream. Between tasks of one process rows and control rows are the values themselves; what leaves the
process is encoded.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.engine.rows.payload import SentRows, batches_of, rows_in, sent_rows
from streamkit.engine.rows.rows import concatenate
from streamkit.expressions.core.accumulation import grouped_order
from streamkit.log.values.keys import key_groups as hash_key_groups
from streamkit.names import KEY_GROUP, OFFSET, PARTITION
from streamkit.plan.plain import from_plain, to_plain
from streamkit.state.key_group import tasks_of_key_groups

Value = TypeVar("Value")

CONTROL_EDGE = -1
NULL_KEY_MULTIPLIER = 0x9E3779B1  # spreads (partition, offset) over the key groups


@dataclass(frozen=True)
class Control:
    """A message to a task: a plan or a report, as it is, or plain if it came from another process."""

    kind: str
    value: Any

    def encode(self) -> bytes:
        """The message for another process."""
        return json.dumps({"kind": self.kind, "value": to_plain(self.value)}, sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes) -> Control:
        return cls(**json.loads(data))


class Packed(NamedTuple):
    """One row of the exchange."""

    task: int
    edge: int
    payload: bytes | pa.Buffer | SentRows | Control

    def encoded(self) -> Iterator[bytes | pa.Buffer]:
        """The payload in bytes; rows may be several pieces."""
        if isinstance(self.payload, SentRows):
            yield from self.payload.pieces()
        else:
            yield self.payload.encode() if isinstance(self.payload, Control) else self.payload


ArrivedMessages: TypeAlias = Iterable[tuple[int, pa.Buffer | SentRows | Control]]  # edge and payload


@dataclass
class Arrival:
    """What a kernel task received: payloads by edge, and control messages; `received` are the rows that were taken, by edge."""

    payloads: dict[int, list[pa.Buffer | SentRows]] = field(default_factory=dict)
    controls: list[Control] = field(default_factory=list)
    received: dict[int, int] = field(default_factory=dict)

    def rows(self, edge: int) -> pa.RecordBatch | None:
        """All rows of an edge as one batch, sorted by sender, so that the order of arrival does not matter; None if nothing came."""
        batches = batches_of(self.payloads.get(edge, []))
        if not batches:
            return None
        rows = concatenate(batches)
        self.received[edge] = rows.num_rows
        return rows

    def of_kind(self, kind: str, expected: type[Value]) -> list[Value]:
        """The messages of a kind, which are values of the class `expected`."""
        values = [control.value for control in self.controls if control.kind == kind]
        return [value if isinstance(value, expected) else from_plain(expected, value) for value in values]


def collect(rows: ArrivedMessages) -> Arrival:
    """Sort arriving (edge, payload) pairs."""
    arrival = Arrival()
    for edge, payload in rows:
        if edge == CONTROL_EDGE:
            assert not isinstance(payload, SentRows), "messages have an edge of their own"
            arrival.controls.append(payload if isinstance(payload, Control) else Control.decode(payload.to_pybytes()))
        else:
            arrival.payloads.setdefault(edge, []).append(payload)
    return arrival


def pack(
    batch: pa.RecordBatch, edge: int, groups: npt.NDArray[np.int32], tasks: int, key_groups: int, sender: int
) -> Iterator[Packed]:
    """The rows for the tasks that own their key groups; those of one task keep their order, also among senders."""
    if not batch.num_rows:
        return
    batch = batch.append_column(KEY_GROUP, pa.array(groups, pa.int32()))
    if tasks == 1:
        yield Packed(0, edge, sent_rows(batch, sender))
        return
    # By task alone: rows that were in canonical order still are, so their places compress well and need no sorting there.
    order, borders = grouped_order(tasks_of_key_groups(groups, tasks, key_groups), tasks)
    for task, (first, end) in enumerate(pairwise(borders)):
        if first < end:
            own = pc.take(batch, pa.array(order[first:end]), boundscheck=False)  # which are places of rows
            yield Packed(task, edge, sent_rows(own, sender))


def for_another_process(packed: Iterable[Packed]) -> Iterator[Packed]:
    """The same in bytes, which are made as they are asked for."""
    for one in packed:
        for payload in one.encoded():
            yield Packed(one.task, one.edge, payload)


def control(task: int, kind: str, value: Any) -> Packed:
    """One control message for one task."""
    return Packed(task, CONTROL_EDGE, Control(kind, value))


def groups_of(
    batch: pa.RecordBatch, key: tuple[str, ...], key_groups: int, null_keys_by: tuple[str, ...] = ()
) -> npt.NDArray[np.int32]:
    """The key group of each row; rows with a null key go by the columns `null_keys_by`, or spread by where they come from."""
    groups = hash_key_groups([batch[name] for name in key], key_groups) if key else np.full(batch.num_rows, -1, np.int32)
    missing = groups < 0
    if null_keys_by and missing.any():
        groups = np.where(missing, hash_key_groups([batch[name] for name in null_keys_by], key_groups), groups).astype(np.int32)
        missing = groups < 0
    if missing.any():
        groups = np.where(missing, _groups_of_null_keys(batch, key_groups), groups).astype(np.int32)
    return groups


def rows_sent(packed: Iterable[Packed]) -> tuple[tuple[int, int, int], ...]:
    """How many rows were packed, as (edge, task, rows)."""
    rows: Counter[tuple[int, int]] = Counter()
    for one in packed:
        if one.edge != CONTROL_EDGE:
            assert not isinstance(one.payload, Control), "messages have an edge of their own"
            rows[one.edge, one.task] += rows_in(one.payload)
    return tuple((edge, task, count) for (edge, task), count in sorted(rows.items()))


def fingerprint(packed: Iterable[Packed], in_process: bool = False) -> str:
    """A digest of what a task sent, equal for equal content; empty within a process, which has no other attempt to compare it with."""
    if in_process:
        return ""
    digest = sha256()  # processors have instructions for it: twice as fast as blake2b
    for row in packed:
        for data in row.encoded():
            digest.update(f"{row.task},{row.edge},".encode())
            digest.update(memoryview(data))
    return digest.hexdigest()


def _groups_of_null_keys(batch: pa.RecordBatch, key_groups: int) -> Integers:
    if PARTITION not in batch.schema.names:
        return np.zeros(batch.num_rows, np.int64)
    # By a hash of the source partition and the offset, so that another attempt sends a row to the same task (never round robin).
    partition = batch[PARTITION].to_numpy(zero_copy_only=False).astype(np.int64)
    offset = batch[OFFSET].to_numpy(zero_copy_only=False)
    groups: Integers = ((offset * 31 + partition) * NULL_KEY_MULTIPLIER & 0x7FFFFFFF) % key_groups
    return groups
