"""Windows that rows fall into, one by one and by pane."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit import functions as F
from streamkit.config import Settings
from streamkit.engine.epoch.epoch import Application, EpochEnd, EpochPlan
from streamkit.engine.epoch.stream_time import NO_TIME, of_input
from streamkit.engine.folding.windows import assign_windows
from streamkit.engine.operators import fold as fold_kernel
from streamkit.engine.rows.place import have_own_records
from streamkit.engine.rows.rows import rows_of, with_columns
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.engine.stage.context import Context
from streamkit.log.storage.storage import MemoryStorage
from streamkit.names import INPUT, OFFSET, ORDER, PARTITION, PATH, TIMESTAMP, WINDOW
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.plan.operators.fold import Fold
from streamkit.plan.program import Program
from streamkit.plan.windows import Windowing
from streamkit.state.changelog import CommittedChanges
from streamkit.state.stores import MemoryStores
from tests.kit.engine_run import append, fresh_log, metric, values
from tests.kit.sampling import examples

V = TypedExpression("column", "bigint", (), "v")
AGGREGATES = (
    TypedAggregate("n", "count", "bigint", None),
    TypedAggregate("total", "sum", "bigint", V),
    TypedAggregate("least", "min", "bigint", V),
    TypedAggregate("most", "max", "bigint", V),
)


def context_of(stream_time_ms: int | None) -> Context:
    """A reader's context whose input had committed this stream time."""
    times = {} if stream_time_ms is None else {of_input(1): stream_time_ms}
    application = Application(1, "app", 1, 1, 128, 16, 1, (1,), {}, ())
    ends = [EpochEnd(number, {}, times) for number in (1, 2)]
    plan = EpochPlan(application, ends[0], ends[1], 1, CommittedChanges(0, "", {}, {}, (), {}), {}, {})
    return Context(Program("app", (), (), (), (), (), 1), plan, MemoryStorage())


def batch_of(rows: list[tuple[str, int, int, int]]) -> pa.RecordBatch:
    """Rows of (key, value, event time, order key)."""
    keys, numbers, times, orders = zip(*rows, strict=True) if rows else ((), (), (), ())
    return rows_of(
        {
            "k": pa.array(keys, pa.string()),
            "v": pa.array(numbers, pa.int64()),
            TIMESTAMP: pa.array(times, pa.int64()),
            ORDER: pa.array(orders, pa.int64()),
        }
    )


@st.composite
def windowings(draw: st.DrawFn) -> Windowing:
    size = draw(st.integers(1, 60))
    return Windowing(size, draw(st.integers(max(1, size // 25), size)), draw(st.integers(0, 30)), (0,), "w")


@st.composite
def rows_in_order(draw: st.DrawFn) -> list[tuple[str, int, int, int]]:
    """Rows as readers have them: order keys never fall, and are never before event times."""
    rows, reached = [], -(2**63)
    for time in draw(st.lists(st.integers(-150, 150), max_size=25)):
        reached = max(reached, time)
        rows.append((draw(st.sampled_from("ab")), draw(st.integers(-5, 5)), time, reached))
    return rows


def by_definition(
    window: Windowing, rows: list[tuple[str, int, int, int]], before: int | None
) -> tuple[dict[tuple[str, int], list[int]], Counter[str]]:
    """The values in each window that is open at the row's place, and what is counted, from the definition of windows."""
    found: dict[tuple[str, int], list[int]] = {}
    counts: Counter[str] = Counter()
    for key, value, time, order in rows:
        now = order if before is None else max(order, before)
        starts = [one for one in range(time - window.size_ms + 1, time + 1) if one % window.advance_ms == 0]
        held = [one for one in starts if not one < 0 < one + window.size_ms]
        counts["before_1970"] += not held
        for first in held:
            if first + window.size_ms + window.grace_ms <= now:
                counts["late"] += 1
            else:
                found.setdefault((key, first), []).append(value)
    return found, +counts


def counted(context: Context) -> Counter[str]:
    return +Counter({name: count for (name, _), count in context.counts.items()})


@examples(100)
@given(windowings(), rows_in_order(), st.none() | st.integers(-100, 200))
def test_rows_fall_into_the_windows_that_hold_them_and_are_open(window, rows, before):
    """A row is once in each window that holds its time, crosses no 1970 and has not closed; the others are counted."""
    context = context_of(before)
    operator = Fold("op", 0, ("x",), ("k",), AGGREGATES, window)
    found = assign_windows(operator, window, batch_of(rows), context).to_pylist()
    expected, counts = by_definition(window, rows, before)

    groups: dict[tuple[str, int], list[int]] = {}
    for row in found:
        groups.setdefault((row["k"], row[WINDOW]), []).append(row["v"])
    assert {group: sorted(values) for group, values in groups.items()} == {
        group: sorted(values) for group, values in expected.items()
    }
    assert counted(context) == counts


@examples(100)
@given(windowings(), rows_in_order())
def test_rows_in_order_are_in_order_in_their_windows(window, rows):
    """Records that come in canonical order are in it once each is a row for each of its windows, and need not be sorted again."""
    batch = batch_of(rows)
    origin = {
        INPUT: pa.array(np.zeros(batch.num_rows, np.int16)),
        PARTITION: pa.array(np.zeros(batch.num_rows, np.int32)),
        OFFSET: pa.array(np.arange(batch.num_rows)),
    }
    placed = with_columns(batch, origin)
    assert have_own_records(placed)
    operator = Fold("op", 0, ("x",), ("k",), AGGREGATES, window)
    found = assign_windows(operator, window, placed, context_of(None)).to_pylist()
    assert found == sorted(found, key=lambda row: (row[ORDER], row[OFFSET], row.get(PATH, b"")))


@pytest.mark.parametrize("panes_min", [1, 10**6], ids=["by pane", "by row"])
@examples(100)
@given(windowings(), rows_in_order(), st.none() | st.integers(-100, 200))
def test_folds_by_pane_and_by_row_give_what_windows_hold(panes_min, window, rows, before):
    """For any size and advance, late rows and times before 1970, both ways of folding give the same states and counts."""
    context = context_of(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_kernel, "PANES_MIN", panes_min)
        patch.setattr(fold_kernel, "WINDOW_ROWS", 40)  # so that panes, and rows that are late for some windows, come in parts
        folded = fold_kernel.fold_rows(Fold("op", 0, ("x",), ("k",), AGGREGATES, window), (batch_of(rows),), context)
    assert isinstance(folded, pa.RecordBatch)
    expected, counts = by_definition(window, rows, before)

    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in folded.to_pylist():
        groups.setdefault((row["k"], row[WINDOW]), []).append(row)
    names = {name.partition(".")[0]: name for name in folded.schema.names if name.endswith((".count", ".min", ".max"))}
    assert set(groups) == set(expected)
    for group, numbers in expected.items():
        states = groups[group]
        assert sum(state[names["n"]] for state in states) == len(numbers)
        assert sum(state["total.sum"] for state in states) == sum(numbers)
        assert min(state[names["least"]] for state in states) == min(numbers)
        assert max(state[names["most"]] for state in states) == max(numbers)
    assert counted(context) == counts


def test_panes_are_put_into_windows_key_by_key():
    """A window of a key is sent once for each part that holds panes of the key, however many parts there are: memory grows with windows."""
    keys, panes, parts = 20, 400, 10
    window = Windowing(1_600, 10, 0, (0,), "store")
    rows = [(f"k{pane % keys:02}", 1, 10_000 + 10 * pane, 10_000 + 10 * pane) for pane in range(panes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_kernel, "WINDOW_ROWS", panes // parts * window.per_record)
        fold = Fold("op", 0, ("x",), ("k",), AGGREGATES, window)
        folded = fold_kernel.fold_rows(fold, (batch_of(rows),), context_of(None))
    assert isinstance(folded, pa.RecordBatch)
    windows = {(row["k"], row[WINDOW]) for row in folded.to_pylist()}
    assert len(windows) == keys * (window.per_record + panes - keys)
    assert folded.num_rows <= len(windows) + parts * window.per_record


def run(window, mode, times, *, settings=None, records_max=None):
    """What is emitted for records at these times, the epochs' sizes, and how many records no window held."""
    with fresh_log() as log:
        log.create_topic("in", "k string, v bigint", key="k", partitions=1)
        append(log, "in", [{"k": "ab"[number % 2], "v": number, "ts": time} for number, time in enumerate(times)])
        app = sk.Topology("app")
        app.stream("in").group_by_key().windowed_by(window).agg(n=F.count("*"), total=F.sum("v")).emit(mode).to("out")
        planner = start(log.catalog, log.storage, compile(app, log), records_max=records_max, settings=settings)
        epochs = [claim.end.records for claim in run_available(planner, drain=mode == "final", stores=MemoryStores())]
        found = values(log, "out", "k", "window_start", "window_end", "n", "total")
        return found, epochs, metric(log, "app", "before_1970")


@pytest.mark.parametrize("mode", ["latest", "every", "final"])
def test_no_window_crosses_1970(mode):
    """A hopping window that would begin before 1970 and end after it does not exist; windows that touch it do."""
    found, *_ = run(sk.hopping("10 ms", "5 ms", grace="1 s"), mode, [-12, -5, 3])

    assert {row[1] for row in found} == {-20, -15, -10, 0}


@pytest.mark.parametrize("mode", ["latest", "every", "final"])
def test_a_record_in_no_window_is_counted(mode):
    """Where size is no multiple of the advance, a record near 1970 may be in no window at all: it is counted as before_1970."""
    _, _, lost = run(sk.hopping("10 ms", "7 ms", grace="1 s"), mode, [-4, -1, 3, 20])

    assert lost == 2


def test_an_epoch_with_every_result_takes_as_many_records_as_windows_allow():
    """Every result over 360 windows a record: an epoch takes 360 times fewer records, and the results are those of one epoch."""
    window = sk.hopping("1 hour", "10 seconds", grace="0 s")
    times = [3_600_000 + number * 1000 for number in range(25)]
    whole, epochs, _ = run(window, "every", times)
    parts, small, _ = run(window, "every", times, settings=Settings(max_rows_per_epoch=360 * 7 + 359))

    assert (epochs, small) == ([25], [7, 7, 7, 4])
    assert parts == whole
    assert len(whole) == len(times) * 360


@pytest.mark.parametrize("mode", ["latest", "final"])
def test_an_epoch_that_folds_takes_all_records(mode):
    """Where panes are folded, windows a record make an epoch no smaller."""
    _, epochs, _ = run(
        sk.hopping("1 hour", "10 seconds", grace="0 s"), mode, list(range(25)), settings=Settings(max_rows_per_epoch=360)
    )

    assert epochs[0] == 25


@pytest.mark.parametrize("advance", [1, 7, 10])
def test_a_range_without_the_start_of_a_window_is_known(advance):
    """`has_any` says of any range of times whether a window begins in it, also before 1970 and for an endless range."""
    window = Windowing(10, advance, 0, (0,), "store")
    for first in range(-25, 25):
        for last in range(first, first + 25):
            assert window.has_any(first, last) == any(start % advance == 0 for start in range(first, last))
    assert window.has_any(NO_TIME, -100)
