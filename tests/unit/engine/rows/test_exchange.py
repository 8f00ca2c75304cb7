"""Rows on their way from task to task."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from streamkit.engine.rows.exchange import Packed, collect, for_another_process, groups_of, pack
from streamkit.engine.rows.rows import rows_of
from streamkit.log.slab.dictionary import ROWS_MIN, encoded_if_repeated
from streamkit.names import INPUT, KEY_GROUP, OFFSET, ORDER, PARTITION, TIMESTAMP
from streamkit.state.key_group import key_group_range, task_of_key_group, tasks_of_key_groups

ROWS, KEYS, KEY_GROUPS, EDGE = 4 * ROWS_MIN, 100, 128, 3
PLACE = {INPUT: pa.int16(), PARTITION: pa.int32(), OFFSET: pa.int64()}


def rows_from(sender: int, has_place: bool) -> pa.RecordBatch:
    """Rows in canonical order, of few keys and with times that jump to either end."""
    numbers = np.arange(ROWS, dtype=np.int64)
    keys = pa.array([f"user{(7 * row + sender) % KEYS}" for row in range(ROWS)])
    times = np.where(numbers % 1000 == 999, 2**63 - 1, np.where(numbers % 1000 == 998, -(2**63), numbers))
    columns = {"k": encoded_if_repeated(keys), "v": pa.array(numbers * 0.5), TIMESTAMP: pa.array(times)}
    place = {ORDER: pa.array(numbers // 3), **{name: pa.array(np.full(ROWS, sender), kind) for name, kind in PLACE.items()}}
    return rows_of({**columns, **place, OFFSET: pa.array(numbers)} if has_place else columns)


@pytest.mark.parametrize("has_place", [True, False], ids=["placed", "without a place"])
@pytest.mark.parametrize("tasks", [1, 3])
def test_rows_arrive_as_they_were_in_the_order_of_their_senders(tasks, has_place):
    """Each task gets the rows of its key groups, with all columns, sender by sender and in the order in which these had them."""
    sent = [rows_from(sender, has_place) for sender in (0, 1)]
    packed: list[Packed] = []
    for sender, batch in enumerate(sent):
        packed += pack(batch, EDGE, groups_of(batch, ("k",), KEY_GROUPS), tasks, KEY_GROUPS, sender)
    random.Random(1).shuffle(packed)
    for task in range(tasks):
        own = [row for row in packed if row.task == task]
        owned = key_group_range(task, tasks, KEY_GROUPS)
        expected = [
            {**row, KEY_GROUP: group}
            for batch in sent
            for row, group in zip(batch.to_pylist(), groups_of(batch, ("k",), KEY_GROUPS).tolist())
            if group in owned
        ]
        for encoded in range(len(own) + 1):  # so many came from another process
            rows = [*for_another_process(own[:encoded]), *own[encoded:]]
            random.Random(encoded).shuffle(rows)
            arrived = collect(
                (row.edge, pa.py_buffer(row.payload) if isinstance(row.payload, bytes) else row.payload) for row in rows
            )
            found = arrived.rows(EDGE)
            assert found is not None
            assert found.to_pylist() == expected
            assert arrived.received == {EDGE: len(expected)}


@pytest.mark.parametrize(("tasks", "key_groups"), [(1, 1), (3, 128), (7, 100), (128, 128)])
def test_tasks_of_many_key_groups_are_those_of_each(tasks, key_groups):
    """The owners of many key groups are those that own each alone."""
    groups = np.arange(key_groups)[::-1]
    assert tasks_of_key_groups(groups, tasks, key_groups).tolist() == [
        task_of_key_group(one, tasks, key_groups) for one in groups
    ]
