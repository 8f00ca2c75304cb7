"""Topics that are read: as streams, as tables, and whole in every task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.names import HEADERS, WINDOW_END, WINDOW_START, check_name
from streamkit.plan.building import Building
from streamkit.plan.decoding import Decoding
from streamkit.plan.duration import duration_text
from streamkit.plan.node import CYLINDER, LATER, NEWER, ROUNDED, Node, words
from streamkit.plan.operator import Names, Operator, listed
from streamkit.plan.operators.decode import decode_step
from streamkit.plan.operators.event_times import event_times_step
from streamkit.plan.operators.materialize import check_history, history_text, materialized
from streamkit.plan.operators.unified_key import with_unified_key
from streamkit.plan.program import Program
from streamkit.plan.steps import UNSTAGED, Step, with_operator
from streamkit.plan.traits import GLOBAL_TABLE, STREAM, TABLE, Traits
from streamkit.plan.windows import WindowKind
from streamkit.schema import Schema

BOUNDS = (WINDOW_START, WINDOW_END)


@dataclass(frozen=True, eq=False, repr=False)
class SourceNode(Node):
    """
    Rows of a topic; `schema` and `key` stand in for the topic's own where there is no log.

    With a `decoding` the topic is opaque, and its bytes are read as columns: `schema` and `key` are those of the decoding.
    `timestamp` names the column that has the event time of the records; `timestamp_format` is the pattern of its texts.
    With `since_1970` a time before 1970 in it counts as none.
    """

    topic: str
    schema: Schema | None = None
    key: tuple[str, ...] | None = None
    decoding: Decoding | None = field(default=None, metadata=LATER, kw_only=True)
    timestamp: str | None = field(default=None, metadata=NEWER, kw_only=True)
    timestamp_format: str | None = field(default=None, metadata=NEWER, kw_only=True)
    since_1970: bool = field(default=False, metadata=NEWER, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.topic, "topic", self.at)
        if self.decoding is not None:
            return
        if self.key is not None and self.schema is None:
            raise TopologyError(
                f"key={list(self.key)} of {self.topic!r} is given without schema=; expected both or none", self.at
            )
        missing = [name for name in self.key or () if self.schema is not None and name not in self.schema]
        if missing:
            raise TopologyError(f"the key column {missing[0]!r} of {self.topic!r} is not in its schema: {self.schema}", self.at)

    @property
    def subject(self) -> str:
        return self.name or self.topic

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        return replace(super().traits_over(below), feeding=frozenset({self}))

    def text(self) -> str:
        times = "" if self.timestamp is None else f", event time {self.timestamp}"
        return f"{words(self.kind)} {self.topic}{'' if self.decoding is None else f', {self.decoding.text()}'}{times}"

    def label(self) -> tuple[str, ...]:
        return (self.short_text(), *([f"key {', '.join(self.key)}"] if self.key else []))

    def short_text(self) -> str:
        return f"{words(self.kind)} {self.topic}"

    def lower(self, building: Building) -> Step:
        return rows_read(self, building)

    def partitioned(self, rows: Step) -> Step:
        """The step that gives the rows, with the columns that they are partitioned by."""
        return rows


@dataclass(frozen=True, eq=False, repr=False)
class StreamSource(SourceNode):
    """
    A topic read as a stream of records.

    A record that is more than `jump_ms` ahead of its partition's time does not move stream time.
    """

    kind: ClassVar[str] = "stream"
    shape: ClassVar[str] = ROUNDED
    jump_ms: int | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jump_ms is not None and self.jump_ms <= 0:
            raise TopologyError(
                f"stream({self.topic!r}) was given max_jump of {self.jump_ms} ms; expected a positive length of time, such as '1 day'",
                self.at,
            )

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        return replace(super().traits_over(below), may_lead=self.jump_ms is not None, are_records=True, offsets_order_keys=True)

    def text(self) -> str:
        bound = "" if self.jump_ms is None else f", jumps of at most {duration_text(self.jump_ms)}"
        return super().text() + bound


@dataclass(frozen=True, eq=False, repr=False)
class TableSource(SourceNode):
    """
    A topic read as a table: the newest row per key; `store` makes it queryable under that name.

    With `history_ms` the newest row is that of the largest event time, and the table knows which rows it had so long ago.
    With a `window` the topic's key ends with the bounds of windows of this kind, as results of windows write them.
    """

    kind: ClassVar[str] = "table"
    shape: ClassVar[str] = CYLINDER
    bootstrap: bool = False
    store: str | None = None
    history_ms: int | None = field(default=None, metadata=LATER)
    window: WindowKind | None = field(default=None, metadata=NEWER)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_history(self.history_ms, self)
        self._check_window()
        if self.store is not None:
            check_name(self.store, "store", self.at)

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """Changes of former rows replace none of the newest, so a filter of a table with history gives all deletions."""
        return replace(
            super().traits_over(below),
            relation=TABLE,
            knows_old_values=self.store is not None and self.history_ms is None,
            newest_are_last=True,
            history_ms=self.history_ms,
            window=self.window,
            reads_windows=self.window is not None,
            keeps_store=True,
        )

    def _check_window(self) -> None:
        """TopologyError if something is asked of windows that only those have that are made here."""
        if self.window is None:
            return
        if self.history_ms is not None:
            raise TopologyError(
                f"table({self.topic!r}) was given versioned= and windowed=; expected one: a table of windows has no history",
                self.at,
            )
        if self.window.why_not_read:
            raise TopologyError(f"table({self.topic!r}, windowed=…) {self.window.why_not_read}", self.at)
        if self.window.close_after_idle_ms is not None:
            raise TopologyError(
                f"table({self.topic!r}, windowed=…) was given windows with close_after_idle=; expected windows without it: those of "
                "a topic close by stream time alone",
                self.at,
            )

    def text(self) -> str:
        windows = f", {self.window}" if self.window else ""
        return super().text() + windows + history_text(self.history_ms) + (f", store {self.store}" if self.store else "")

    def lower(self, building: Building) -> Step:
        """The step that keeps a table whose store has a name, even if nothing else reads it."""
        return materialized(self, building.changes(self), building)

    def changes(self, building: Building) -> Step:
        """The rows of the topic, before they are kept."""
        return with_unified_key(rows_read(self, building), building.name(self), building)

    def partitioned(self, rows: Step) -> Step:
        """The rows of windows lie where those of their key lie, whatever the window."""
        if self.window is None:
            return rows
        self._check_bounds(rows)
        return replace(rows, partition_by=rows.key[: -len(BOUNDS)])

    def _check_bounds(self, rows: Step) -> None:
        """TopologyError unless the key ends with the bounds of windows, behind another column."""
        key, found = rows.key, ", ".join(f"{name} {rows.schema[name].type}" for name in rows.key)
        is_windowed = key[-len(BOUNDS) :] == BOUNDS and len(key) > len(BOUNDS)
        if not is_windowed or any(rows.schema[name].type != "timestamp" for name in BOUNDS):
            raise TopologyError(
                f"table({self.topic!r}, windowed=…) needs a topic whose key ends with {WINDOW_START} timestamp, {WINDOW_END} timestamp, as "
                f"results of windows write it; found the key {found or 'without columns'}; expected such a topic, or no windowed=",
                self.at,
            )


@dataclass(frozen=True, eq=False, repr=False)
class GlobalTableSource(SourceNode):
    """A topic read whole, as a table that every task has."""

    kind: ClassVar[str] = "global_table"
    shape: ClassVar[str] = CYLINDER

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        return replace(super().traits_over(below), relation=GLOBAL_TABLE)


def rows_read(node: SourceNode, building: Building) -> Step:
    """The step that gives the rows of the topic, decoded if they are bytes."""
    rows = source_step(node, building)
    if node.decoding is not None:
        rows = decode_step(node.decoding, building.inputs[node], building.add(rows), node.at)
    if (time := building.inputs[node].event_time) is not None:
        rows = event_times_step(time, building.add(rows))
    return building.add(node.partitioned(rows))


def source_step(node: SourceNode, building: Building) -> Step:
    """The step that reads the topic, all its columns."""
    found = building.inputs[node]
    operator = SourceRows(building.name(node), UNSTAGED, (), building.input_number(node), found.schema.names)
    return Step(operator, found.schema, found.key, found.key, node.relation != STREAM, node.at)


@dataclass(frozen=True)
class SourceRows(Operator):
    """Rows of input number `input`, with these columns (pruned to those that are used), and `headers` if these are used."""

    kind: ClassVar[str] = "source"
    input: int
    columns: tuple[str, ...]
    headers: bool = False

    @property
    def input_read(self) -> int:
        return self.input

    @property
    def reads_order(self) -> bool:
        return False

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        schema = step.schema.select(name for name in step.schema.names if name in needed)
        return with_operator(step, schema, columns=schema.names, headers=HEADERS in needed)

    def text(self) -> str:
        return f"source: input {self.input}, columns {listed(self.columns)}"

    def faults(self, program: Program) -> list[str]:
        is_there = self.stage == 0 and 0 <= self.input < len(program.inputs)
        return [] if is_there else [f"{self.id} reads an input that is not there"]
