"""
What the engine must compute, one record at a time: law 11 and Kafka Streams' rules by definition, in plain dicts.

Slow and obvious on purpose: aggregates keep every value they have seen, tables are dicts, windows are looked for by
trying all of them. Nothing here knows of epochs but `end_epoch`, of tasks, of batches or of folding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

NO_TIME = -(2**63)
Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Record:
    """A record of a topic at its place in the canonical order; `order` is its order key, stream time at the record."""

    order: int
    input: int
    partition: int
    offset: int
    timestamp: int
    row: Row
    deleted: bool


@dataclass(frozen=True)
class Emitted:
    """A row on its way to a topic: its columns, its event time, and whether it deletes its key."""

    row: Row
    timestamp: int
    deleted: bool = False

    def with_row(self, row: Row) -> Emitted:
        return Emitted(row, self.timestamp, self.deleted)


@dataclass(frozen=True)
class Waiting:
    """What waits in one partition of an input: (offset, event time, row, deleted), in offset order."""

    input: int
    partition: int
    rows: Sequence[tuple[int, int, Row, bool]]


def canonical_order(waiting: Iterable[Waiting], reached_before: Mapping[int, int] | None = None) -> list[Record]:
    """
    Every record by (order key, input, partition, offset).

    The order key is the partition's largest event time so far, and never below what its own input had reached before.
    """
    records = []
    for lane in waiting:
        reached = (reached_before or {}).get(lane.input, NO_TIME)
        for offset, timestamp, row, deleted in lane.rows:
            reached = max(reached, timestamp)
            records.append(Record(reached, lane.input, lane.partition, offset, timestamp, row, deleted))
    return sorted(records, key=lambda record: (record.order, record.input, record.partition, record.offset))


@dataclass(frozen=True)
class Windows:
    """Windows of one size every `advance` ms; a window closes when stream time reaches its end plus `grace`."""

    size: int
    advance: int
    grace: int
    retention: int = 0

    def starts(self, timestamp: int) -> Iterator[int]:
        """The windows that hold a time, oldest first; no window crosses time 0."""
        oldest = (timestamp - self.size) // self.advance * self.advance
        for start in range(oldest, timestamp + 1, self.advance):
            crosses = start < 0 < start + self.size
            if start <= timestamp < start + self.size and not crosses:
                yield start

    def closes_at(self, start: int) -> int:
        return start + self.size + self.grace

    def expires_at(self, start: int) -> int:
        return start + max(self.retention, self.size + self.grace)


@dataclass
class Table:
    """The newest row of each key."""

    key: tuple[str, ...]
    rows: dict[Key, tuple[Row, int]] = field(default_factory=dict)
    null_keys: int = 0
    touched: dict[Key, Emitted] = field(default_factory=dict)

    def put(self, row: Row, timestamp: int, deleted: bool) -> Emitted | None:
        """Take a change; what a stream of the table's changes gets to see, None for a null key."""
        key = tuple(row[name] for name in self.key)
        if all(value is None for value in key):
            self.null_keys += 1
            return None
        if deleted:
            self.rows.pop(key, None)
        else:
            self.rows[key] = (row, timestamp)
        self.touched[key] = Emitted(row, timestamp, deleted)
        return self.touched[key]

    def get(self, *key: Any) -> Row | None:
        found = self.rows.get(key)
        return found[0] if found else None

    def latest(self) -> list[Emitted]:
        """The newest change of each key since the last call."""
        touched, self.touched = list(self.touched.values()), {}
        return touched


@dataclass
class Group:
    """All rows that a group has taken, and the largest event time among them."""

    rows: list[Row] = field(default_factory=list)
    timestamp: int = NO_TIME


@dataclass
class Aggregation:
    """The groups of a `group_by`, by key and window start (None without windows)."""

    key: tuple[str, ...]
    aggregates: Mapping[str, Callable[[list[Row]], Any]]
    windows: Windows | None = None
    groups: dict[tuple[Key, int | None], Group] = field(default_factory=dict)
    open: set[tuple[Key, int | None]] = field(default_factory=set)
    touched: dict[tuple[Key, int | None], Emitted] = field(default_factory=dict)
    late: int = 0
    null_keys: int = 0
    deletions: int = 0

    def add(self, row: Row, timestamp: int, order: int, deleted: bool = False) -> list[Emitted]:
        """Take a row; the results it changes, one per window that still is open. A tombstone changes none."""
        key = tuple(row[name] for name in self.key)
        if all(value is None for value in key):
            self.null_keys += 1
            return []
        if deleted:
            self.deletions += 1
            return []
        return [self._added((key, start), row, timestamp) for start in self._starts(timestamp, order)]

    def closing(self, order: int) -> int | None:
        """The first moment up to `order` at which a window closes."""
        moments = [self._window.closes_at(start) for _, start in self.open if start is not None]
        return min((moment for moment in moments if moment <= order), default=None)

    def close(self, moment: int) -> list[Emitted]:
        """The final results of the windows that close at a moment, in the order in which they are handed on."""
        closing = [place for place in self.open if place[1] is not None and self._window.closes_at(place[1]) == moment]
        self.open -= set(closing)
        return [self._result(place) for place in sorted(closing, key=_by_window_and_key)]

    def latest(self) -> list[Emitted]:
        """The newest result of each group since the last call."""
        touched, self.touched = list(self.touched.values()), {}
        return touched

    def stored(self, stream_time: int) -> list[Row]:
        """What can be read from the store: all groups whose retention has not ended."""
        places = [p for p in self.groups if p[1] is None or self._window.expires_at(p[1]) > stream_time]
        return [self._result(place).row for place in places]

    @property
    def _window(self) -> Windows:
        assert self.windows is not None
        return self.windows

    def _starts(self, timestamp: int, order: int) -> Iterator[int | None]:
        if self.windows is None:
            yield None
            return
        for start in self.windows.starts(timestamp):
            if self.windows.closes_at(start) <= order:
                self.late += 1
            else:
                yield start

    def _added(self, place: tuple[Key, int | None], row: Row, timestamp: int) -> Emitted:
        group = self.groups.setdefault(place, Group())
        group.rows.append(row)
        group.timestamp = max(group.timestamp, timestamp)
        if self.windows is not None:
            self.open.add(place)
        self.touched[place] = self._result(place)
        return self.touched[place]

    def _result(self, place: tuple[Key, int | None]) -> Emitted:
        key, start = place
        group = self.groups[place]
        bounds = {} if start is None else {"window_start": start, "window_end": start + self._window.size}
        values = {name: function(group.rows) for name, function in self.aggregates.items()}
        return Emitted({**dict(zip(self.key, key, strict=True)), **bounds, **values}, group.timestamp)


def count(rows: list[Row]) -> int:
    """How many rows there are."""
    return len(rows)


def of(function: str, column: str | Callable[[Row], Any]) -> Callable[[list[Row]], Any]:
    """An aggregate of a column (or of what a function makes of a row); nulls do not take part."""
    value = column if callable(column) else lambda row: row[column]
    return lambda rows: FUNCTIONS[function]([value(row) for row in rows if value(row) is not None])


FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "count_if": lambda values: sum(1 for value in values if value),
    "sum": lambda values: sum(values) if values else None,
    "avg": lambda values: sum(values) / len(values) if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
}


def _by_window_and_key(place: tuple[Key, int | None]) -> Any:
    """Results of one moment are handed on by window, then by key, null first."""
    key, start = place
    return (start, [(value is not None, value) for value in key])


class Interpreter:
    """
    A topology by hand: `process` takes a record, `closed` a final result, `end_epoch` may emit what is newest.

    `aggregations` are in the order of the topology; `topics` has what was written, in order.
    """

    def __init__(self) -> None:
        self.topics: dict[str, list[Emitted]] = {}
        self.table_inputs: frozenset[int] = frozenset()
        self.aggregations: list[Aggregation] = []
        self.tables: list[Table] = []
        self.global_rows: dict[str, dict[Key, Row]] = {}
        self.stream_time = NO_TIME  # of the operators: tables do not move it
        self.reached: dict[int, int] = {}  # by input, tables too
        self.null_keys = 0
        self.deletions = 0

    def process(self, record: Record) -> None:
        """What the topology does with a record."""
        raise NotImplementedError

    def closed(self, aggregation: Aggregation, result: Emitted, moment: int) -> None:
        """What the topology does with a final result."""

    def end_epoch(self) -> None:
        """What the topology emits at the end of an epoch."""

    def stores(self) -> dict[str, list[Row]]:
        """What the stores hold."""
        return {}

    def run(self, records: Sequence[Record], epochs: Sequence[int]) -> None:
        """Process the records in epochs of these sizes."""
        position = 0
        for size in epochs:
            for record in records[position : position + size]:
                self.reached[record.input] = max(self.reached.get(record.input, NO_TIME), record.order)
                if record.input not in self.table_inputs:
                    self.advance(record.order)
                self.process(replace(record, order=self.stream_time))
            position += size
            self.end_epoch()
        assert position == len(records), f"the epochs took {position} of {len(records)} records"

    def advance(self, order: int) -> None:
        """Move stream time on, and close windows moment by moment, before the record that moved it is processed."""
        self.stream_time = max(self.stream_time, order)
        self._close([order] * len(self.aggregations))

    def drain(self) -> None:
        """Close every window, each aggregation's by its own length, as at the end of finite data; stream time stays."""
        if any(one.windows for one in self.aggregations) and self.stream_time != NO_TIME:
            waits = [one.windows.size + one.windows.grace if one.windows else 0 for one in self.aggregations]
            self._close([self.stream_time + wait for wait in waits])
            self.end_epoch()

    def _close(self, until: Sequence[int]) -> None:
        while moments := [m for one, end in zip(self.aggregations, until, strict=True) if (m := one.closing(end)) is not None]:
            for aggregation in self.aggregations:
                for result in aggregation.close(min(moments)):
                    self.closed(aggregation, result, min(moments))

    def write(self, topic: str, emitted: Iterable[Emitted]) -> None:
        self.topics.setdefault(topic, []).extend(emitted)

    @property
    def late(self) -> int:
        return sum(one.late for one in self.aggregations)

    @property
    def deletions_dropped(self) -> int:
        return self.deletions + sum(one.deletions for one in self.aggregations)

    @property
    def null_keys_dropped(self) -> int:
        return self.null_keys + sum(one.null_keys for one in self.aggregations) + sum(one.null_keys for one in self.tables)
