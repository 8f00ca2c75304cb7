"""
The steps of a topology as values, before anything is known about topics and types.

Every node is frozen, holds its inputs as fields, and compares by structure; the line of the user's code that made it
(`at`) takes no part in that. What can be checked without a schema is checked on construction, so later passes need no guards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from streamkit.errors import Location, TopologyError
from streamkit.names import WINDOW_END, WINDOW_START, check_name
from streamkit.plan.duration import duration_text
from streamkit.plan.expression import Expression
from streamkit.schema import Schema

STREAM = "stream"
TABLE = "table"
GLOBAL_TABLE = "global_table"
JOIN_KINDS = ("inner", "left")
EMIT_MODES = ("latest", "every", "final")
WINDOWS_PER_RECORD_MAX = 1_500  # each is a row while an epoch is processed; a day by the minute is 1,440


@dataclass(frozen=True)
class Node:
    """Any step; `name` overrides the generated one."""

    kind: ClassVar[str] = ""
    name: str | None = field(default=None, kw_only=True)
    at: Location | None = field(default=None, kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name(self.name, "step")

    @property
    def relation(self) -> str:
        """What the step gives: stream, table or global_table."""
        raise NotImplementedError


@dataclass(frozen=True)
class Source(Node):
    """Rows of a topic; `schema` and `key` stand in for the topic's own where there is no log."""

    topic: str
    schema: Schema | None = None
    key: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.topic, "topic")
        if self.key is not None and self.schema is None:
            raise TopologyError(f"key={list(self.key)} of {self.topic!r} stands without schema=; expected both or none", self.at)
        missing = [name for name in self.key or () if self.schema is not None and name not in self.schema]
        if missing:
            raise TopologyError(f"the key column {missing[0]!r} of {self.topic!r} is not in its schema: {self.schema}", self.at)


@dataclass(frozen=True)
class StreamSource(Source):
    """A topic read as a stream of records."""

    kind: ClassVar[str] = "stream"

    @property
    def relation(self) -> str:
        return STREAM


@dataclass(frozen=True)
class TableSource(Source):
    """A topic read as a table: the newest row per key; `store` makes it queryable under that name."""

    kind: ClassVar[str] = "table"
    bootstrap: bool = False
    store: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.store is not None:
            check_name(self.store, "store")

    @property
    def relation(self) -> str:
        return TABLE


@dataclass(frozen=True)
class GlobalTableSource(Source):
    """A topic read whole, as a table that every task has."""

    kind: ClassVar[str] = "global_table"

    @property
    def relation(self) -> str:
        return GLOBAL_TABLE


@dataclass(frozen=True)
class StatelessStep(Node):
    """A step that looks at one row at a time and leaves a stream a stream and a table a table."""

    child: Node

    @property
    def relation(self) -> str:
        return self.child.relation


@dataclass(frozen=True)
class Filter(StatelessStep):
    """Rows for which `predicate` is true."""

    kind: ClassVar[str] = "filter"
    predicate: Expression


@dataclass(frozen=True)
class Select(StatelessStep):
    """These columns, and the key."""

    kind: ClassVar[str] = "select"
    columns: tuple[tuple[str, Expression], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_distinct((name for name, _ in self.columns if name != "*"), "column", self.at)


@dataclass(frozen=True)
class WithColumns(StatelessStep):
    """The columns so far, with these added or replaced."""

    kind: ClassVar[str] = "with_columns"
    columns: tuple[tuple[str, Expression], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_distinct((name for name, _ in self.columns), "column", self.at)
        if not self.columns:
            raise TopologyError("with_columns() was given no columns; expected name=expression", self.at)


@dataclass(frozen=True)
class Rename(StatelessStep):
    """Columns under other names: pairs of (old, new)."""

    kind: ClassVar[str] = "rename"
    names: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_distinct((new for _, new in self.names), "column", self.at)
        if not self.names:
            raise TopologyError("rename() was given no names; expected old=new", self.at)


@dataclass(frozen=True)
class Drop(StatelessStep):
    """The columns so far without these; key columns stay."""

    kind: ClassVar[str] = "drop"
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Join(Node):
    """
    A stream with the row of a table that has its key.

    `on` are pairs of (stream column, table column); None joins the stream's key with the table's. `suffix` is
    appended to those of the table's columns whose names the stream has too.
    """

    kind: ClassVar[str] = "join"
    left: Node
    right: Node
    how: str = "inner"
    on: tuple[tuple[str, str], ...] | None = None
    suffix: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how not in JOIN_KINDS:
            raise TopologyError(
                f"a stream cannot be joined with a table how={self.how!r}; expected one of {', '.join(JOIN_KINDS)}", self.at
            )
        if self.left.relation != STREAM or self.right.relation == STREAM:
            raise TopologyError(
                f"a join of a {_words(self.left.relation)} with a {_words(self.right.relation)} is not supported yet; "
                "expected a stream joined with a table or a global table",
                self.at,
            )
        _check_distinct((left for left, _ in self.on or ()), "join column", self.at)
        _check_distinct((right for _, right in self.on or ()), "join column", self.at)
        if self.on == ():
            raise TopologyError(
                "on= is empty; expected a column's name, a list of names, or {stream column: table column}", self.at
            )

    @property
    def relation(self) -> str:
        return STREAM


@dataclass(frozen=True)
class TimeWindow:
    """Windows of `size_ms` that start every `advance_ms`, open until stream time is `grace_ms` past their end."""

    size_ms: int
    advance_ms: int
    grace_ms: int
    retention_ms: int

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise TopologyError("a window's size is 0; expected a positive length of time")
        if not 0 < self.advance_ms <= self.size_ms:
            raise TopologyError(
                f"a window of {duration_text(self.size_ms)} cannot advance by {duration_text(self.advance_ms)}; "
                "expected more than 0 and at most the size, else records would fall between the windows"
            )
        if self.per_record > WINDOWS_PER_RECORD_MAX:
            raise TopologyError(
                f"a window of {duration_text(self.size_ms)} that advances by {duration_text(self.advance_ms)} puts each record into "
                f"{self.per_record:,} windows; expected at most {WINDOWS_PER_RECORD_MAX:,}: make the advance longer, or the size shorter"
            )
        if self.grace_ms < 0:
            raise TopologyError(f"the grace {self.grace_ms} ms is negative; expected 0 or more")
        if self.retention_ms < self.size_ms + self.grace_ms:
            raise TopologyError(
                f"the retention {duration_text(self.retention_ms)} is shorter than size and grace together "
                f"({duration_text(self.size_ms + self.grace_ms)}); expected at least that, else open windows would be lost"
            )

    @property
    def per_record(self) -> int:
        """The windows that a record is in, at most."""
        return -(-self.size_ms // self.advance_ms)

    def __str__(self) -> str:
        advance = "" if self.advance_ms == self.size_ms else f" every {duration_text(self.advance_ms)}"
        shape = "hopping" if advance else "tumbling"
        return f"{shape} {duration_text(self.size_ms)}{advance}, grace {duration_text(self.grace_ms)}"


@dataclass(frozen=True)
class Aggregate(Node):
    """
    A table: the aggregates of each group of a stream's records, per window if there is one.

    `key` are pairs of (name, expression); None groups by the stream's own key.
    """

    kind: ClassVar[str] = "aggregate"
    child: Node
    key: tuple[tuple[str, Expression], ...] | None
    aggregates: tuple[tuple[str, Expression], ...]
    window: TimeWindow | None = None
    store: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.store is not None:
            check_name(self.store, "store")
        if self.child.relation != STREAM:
            raise TopologyError(f"group_by of a {_words(self.child.relation)} is not supported yet; expected a stream", self.at)
        if self.key == ():
            raise TopologyError("group_by() was given no columns; expected at least one, or group_by_key()", self.at)
        if not self.aggregates:
            raise TopologyError("agg() was given no aggregates; expected name=aggregate, such as flights=F.count('*')", self.at)
        own = (WINDOW_START, WINDOW_END) if self.window else ()
        key = tuple(name for name, _ in self.key or ())
        _check_distinct(key, "group column", self.at)
        _check_distinct((*key, *own, *(name for name, _ in self.aggregates)), "result column", self.at)

    @property
    def relation(self) -> str:
        return TABLE


@dataclass(frozen=True)
class Emit(Node):
    """The changes of a table as a stream: `latest`, `every` or `final`."""

    kind: ClassVar[str] = "emit"
    child: Node
    mode: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in EMIT_MODES:
            raise TopologyError(f"there is no emission {self.mode!r}; expected one of {', '.join(EMIT_MODES)}", self.at)
        origin = table_origin(self.child)
        if self.mode == "final" and getattr(origin, "window", None) is None:
            raise TopologyError(
                "emit('final') needs windows: a table without them has no last result; expected windowed_by(…) before agg(), "
                "or emit('latest') or emit('every')",
                self.at,
            )

    @property
    def relation(self) -> str:
        return STREAM


@dataclass(frozen=True)
class To(Node):
    """The end of a stream: its records are appended to a topic."""

    kind: ClassVar[str] = "to"
    child: Node
    topic: str
    partitions: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.topic, "topic")
        if self.partitions is not None and self.partitions < 1:
            raise TopologyError(
                f"the topic {self.topic!r} cannot have {self.partitions} partitions; expected at least 1", self.at
            )

    @property
    def relation(self) -> str:
        return STREAM


def table_steps(node: Node) -> tuple[StatelessStep, ...]:
    """The stateless steps between a table and what it comes from, in the order they apply."""
    steps: list[StatelessStep] = []
    while isinstance(node, StatelessStep):
        steps.append(node)
        node = node.child
    return tuple(reversed(steps))


def table_origin(node: Node) -> Node:
    """What a table comes from, below its stateless steps: a source or an aggregate."""
    while isinstance(node, StatelessStep):
        node = node.child
    return node


def _check_distinct(names: Iterable[str], what: str, at: Location | None) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise TopologyError(f"the {what} {name!r} occurs twice; expected distinct names", at)
        seen.add(name.lower())


def _words(relation: str) -> str:
    return relation.replace("_", " ")
