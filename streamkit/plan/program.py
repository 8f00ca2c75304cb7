"""
The compiled topology: a JSON value that tasks, the local engine and the crash tests load without a JVM.

A program is a list of operators in topological order. Each belongs to a stage: stage 0 runs in the readers, stages
1 … n in the kernels; `Send` and `Receive` are the two ends of an edge between them, an exchange by key. Rows carry,
beside their own columns, the record columns named in `streamkit.names`: event time, place in the canonical order, and
for tables whether the row deletes its key.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

from streamkit.config import check_key_groups
from streamkit.errors import FormatVersionError
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.plan.plain import from_plain, to_plain
from streamkit.schema import Schema

PROGRAM_FORMAT = 1


@dataclass(frozen=True)
class Input:
    """A topic that is read; its position in `Program.inputs` is its place in the canonical order."""

    topic: str
    kind: str  # stream, table or global_table
    schema: Schema
    key: tuple[str, ...]
    bootstrap: bool = False

    @property
    def name(self) -> str:
        """The topic's name, by which frames are read."""
        return self.topic


@dataclass(frozen=True)
class Store:
    """State behind an operator: rows of `key` (and window) columns to `value` columns, with a changelog topic."""

    name: str
    number: int  # unique in the program; the catalog's own numbers replace it at start
    stage: int
    key: Schema
    value: Schema
    window_size_ms: int | None = None
    retention_ms: int | None = None


@dataclass(frozen=True)
class Output:
    """A topic that is written: `schema` and `key` as derived; `partitions` None means as many as the widest input."""

    topic: str
    schema: Schema
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    cleanup_policy: str  # delete or compact
    partitions: int | None = None


@dataclass(frozen=True)
class Edge:
    """An exchange: rows leave `from_stage` by key and arrive at `to_stage`; `columns` are the row's own columns."""

    number: int
    from_stage: int
    to_stage: int
    key: tuple[str, ...]
    columns: Schema


@dataclass(frozen=True)
class Operator:
    """Any step: `id` is its stable name, `inputs` the ids of the operators whose rows it takes."""

    kind: ClassVar[str] = ""
    id: str
    stage: int
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Source(Operator):
    """Rows of input number `input`, with the columns named (pruned to what is used)."""

    kind: ClassVar[str] = "source"
    input: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Filter(Operator):
    """Keep rows whose predicate is true; of a table, turn the others into deletions, which have the `key` columns only."""

    kind: ClassVar[str] = "filter"
    predicate: TypedExpression
    table: bool = False
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class Project(Operator):
    """Replace the row's own columns by these, in this order; a deleted row computes its key columns only."""

    kind: ClassVar[str] = "project"
    columns: tuple[tuple[str, TypedExpression], ...]
    key: tuple[str, ...] = ()
    table: bool = False


@dataclass(frozen=True)
class Send(Operator):
    """Hand the rows to edge `edge`; `keep_null_keys` says whether rows whose key is null travel or are dropped."""

    kind: ClassVar[str] = "send"
    edge: int
    keep_null_keys: bool


@dataclass(frozen=True)
class Receive(Operator):
    """The rows that arrived by edge `edge`, in canonical order unless they are folded."""

    kind: ClassVar[str] = "receive"
    edge: int
    folded: bool = False


@dataclass(frozen=True)
class Materialize(Operator):
    """Keep the newest row per key of a table in `store`; rows pass on. `value` columns are stored in this order."""

    kind: ClassVar[str] = "materialize"
    store: str


@dataclass(frozen=True)
class TableJoin(Operator):
    """
    Join a stream (first input) with a materialized table (second input) as of the stream record's place in the order.

    `on` are the stream's columns, in the order of the table's key columns. `columns` says what the result holds: pairs of
    (result name, source) where source is `left.NAME` or `right.NAME`.
    """

    kind: ClassVar[str] = "table_join"
    how: str  # inner or left
    on: tuple[str, ...]
    store: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GlobalJoin(Operator):
    """Join a stream with a global table read whole; `on` and `columns` as in `TableJoin`, the table is input `input`."""

    kind: ClassVar[str] = "global_join"
    how: str
    on: tuple[str, ...]
    input: int
    columns: tuple[tuple[str, str], ...]
    table: tuple[Operator, ...] = ()  # Filter and Project steps between the topic and the join, applied when it is read


@dataclass(frozen=True)
class Windows(Operator):
    """Assign each row to its windows (one row each, column `window_start`), and drop it where the window has closed."""

    kind: ClassVar[str] = "windows"
    size_ms: int
    advance_ms: int
    grace_ms: int
    key: tuple[str, ...] = ()

    @property
    def per_record(self) -> int:
        """The windows that a record is in, at most."""
        return -(-self.size_ms // self.advance_ms)


@dataclass(frozen=True)
class Fold(Operator):
    """Combine the rows of a key (and window) into one row of aggregate state, before they travel."""

    kind: ClassVar[str] = "fold"
    key: tuple[str, ...]
    windowed: bool
    aggregates: tuple[TypedAggregate, ...]


@dataclass(frozen=True)
class Aggregate(Operator):
    """Fold rows (or rows of state, if `folded`) into `store`; `modes` lists the emissions asked of it."""

    kind: ClassVar[str] = "aggregate"
    key: tuple[str, ...]
    store: str
    aggregates: tuple[TypedAggregate, ...]
    folded: bool
    modes: tuple[str, ...]  # of latest, every, final
    size_ms: int | None = None
    grace_ms: int | None = None


@dataclass(frozen=True)
class Emit(Operator):
    """The results of an aggregate or a materialized table: newest per key and epoch, every one, or final ones."""

    kind: ClassVar[str] = "emit"
    mode: str


@dataclass(frozen=True)
class Write(Operator):
    """Append the rows to output number `output`."""

    kind: ClassVar[str] = "write"
    output: int


OPERATORS: dict[str, type[Operator]] = {
    cls.kind: cls
    for cls in (
        Source, Filter, Project, Send, Receive, Materialize, TableJoin, GlobalJoin, Windows, Fold, Aggregate, Emit, Write,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A topology ready to run; `stages` counts the kernels."""

    application: str
    inputs: tuple[Input, ...]
    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...]
    stores: tuple[Store, ...]
    outputs: tuple[Output, ...]
    stages: int
    key_groups: int = 128
    changelog_partitions: int = 16
    format: int = field(default=PROGRAM_FORMAT)

    def __post_init__(self) -> None:
        check_key_groups(self.key_groups)

    def to_json(self) -> dict[str, Any]:
        """The program as plain lists, dicts and scalars, ready for `json.dumps`."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Program:
        """The inverse of `to_json`; FormatVersionError for a format that this version does not read."""
        if value.get("format") != PROGRAM_FORMAT:
            raise FormatVersionError(
                f"the program has format {value.get('format')!r}, and this version of StreamKit reads {PROGRAM_FORMAT}; "
                "use the version that compiled it, or compile it again"
            )
        program: Program = from_plain(cls, value, OPERATORS)
        return program

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the program's canonical JSON, in hexadecimal: equal for equal programs."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def operators_of(self, stage: int) -> tuple[Operator, ...]:
        """The operators of one stage, in order."""
        return tuple(operator for operator in self.operators if operator.stage == stage)

    def store(self, name: str) -> Store:
        """The store of that name."""
        return next(store for store in self.stores if store.name == name)


__all__ = [name for name, value in list(globals().items()) if dataclasses.is_dataclass(value)]
