"""The place of rows in the canonical order."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.engine.rows.place import (
    BEFORE_RECORD,
    BEHIND_RECORD,
    OPERATORS,
    as_moved,
    at_epoch_end,
    canonical_order,
    in_canonical_order,
    paths_of,
    place_ranks,
)
from streamkit.engine.rows.rows import RECORD_FIELDS, concatenate, rows_of
from streamkit.log.values import byte_order
from streamkit.names import DELETED, DUE, INPUT, OFFSET, ORDER, ORDER_COLUMNS, PARTITION, PATH
from tests.kit.sampling import examples

places = st.lists(st.tuples(*[st.integers(0, 2)] * 4, st.sampled_from([b"", b"a", b"b"])), max_size=20)


def batch_of(rows, names=(*ORDER_COLUMNS, PATH)):
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return rows_of({name: pa.array(values, RECORD_FIELDS[name]) for name, values in zip(names, columns, strict=False)})


@given(places)
def test_rows_sort_by_order_input_partition_offset_and_path(rows):
    """Each column decides only where those before it are equal; rows at one place stay as they stand."""
    order = canonical_order(batch_of(rows)).tolist()

    assert order == sorted(range(len(rows)), key=lambda row: rows[row])


def test_negative_times_and_inputs_sort_as_numbers():
    """Times before 1970, results without a record, and high offsets stand where their numbers say."""
    rows = [(-5, 0, 0, 0), (-7, 1, 3, 2**40), (3, -1, 0, 0), (3, 0, 0, -1), (3, 0, 0, 0), (3, OPERATORS, 0, 0)]
    batch = batch_of(rows[::-1], ORDER_COLUMNS)

    assert [rows[::-1][row] for row in canonical_order(batch)] == sorted(rows)
    assert in_canonical_order(batch_of(sorted(rows), ORDER_COLUMNS)).equals(batch_of(sorted(rows), ORDER_COLUMNS))


def test_newest_results_stand_behind_every_input():
    """Results of an epoch's end come after the last record of any input, by operator, and by path within one."""
    records = batch_of([(9, 0, 0, 5, b""), (9, OPERATORS - 1, 2**31 - 1, 2**62, b"zzz")])
    late, early = (
        rows_of(at_epoch_end(9, number, pa.array(paths, pa.binary()))) for number, paths in ((7, [b"b", b"a"]), (3, [b"z"]))
    )
    both = concatenate([late, early, records])

    assert [row[PATH] for row in both.take(pa.array(canonical_order(both))).to_pylist()] == [b"", b"zzz", b"z", b"a", b"b"]


def test_final_results_stand_just_before_the_record_that_closed_them():
    """One offset earlier is behind the record before it, and before the record itself, in whatever partition."""
    closing = (100, 2, 1, 8)
    before, result, other = (90, 2, 1, 7), (100, 2, 1, 7), (100, 2, 0, 50)

    assert sorted([closing, result, before, other]) == [before, other, result, closing]
    batch = batch_of([closing, result, before, other], ORDER_COLUMNS)
    assert canonical_order(batch).tolist() == [2, 3, 1, 0]


PATHS = st.lists(
    st.tuples(st.sampled_from([b"\0\0", b"\0\7", b"\0\x20", b"\xff\xff"]), st.booleans(), st.binary(min_size=1, max_size=1))
)


@given(PATHS, st.integers(1, 40))
def test_an_exchange_changes_no_order(rows, number):
    """Final results, rows of a record, updates that were held back, and what a schedule calls: none passes another on its way to another key."""
    paths = [first + own for first, _, own in rows]
    brought = [9 if is_brought or first in (BEFORE_RECORD, BEHIND_RECORD) else None for first, is_brought, _ in rows]
    batch = batch_of([(9, 0, 0, 5, path, due) for path, due in zip(paths, brought, strict=True)], (*ORDER_COLUMNS, PATH, DUE))

    moved = as_moved(batch, number)[PATH].to_pylist()
    assert sorted(range(len(rows)), key=lambda row: paths[row]) == sorted(range(len(rows)), key=lambda row: moved[row])
    assert {path for path, before in zip(moved, paths, strict=True) if path == before} <= {
        path for path in paths if path[:2] in (BEFORE_RECORD, BEHIND_RECORD)
    }


KEYS = st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**62), 2**62), st.text(max_size=4), st.integers(-9, 9)), min_size=1)


@examples(100, share=6)
@given(KEYS)
def test_paths_sort_by_operator_window_and_key(rows):
    """Bytes of a path compare as (operator, window, key values) do, whatever the lengths of keys and the signs of numbers."""
    paths = [
        paths_of(number, np.array([window], np.int64), [pa.array([name]), pa.array([value], pa.int64())])[0].as_py()
        for number, window, name, value in rows
    ]

    in_order = sorted(range(len(rows)), key=lambda row: paths[row])
    wanted = sorted(range(len(rows)), key=lambda row: (rows[row][0], rows[row][1], rows[row][2].encode(), rows[row][3]))
    assert [rows[row] for row in in_order] == [rows[row] for row in wanted]


@examples(100, share=6)
@given(places, places)
def test_ranks_are_equal_for_equal_places_and_grow_with_them(left, right):
    """The numbers of places of two batches compare as the places do, also where one of them has no paths."""
    ranks = np.concatenate(place_ranks(batch_of(left), batch_of(right)))
    rows = [*left, *right]
    assert all((ranks[a] < ranks[b]) == (rows[a] < rows[b]) for a in range(len(rows)) for b in range(len(rows)))

    plain = [row[:4] for row in right]
    ranks = np.concatenate(place_ranks(batch_of(left), batch_of(plain, ORDER_COLUMNS)))
    rows = [*left, *((*row, b"") for row in plain)]
    assert all((ranks[a] < ranks[b]) == (rows[a] < rows[b]) for a in range(len(rows)) for b in range(len(rows)))


def test_record_columns_that_only_some_rows_have_are_filled_in():
    """Beside rows with a path, a due moment and a mark of deletion, others have the empty path, no due moment, and no mark."""
    plain = rows_of(
        {**{name: pa.array([4], RECORD_FIELDS[name]) for name in (OFFSET, PARTITION, INPUT, ORDER)}, "v": pa.array([1])}
    )
    special = rows_of(
        {
            "v": pa.array([2]),
            **{name: pa.array([5], RECORD_FIELDS[name]) for name in ORDER_COLUMNS},
            DUE: pa.array([3], pa.int64()),
            PATH: pa.array([b"p"]),
            DELETED: pa.array([True]),
        }
    )

    for batches in ([plain, special], [special, plain]):
        rows = sorted(concatenate(batches).to_pylist(), key=lambda row: row["v"])
        assert [(row[PATH], row[DUE], row[DELETED]) for row in rows] == [(b"", None, False), (b"p", 3, True)]


@pytest.mark.parametrize("longest", [0, 3, 40])
def test_many_rows_have_the_ranks_of_their_places(longest):
    """Above the bound for rows places are ranked as numbers: with negative times and inputs, far times, and paths of any length."""
    for seed in range(5):
        chance = Random(seed)
        times, paths = (
            [-(2**50), -1, 0, 7, 1_700_000_000_000],
            [chance.randbytes(chance.randrange(longest + 1)) for _ in range(9)],
        )
        rows = [
            (chance.choice(times), chance.choice([-1, 0, 3]), chance.randrange(3), chance.randrange(2), chance.choice(paths))
            for _ in range(byte_order.ROWS_MIN + 50)
        ]
        found = place_ranks(batch_of(rows[:100]), batch_of(rows[100:]))
        assert [len(ranks) for ranks in found] == [100, len(rows) - 100]
        wanted = {place: rank for rank, place in enumerate(sorted(set(rows)))}
        assert np.concatenate(found).tolist() == [wanted[row] for row in rows]
