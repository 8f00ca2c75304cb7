"""
A chart of a column over another one, as lines: where everything stands, in pixels.

As with the graph of an application, Python makes the drawing, and a view and the HTML of saved notebooks show the same.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Doubles
from streamkit.chunks import one_array
from streamkit.errors import ConfigError
from streamkit.notebook.table_texts import cell_of

WIDTH, HEIGHT = 760, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 36, 12, 40  # on the right there is room for half of a date
LINES_MAX = 8
TICKS = 6  # about so many on an axis
LEAST_STEP = 1e-300  # between two ticks; below it doubles have few digits left
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a5195", "#475569")
# Distances between ticks of times, in ms: from a millisecond to some ten years.
STEPS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500), *(1_000 * n for n in (1, 2, 5, 10, 30)), *(60_000 * n for n in (1, 2, 5, 10, 30)),
    *(3_600_000 * n for n in (1, 2, 3, 6, 12)), *(86_400_000 * n for n in (1, 2, 7, 14, 28, 91, 182, 365, 730, 1_826, 3_652)),
)  # fmt: skip


@dataclass(frozen=True)
class ChartTick:
    """A value on an axis, and its place."""

    place: float
    text: str


@dataclass(frozen=True)
class ChartLine:
    """The points of one series, in pixels."""

    name: str
    colour: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class ChartDrawing:
    """A chart with the places of all its parts; `note` says what it leaves out."""

    title: str
    width: int
    height: int
    left: int
    right: int
    bottom: int
    lines: tuple[ChartLine, ...]
    x_ticks: tuple[ChartTick, ...]
    y_ticks: tuple[ChartTick, ...]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The drawing as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class ChartOrder:
    """What to draw: a number over a time or a number, one line for each value of a third column if there is one."""

    x: str
    y: str
    series: str | None = None

    @classmethod
    def of(cls, given: Any, schema: pa.Schema, topic: str) -> ChartOrder:
        """The order that a user gave as names of two or three columns; ConfigError if they cannot be drawn."""
        names = [given] if isinstance(given, str) else list(given)
        if len(names) not in (2, 3):
            raise ConfigError(
                f"topic {topic}: found chart={given!r}; expected two or three columns: over which, which, and by which"
            )
        for name in names:
            if name not in schema.names:
                raise ConfigError(f"topic {topic} has no column {name!r} to draw; it has {', '.join(schema.names)}")
        x, y = (schema.field(name).type for name in names[:2])
        if not (_is_number(x) or pa.types.is_timestamp(x) or pa.types.is_date(x)):
            raise ConfigError(f"topic {topic}: the chart goes over {names[0]!r}, which is {x}; expected times or numbers")
        if not _is_number(y):
            raise ConfigError(f"topic {topic}: the chart shows {names[1]!r}, which is {y}; expected numbers")
        return cls(*names)

    def drawing(self, table: pa.Table) -> ChartDrawing:
        """The chart of some rows; of several rows of one place and series the last one counts, as a window's newest result does."""
        x, y = _numbers(table[self.x]), _numbers(table[self.y])
        names = [cell_of(value) for value in table[self.series].to_pylist()] if self.series is not None else [self.y] * len(x)
        newest: dict[str, dict[float, float]] = {}
        for name, at, value in zip(names, x.tolist(), y.tolist()):
            if math.isfinite(at) and math.isfinite(value):
                newest.setdefault(name, {})[at] = value
        shown = sorted(newest, key=lambda name: (-len(newest[name]), name))[:LINES_MAX]
        note = "" if len(shown) == len(newest) else f"{len(shown)} of {len(newest)} lines: those with the most points"
        is_time = not _is_number(table.schema.field(self.x).type)
        by = "" if self.series is None else f", by {self.series}"
        return _drawn(f"{self.y} over {self.x}{by}", {name: newest[name] for name in sorted(shown)}, note, is_time=is_time)


def _drawn(title: str, series: dict[str, dict[float, float]], note: str, *, is_time: bool) -> ChartDrawing:
    xs = [at for points in series.values() for at in points]
    ys = [value for points in series.values() for value in points.values()]
    bottom = HEIGHT - BOTTOM
    empty = ChartDrawing(title, WIDTH, HEIGHT, LEFT, WIDTH - RIGHT, bottom, (), (), (), note)
    if not xs:
        return empty
    x_ticks = _time_ticks(min(xs), max(xs)) if is_time else _ticks(min(xs), max(xs))
    y_ticks = _ticks(min(0.0, *ys), max(0.0, *ys))  # from nothing, so that twice as much looks so
    x_of, y_of = _scale(xs, LEFT, WIDTH - RIGHT), _scale([*ys, 0.0, *y_ticks], bottom, TOP)
    lines = tuple(
        ChartLine(name, COLOURS[number], tuple((x_of(at), y_of(value)) for at, value in sorted(points.items())))
        for number, (name, points) in enumerate(series.items())
    )
    x_named = tuple(ChartTick(x_of(at), _time_text(at, x_ticks) if is_time else _number_text(at)) for at in x_ticks)
    y_named = tuple(ChartTick(y_of(value), _number_text(value)) for value in y_ticks)
    return ChartDrawing(title, WIDTH, HEIGHT, LEFT, WIDTH - RIGHT, bottom, lines, x_named, y_named, note)


def _scale(values: Sequence[float], start: float, end: float) -> Any:
    """From a value to its pixel."""
    least, most = min(values), max(values)
    if least == most:
        return lambda value: (start + end) / 2
    return lambda value: round(start + (value - least) / (most - least) * (end - start), 1)


def _ticks(least: float, most: float) -> list[float]:
    """Round numbers between two bounds, both of which may be the same."""
    rough = (most - least) / TICKS
    if rough < LEAST_STEP:
        return [least]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough)
    return [step * n for n in range(math.ceil(least / step), math.floor(most / step) + 1)]


def _time_ticks(least_ms: float, most_ms: float) -> list[float]:
    step = next((one for one in STEPS_MS if one >= (most_ms - least_ms) / TICKS), STEPS_MS[-1])
    first, last = math.ceil(least_ms / step), math.floor(most_ms / step)
    return [float(step * n) for n in range(first, last + 1)] or [least_ms]


def _time_text(at_ms: float, ticks: Sequence[float]) -> str:
    """A time in as many parts as the distance between two ticks asks for."""
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0
    text = str(np.datetime64(int(at_ms), "ms")).replace("T", " ")
    if step >= 86_400_000:
        return text[:10]
    return text[5:16] if step >= 60_000 else text[11:19] if step >= 1_000 else text[11:]


def _number_text(value: float) -> str:
    return f"{value:,.10g}"


def _numbers(column: pa.ChunkedArray) -> Doubles:
    """A column as doubles, times in ms; NaN for null."""
    values = one_array(column)
    if not _is_number(values.type):
        values = pc.cast(pc.cast(values, pa.timestamp("ms", getattr(values.type, "tz", None)), safe=False), pa.int64())
    return np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def chart_svg(drawing: ChartDrawing) -> str:
    """The chart as a standalone SVG text."""
    parts = [f'<rect width="{drawing.width}" height="{drawing.height}" fill="#ffffff"/>']
    for tick in drawing.y_ticks:
        parts.append(f'<path d="M{drawing.left} {tick.place}H{drawing.right}" stroke="#e2e8f0"/>')
        parts.append(f'<text x="{drawing.left - 6}" y="{tick.place + 4}" text-anchor="end">{html.escape(tick.text)}</text>')
    for tick in drawing.x_ticks:
        parts.append(f'<text x="{tick.place}" y="{drawing.bottom + 16}" text-anchor="middle">{html.escape(tick.text)}</text>')
    for line in drawing.lines:
        points = "L".join(f"{x} {y}" for x, y in line.points)
        parts.append(f'<path d="M{points}" fill="none" stroke="{line.colour}" stroke-width="1.8"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="2" fill="{line.colour}"/>' for x, y in line.points]
    legend, left = [], drawing.left
    for line in drawing.lines:
        legend.append(f'<text x="{left}" y="{drawing.height - 6}" fill="{line.colour}">● {html.escape(line.name)}</text>')
        left += 24 + 7 * len(line.name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{drawing.width}" height="{drawing.height}" '
        f'viewBox="0 0 {drawing.width} {drawing.height}" role="img" font-family="sans-serif" font-size="11" fill="#334155">'
        f"<title>{html.escape(drawing.title)}</title>{''.join(parts)}{''.join(legend)}</svg>"
    )
