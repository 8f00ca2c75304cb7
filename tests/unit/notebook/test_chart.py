"""Promises of charts: points where their values are, round numbers on the axes, the newest result of a window."""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.notebook.chart import HEIGHT, LEFT, LINES_MAX, WIDTH, ChartOrder, chart_svg

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


def test_points_stand_where_their_values_are():
    """Equal distances of values are equal distances of pixels, and larger values stand higher."""
    table = pa.table({"x": [0, 1, 2, 4], "y": [0.0, 10.0, 20.0, 40.0]})
    (line,) = ChartOrder("x", "y").drawing(table).lines
    (x0, y0), (x1, y1), (x2, y2), (x4, y4) = line.points

    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and x4 - x2 == pytest.approx(2 * (x1 - x0), abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2) and y4 < y0
    assert x0 == LEFT and x4 <= WIDTH


def test_the_newest_row_of_a_place_counts():
    """A window whose result is told again has one point, and each series its own line."""
    table = pa.table({"x": [1, 1, 2, 1], "y": [5, 7, 3, 1], "city": ["Rome", "Rome", "Rome", "Oslo"]})
    drawing = ChartOrder("x", "y", "city").drawing(table)

    assert {line.name: len(line.points) for line in drawing.lines} == {"Oslo": 1, "Rome": 2}
    rome = next(line for line in drawing.lines if line.name == "Rome")
    assert rome.points[0][1] < rome.points[1][1]  # 7 stands higher than 3


def test_many_lines_are_left_out_and_told():
    """The lines with the most points are drawn, and the note says of how many."""
    count = LINES_MAX + 3
    names = [f"s{number:02}" for number in range(count) for _ in range(number + 1)]
    table = pa.table({"x": list(range(len(names))), "y": [1] * len(names), "s": names})
    drawing = ChartOrder("x", "y", "s").drawing(table)

    assert [line.name for line in drawing.lines] == [f"s{number:02}" for number in range(3, count)]
    assert drawing.note == "8 of 11 lines: those with the most points"


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (dt.timedelta(days=400), r"\d{4}-\d\d-\d\d"),
        (dt.timedelta(hours=30), r"\d\d-\d\d \d\d:\d\d|\d{4}-\d\d-\d\d"),
        (dt.timedelta(seconds=20), r"\d\d-\d\d \d\d:\d\d|\d\d:\d\d:\d\d"),
        (dt.timedelta(milliseconds=3), r"\d\d:\d\d:\d\d\.\d{3}"),
    ],
)
def test_times_are_named_as_finely_as_needed(step, text):
    """Ticks of times are round, at even distances, and no two have the same text."""
    table = pa.table({"x": pa.array([START + n * step for n in range(4)], pa.timestamp("us", "UTC")), "y": [1, 2, 3, 4]})
    ticks = ChartOrder("x", "y").drawing(table).x_ticks

    assert all(6 * len(tick.text) / 2 <= min(tick.place, WIDTH - tick.place) for tick in ticks)  # none is cut off
    assert 2 <= len(ticks) <= 8 and len({tick.text for tick in ticks}) == len(ticks)
    assert all(re.fullmatch(text, tick.text) for tick in ticks), ticks


@given(
    st.lists(
        st.tuples(st.floats(allow_nan=True, allow_infinity=True, width=32) | st.none(), st.floats(-1e300, 1e300) | st.none()),
        max_size=12,
    )
)
def test_all_values_can_be_drawn(pairs):
    """Whatever the values are, each point lies within the picture, and axes have few ticks."""
    table = pa.table({"x": pa.array([x for x, _ in pairs], pa.float64()), "y": pa.array([y for _, y in pairs], pa.float64())})
    drawing = ChartOrder("x", "y").drawing(table)

    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for line in drawing.lines for x, y in line.points)
    assert len(drawing.x_ticks) <= 12 and len(drawing.y_ticks) <= 12
    assert chart_svg(drawing).startswith("<svg") and "nan" not in chart_svg(drawing)
