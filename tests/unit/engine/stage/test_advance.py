"""Which record moves stream time past the moment at which a window closes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamkit.engine.epoch.epoch import Application, EpochEnd, EpochPlan, Slice
from streamkit.engine.epoch.stream_time import of_input
from streamkit.engine.stage.advance import Advances, decode_reached, final_place
from streamkit.engine.stage.context import Context
from streamkit.log.storage.storage import MemoryStorage
from streamkit.names import DUE, INPUT, OFFSET, ORDER, PARTITION
from streamkit.plan.operators.aggregate import Aggregate, ColumnFold
from streamkit.plan.program import Program
from streamkit.plan.windows import Windowing
from streamkit.state.changelog import CommittedChanges
from tests.kit.sampling import examples

TOPICS = (11, 12)


def aggregate(name, window, modes=("final",)):
    return Aggregate(name, 1, ("x",), (("k",),), window.store, ColumnFold(()), modes, window, True)


def program_of(*operators):
    return Program("app", (), operators, (), (), (), 1)


def context_of(program, before=None):
    application = Application(1, "app", 1, 1, 128, 16, 1, TOPICS, {}, ())
    ends = [EpochEnd(number, {}, before or {}) for number in (1, 2)]
    return Context(
        program, EpochPlan(application, ends[0], ends[1], 1, CommittedChanges(0, "", {}, {}, (), {}), {}, {}), MemoryStorage()
    )


def piece(number, partition):
    return Slice(number, "t", partition, 0, 0, 0, ())


def report(program, lanes, before=None):
    """What one reader says of these (input, partition, order keys, offsets)."""
    advances = Advances(program)
    for number, partition, keys, offsets in lanes:
        advances.take(
            piece(number, partition), np.array(keys, np.int64), np.array(offsets, np.int64), context_of(program, before)
        )
    return advances.reached()


def place_of(operator, due, reports):
    columns = final_place(operator, np.array([due], np.int64), reports)
    return tuple(columns[name][0].as_py() for name in (ORDER, INPUT, PARTITION, OFFSET, DUE))


WINDOW = Windowing(10, 10, 5, (0,), "w")
ONE = aggregate("one", WINDOW)

lane = st.lists(st.integers(0, 120), min_size=1, max_size=15).map(lambda times: np.maximum.accumulate(times).tolist())


@examples(100)
@given(st.lists(lane, min_size=1, max_size=3), st.data())
def test_the_earliest_record_of_all_is_taken_whatever_the_splits(lanes, data):
    """For every window that closes, the place is one offset before the first record, in canonical order, that passes its moment."""
    program = program_of(ONE)
    pieces = []
    for partition, keys in enumerate(lanes):
        border = data.draw(st.integers(0, len(keys)))
        offsets = list(range(len(keys)))
        pieces += [(0, partition, keys[:border], offsets[:border]), (0, partition, keys[border:], offsets[border:])]
    chosen = [data.draw(st.integers(0, 1)) for _ in pieces]
    reports = [report(program, [one for one, split in zip(pieces, chosen, strict=True) if split == number]) for number in (0, 1)]
    records = sorted((key, 0, partition, offset) for partition, keys in enumerate(lanes) for offset, key in enumerate(keys))
    for start in range(0, 120, 10):
        due = start + 15
        passing = [record for record in records if record[0] >= due]
        if passing:
            key, number, partition, offset = passing[0]
            assert place_of(ONE, due, reports) == (key, number, partition, offset - 1, due)


def test_a_report_that_comes_twice_says_no_more() -> None:
    """The same reader heard twice, of one record or of several, is the reader heard once."""
    for keys in ([30], [30, 70]):
        heard = report(program_of(ONE), [(0, 0, keys, range(len(keys)))])
        assert place_of(ONE, 15, [heard, heard]) == place_of(ONE, 15, [heard])


def test_operators_close_apart():
    """Operators with other windows, or fed by other inputs, have their own records; an operator without final results has none."""
    slow = aggregate("slow", Windowing(40, 40, 0, (0,), "s"))
    other = aggregate("other", Windowing(10, 10, 0, (1,), "o"))
    newest = aggregate("newest", Windowing(10, 10, 0, (0, 1), "n"), ("latest",))
    program = program_of(ONE, slow, other, newest)
    reports = [report(program, [(0, 0, [5, 20, 50], [0, 1, 2]), (1, 3, [30], [9])])]

    assert {name for found in reports for name, _ in found} == {"one", "slow", "other"}
    assert place_of(ONE, 15, reports) == (20, 0, 0, 0, 15)
    assert place_of(slow, 40, reports) == (50, 0, 0, 1, 40)
    assert place_of(other, 10, reports) == (30, 1, 3, 8, 10)


def test_hopping_windows_close_at_each_step():
    """The number of the last closed window grows by one with each advance, also before 1970."""
    window = Windowing(10, 4, 1, (0,), "w")

    assert window.closed(np.array([-12, 10, 11, 14, 15])).tolist() == [-6, -1, 0, 0, 1]


def test_what_had_closed_before_is_not_reported():
    """Records that do not move the time which the operator's inputs had committed close nothing."""
    before = {of_input(TOPICS[0]): 50}

    assert report(program_of(ONE), [(0, 0, [50, 50], [0, 1])], before) == ()
    ((_, found),) = report(program_of(ONE), [(0, 0, [50, 51], [0, 1])], before)
    assert decode_reached(found)[:, 2:].tolist() == [[0, 0, 1]]


def test_without_a_record_results_stand_at_their_moment():
    """In the epoch that ends a drain no record closes windows: results stand where they were due, before any record there."""
    order, number, *_, due = place_of(ONE, 15, [(), ()])

    assert (order, due) == (15, 15)
    assert number < 0
