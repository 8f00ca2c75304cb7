"""Layouts: bytes as before, round trips, order, and ranges by time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.config import KEY_GROUPS_MAX
from streamkit.errors import CorruptionError
from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.plan.program import ProgramStore
from streamkit.schema import Schema
from streamkit.state import verification
from streamkit.state.key import state_keys
from streamkit.state.layout import LAYOUTS, LISTED, KeyLayout, layout_of
from streamkit.state.rocksdb import POSITION_KEY
from tests.kit.sampling import examples

NUMBER = 7
ALL = [*LAYOUTS.values(), KeyLayout("behind", after=1), KeyLayout("both", before=1, after=2)]
TIMES = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-1, 0, 1, 60_000])
ROWS = st.lists(st.tuples(st.integers(0, 2), st.text("\0ab", max_size=2), st.lists(TIMES, min_size=3, max_size=3)), max_size=8)
Row = tuple[int, str, list[int]]


def keys_of(layout: KeyLayout, rows: list[Row], number: int = NUMBER) -> pa.BinaryArray:
    times = [np.array([row[2][place] for row in rows], np.int64) for place in range(layout.before + layout.after)]
    return layout.keys(
        number, np.array([row[0] for row in rows], np.int32), [pa.array([row[1] for row in rows], pa.string())], times
    )


@pytest.mark.parametrize("layout", ALL, ids=lambda layout: layout.name)
def test_keys_come_back_and_are_in_order(layout: KeyLayout) -> None:
    """Splitting gives what was joined; bytes are in the order of group, times before, key and times behind."""

    @examples(100, share=6)
    @given(ROWS)
    def holds(rows: list[Row]) -> None:
        keys = keys_of(layout, rows)
        groups, times, (texts,) = layout.split(keys, ["string"])
        count = layout.before + layout.after
        assert list(zip(groups.tolist(), texts.to_pylist(), [list(one) for one in zip(*times)] or [[]] * len(rows))) == [
            (group, text, times[:count]) for group, text, times in rows
        ]
        order = [(group, times[: layout.before], text, times[layout.before : count]) for group, text, times in rows]
        encoded = keys.to_pylist()
        assert sorted(range(len(rows)), key=order.__getitem__) == sorted(range(len(rows)), key=encoded.__getitem__)

    holds()


@pytest.mark.parametrize("layout", [layout for layout in ALL if layout.before], ids=lambda layout: layout.name)
def test_a_range_holds_the_keys_of_its_times(layout: KeyLayout) -> None:
    """A range of times holds the keys of the store with a first time in it, and no others; lists of windows are in none."""

    @examples(100, share=6)
    @given(ROWS, st.none() | TIMES, st.none() | TIMES)
    def holds(rows: list[Row], first: int | None, last: int | None) -> None:
        own, others = keys_of(layout, rows).to_pylist(), keys_of(layout, rows, NUMBER + 1).to_pylist()
        for group, (start, end) in zip(range(3), layout.ranges(NUMBER, range(3), first, last), strict=True):
            found = [(first is None or row[2][0] >= first) and (last is None or row[2][0] < last) for row in rows]
            found = [is_in and not (layout.has_lists and row[2][0] == LISTED) for is_in, row in zip(found, rows)]
            assert [start <= key < end for key in own] == [row[0] == group and is_in for row, is_in in zip(rows, found)]
            assert not any(start <= key < end for key in others)

    holds()


def test_the_last_store_has_an_end() -> None:
    """The range of the greatest store number ends before the next key group."""
    assert LAYOUTS["key"].ranges(65_535, [1, 65_534]) == [
        (bytes.fromhex("0001ffff"), bytes.fromhex("00020000")),
        (bytes.fromhex("fffeffff"), bytes.fromhex("ffff0000")),
    ]


def test_the_deep_check_looks_at_every_key_group() -> None:
    """All keys that a store may have are compared, and its position, which is none, is not."""
    start, end = verification.EVERYTHING
    last = KEY_GROUPS_MAX - 1
    keys = [LAYOUTS["key"].keys(65_535, np.array([group]), [pa.array(["\U0010ffff" * 9])])[0].as_py() for group in (0, last)]
    assert all(start <= key < end for key in keys)
    assert not start <= POSITION_KEY < end


def test_bytes_are_those_of_before() -> None:
    """What is on disk is read and written as it was: the key alone, and the start of the window before it."""
    groups, columns, starts = np.array([1, 2]), [pa.array(["a", "b"])], np.array([60_000, -1])
    assert LAYOUTS["key"].keys(NUMBER, groups, columns) == state_keys(NUMBER, groups, columns)
    assert LAYOUTS["window"].keys(NUMBER, groups, columns, [starts]) == state_keys(NUMBER, groups, columns, starts)
    assert LAYOUTS["window"].keys(3, np.array([65_535]), [pa.array([True])], [np.array([60_000])]).to_pylist() == [
        bytes.fromhex("ffff 0003 800000000000ea60 01 01")
    ]


def test_a_view_shows_where_windows_start_and_end() -> None:
    """The end of a window is its start and the size of the store's windows; a plain key shows no times."""
    shown = LAYOUTS["window"].shown((np.array([0, 60_000]),), 60_000)
    assert {name: column.cast(pa.int64()).to_pylist() for name, column in shown.items()} == {
        WINDOW_START: [0, 60_000_000],
        WINDOW_END: [60_000_000, 120_000_000],
    }
    assert LAYOUTS["key"].shown(()) == {}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_store_names_its_layout(name: str) -> None:
    """The program says how the keys of a store are made."""
    store = ProgramStore("s", 0, 1, Schema.parse("k string"), Schema.parse("n int"), layout=name)
    assert layout_of(store) is LAYOUTS[name]


def test_what_does_not_fit_a_layout_is_refused() -> None:
    """Times that are missing, a range of times where keys are not in their order, and bytes that are too short."""
    groups, columns = np.array([1]), [pa.array(["a"])]
    with pytest.raises(ValueError, match="found 0 times; expected 1 in a key of layout 'window'"):
        LAYOUTS["window"].keys(NUMBER, groups, columns)
    with pytest.raises(ValueError, match="not in the order of times"):
        LAYOUTS["key"].ranges(NUMBER, [1], first=0)
    with pytest.raises(CorruptionError, match="found a state key of 8 bytes; expected at least the 12"):
        LAYOUTS["window"].split(LAYOUTS["key"].keys(NUMBER, groups, columns), ["string"])
