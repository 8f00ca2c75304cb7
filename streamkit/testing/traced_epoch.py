"""
What one epoch did: the records it took, the rows of each step, what stores had before and after, what it wrote and left out.

An epoch of a single record says what that record did. Rows are kept as the engine had them, and become values when somebody looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streamkit.connectors.files.far_times import printed_rows, time_text
from streamkit.engine.runs.epoch_report import BUSY_US, ROWS_IN, ROWS_OUT
from streamkit.engine.runs.step_figures import step_figures
from streamkit.errors import SchemaError
from streamkit.log.log import Log
from streamkit.names import DELETED, OFFSET, PARTITION, TIMESTAMP
from streamkit.plan.naming import step_of
from streamkit.plan.operator import source_of
from streamkit.plan.program import Program
from streamkit.state.layout import LISTED
from streamkit.state.stored_rows import StoredRows

TracedRow: TypeAlias = dict[str, Any]
StoreChange: TypeAlias = tuple[TracedRow | None, TracedRow | None]  # the row before and after; None where there is none
Offsets: TypeAlias = Mapping[int, Mapping[int, int]]

ROWS_SHOWN = 8  # of a step, in text
VALUE_LENGTH = 60


@dataclass
class TracedEpoch:
    """
    One epoch. Made by `EpochTracer`; `records`, `steps`, `stores`, `written` and `left_out` say what it did.

    `error` is the error that ended it: then it wrote nothing, and the steps end with `failed_step`.
    """

    log: Log
    program: Program
    before: Offsets = field(default_factory=dict)
    after: Offsets = field(default_factory=dict)
    outputs_before: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    outputs_after: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    stream_time_ms: int | None = None
    made: list[tuple[str, pa.RecordBatch]] = field(default_factory=list)
    changed: list[tuple[str, pa.BinaryArray, pa.BinaryArray, pa.BinaryArray]] = field(default_factory=list)
    error: str | None = None
    failed: str | None = None  # the operator
    planned: Offsets = field(default_factory=dict)
    _begun: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def begin(self, planned: Offsets, stage: int, part: int) -> None:
        """Note where it will end, and let a task that begins its run of a stage again begin with nothing."""
        made, changed = self._begun.setdefault((stage, part), (len(self.made), len(self.changed)))
        del self.made[made:]
        del self.changed[changed:]
        self.planned, self.failed = planned, None

    def work_done(self) -> dict[str, dict[str, int]]:
        """The rows that operators took and made, of an epoch that failed, which nobody has counted."""
        made = dict[str, int]()
        for name, rows in self.made:
            made[name] = made.get(name, 0) + rows.num_rows
        taken = {one.id: sum(made.get(name, 0) for name in one.inputs) for one in self.program.operators}
        return {ROWS_IN: taken, ROWS_OUT: made}

    @property
    def failed_step(self) -> str | None:
        """The step that failed; None if none did, or if the error is of no step."""
        return None if self.failed is None or self.error is None else step_of(self.failed)

    @property
    def records(self) -> list[tuple[str, TracedRow]]:
        """The records it took, by topic, with `_timestamp`, `_partition` and `_offset`."""
        names = {topic.id: topic.name for topic in map(self.log.topic, {source.topic for source in self.program.inputs})}
        found: list[tuple[str, TracedRow]] = []
        for topic_id, ends in self.after.items():
            if topic_id in names and (start := dict(self.before.get(topic_id, {}))) != dict(ends):
                found += [(names[topic_id], row) for row in self._read(names[topic_id], start, ends)]
        return found

    @property
    def steps(self) -> dict[str, list[TracedRow]]:
        """By step, in the order of the program, the rows that it gave to others; empty for one that gave none."""
        given_on = {
            name
            for operator in self.program.operators
            for name in operator.inputs
            if step_of(source_of(name)) != step_of(operator.id)
        }
        found: dict[str, list[TracedRow]] = {step_of(operator.id): [] for operator in self.program.operators}
        for name, rows in self.made:
            if name in given_on:
                found[step_of(source_of(name))] += _shown(rows)
        return found

    @property
    def stores(self) -> dict[str, list[StoreChange]]:
        """By store, each row that changed: as it was, and as it is."""
        found: dict[str, list[StoreChange]] = {}
        for store, keys, before, after in self.changed:
            rows = StoredRows(self.program, self.program.store(store))
            keys, before, after = _without_lists(rows, keys, before, after)
            pairs = zip(_rows_or_none(rows, keys, before), _rows_or_none(rows, keys, after), strict=True)
            found.setdefault(store, []).extend(pair for pair in pairs if pair[0] != pair[1])
        return {store: changes for store, changes in found.items() if changes}

    @property
    def written(self) -> dict[str, list[TracedRow]]:
        """By output topic, the rows that it appended."""
        found = {}
        for topic, ends in self.outputs_after.items():
            start = dict(self.outputs_before.get(topic, {}))
            if start != dict(ends):
                found[topic] = self._read(topic, start, ends)
        return found

    def _read(self, topic: str, start: Mapping[int, int], end: Mapping[int, int]) -> list[TracedRow]:
        """Rows of a topic; bytes that are not of its format stay bytes."""
        rows = self.log.read(topic, start=dict(start), end=dict(end))
        try:
            return self.log.decode(topic, rows)
        except SchemaError:
            return printed_rows(rows)

    @property
    def left_out(self) -> dict[str, dict[str, int]]:
        """By step, how many rows it left out, by reason: `late`, `null_key`, `error` …; `filtered` are those of a filter."""
        reasons: dict[str, dict[str, int]] = {}
        steps = {step_of(operator.id) for operator in self.program.operators}
        for reason, by_name in self.counts.items():
            for name, rows in by_name.items():
                if reason not in (ROWS_IN, ROWS_OUT, BUSY_US) and step_of(name) in steps:
                    counts = reasons.setdefault(step_of(name), {})
                    counts[reason] = counts.get(reason, 0) + rows
        for operator in self.program.operators:
            if operator.kind == "filter" and operator.id != self.failed:
                gone = self.counts.get(ROWS_IN, {}).get(operator.id, 0) - self.counts.get(ROWS_OUT, {}).get(operator.id, 0)
                if gone > 0:
                    reasons.setdefault(step_of(operator.id), {})["filtered"] = gone
        return reasons

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values; times and bytes are texts."""
        return {
            "records": [{"topic": topic, "row": _plain(row)} for topic, row in self.records],
            "figures": [one.to_json() for one in step_figures(self.program, self.counts)],
            "steps": {step: [_plain(row) for row in rows] for step, rows in self.steps.items()},
            "stores": {store: [[_plain(one) for one in pair] for pair in changes] for store, changes in self.stores.items()},
            "written": {topic: [_plain(row) for row in rows] for topic, rows in self.written.items()},
            "left_out": self.left_out,
            "stream_time": self.stream_time,
            "error": self.error,
            "failed_step": self.failed_step,
        }

    @property
    def stream_time(self) -> str | None:
        """Stream time behind the epoch, as text in UTC; None before the first record."""
        return None if self.stream_time_ms is None else time_text(np.datetime64(self.stream_time_ms, "ms"), "Z")

    def text(self) -> str:
        """What it did, a line each for records, rows of steps, changes of stores, and results."""
        left_out, steps, lines = self.left_out, self.steps, list[str]()
        lines += [f"in    {topic}: {_line(row)}" for topic, row in self.records]
        for one in step_figures(self.program, self.counts):
            if one.rows_in or one.rows_out or one.step in left_out or one.step == self.failed_step:
                reasons = "".join(f", {reason} {count}" for reason, count in left_out.get(one.step, {}).items())
                lines.append(f"step  {one.step}: {one.rows_in} in, {one.rows_out} out{reasons}")
                lines += [f"        {_line(row)}" for row in steps[one.step][:ROWS_SHOWN]]
        for store, changes in self.stores.items():
            lines += [f"store {store}: {_line(old)} → {_line(new)}" for old, new in changes[:ROWS_SHOWN]]
        for topic, rows in self.written.items():
            lines += [f"out   {topic}: {_line(row)}" for row in rows[:ROWS_SHOWN]]
        if self.error is not None:
            lines.append(f"error {'' if self.failed_step is None else f'in {self.failed_step}: '}{self.error}")
        return "\n".join([*lines, f"stream time {self.stream_time}"])


def _shown(rows: pa.RecordBatch) -> list[TracedRow]:
    """The own columns of rows, and whether they delete; former values, which only operators see, are left out."""
    names = [name for name in rows.schema.names if not name.startswith("_") or name == DELETED]
    return printed_rows(rows.select([name for name in names if "/" not in name]))


def _without_lists(stored: StoredRows, keys: pa.BinaryArray, *values: pa.BinaryArray) -> tuple[pa.BinaryArray, ...]:
    """Keys and values without the lists of windows, which are no rows."""
    if not stored.layout.has_lists or not len(keys):
        return keys, *values
    _, times, _ = stored.layout.split(keys, [column.type for column in stored.store.key])
    is_row = pa.array(times[0] != LISTED)
    return tuple(column.filter(is_row) for column in (keys, *values))


def _rows_or_none(stored: StoredRows, keys: pa.BinaryArray, values: pa.BinaryArray) -> list[TracedRow | None]:
    """The row behind each state key; None where there is no value."""
    there = values.is_valid()
    rows = iter(printed_rows(stored.rows(keys.filter(there), values.filter(there))))
    return [next(rows) if is_there else None for is_there in there.to_pylist()]


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else _text(value)


def _text(value: Any) -> str:
    return str(bytes(value))[2:-1] if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _line(row: TracedRow | None) -> str:
    """A row in a line: its columns, its time, and where it lies."""
    if row is None:
        return "nothing"
    own = [f"{name}={_shortened(value)}" for name, value in row.items() if not name.startswith("_")]
    own += ["deleted"] if row.get(DELETED) else []
    if TIMESTAMP in row:
        own.append(f"at {_text(row[TIMESTAMP])}")
    if OFFSET in row:
        own.append(f"({row.get(PARTITION)}/{row[OFFSET]})")
    return " ".join(own)


def _shortened(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= VALUE_LENGTH else f"{text[: VALUE_LENGTH - 1]}…"


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """By metric and name, how much more there is in the totals of an application after an epoch."""
    found: dict[str, dict[str, int]] = {}
    for metric, by_name in after.items():
        if isinstance(by_name, dict) and all(isinstance(count, int) for count in by_name.values()):
            known: Mapping[str, int] = before.get(metric, {})
            found[metric] = {name: count - known.get(name, 0) for name, count in by_name.items() if count != known.get(name, 0)}
    return found
