"""A query that is run once, as values: its sources, and its steps in the order in which they are done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from streamkit.errors import Location
from streamkit.names import ORDER
from streamkit.plan.explosion import Explosion
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.plan.expression_places import ExpressionPlaces
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.pull.input import PullInput
from streamkit.sql.pull.source import RECORD_TYPES, TopicRows

TypedColumns = tuple[tuple[str, TypedExpression], ...]
NONE, ALL_NULL, ANY_NULL = "none", "all null", "any null"  # rows that are in no group


@dataclass(frozen=True)
class PlannedSide:
    """One of the things that a query reads: a stream or table, or another query; `names` are those of its columns in the rows of this one."""

    read: PullInput | PullPlan
    names: tuple[tuple[str, str], ...]  # the name there, and the name here

    def as_of(self, moment_ms: int) -> PlannedSide:
        """The side as of a time, unless it says one itself."""
        if isinstance(self.read, PullPlan):
            return replace(self, read=self.read.as_of(moment_ms))
        return self if self.read.as_of_ms is not None else replace(self, read=replace(self.read, as_of_ms=moment_ms))


@dataclass(frozen=True)
class PlannedJoin:
    """
    The rows so far with those of one more side: whose keys are equal, and for which `rest` is true.

    `kind` is inner, left, right or full. Where there are no keys, each row meets each. `coalesced` are columns that a full join has of either
    side, by their names. `lonely` are the conditions on rows of either side that the join keeps without a partner; None keeps all.
    """

    kind: str
    side: PlannedSide
    left: tuple[TypedExpression, ...]
    right: tuple[TypedExpression, ...]
    rest: TypedExpression | None = None
    coalesced: TypedColumns = ()
    lonely: tuple[TypedExpression | None, TypedExpression | None] = (None, None)


@dataclass(frozen=True)
class PlannedGroups:
    """
    The groups by some expressions, and aggregates of each; without expressions there is one group, also of no rows.

    `left_out` says which rows are in no group: those with ANY_NULL or ALL_NULL parts of their group; NONE has a group of nulls, too.
    """

    columns: TypedColumns
    aggregates: tuple[TypedAggregate, ...]
    having: TypedExpression | None = None
    left_out: str = NONE


@dataclass(frozen=True)
class PlannedOrder:
    """A column of the result, or one beside it, by which rows are ordered."""

    column: str
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class PullPlan:
    """
    The steps of a query, from its first side to its result.

    `columns` are those of the result; `order_columns` are computed beside them, for the order alone. Without a side there is one row without
    columns. `is_in_order`: the rows are put in canonical order, for aggregates that depend on it. `places` are those of what computes
    columns and aggregates, by name, and `where_at` that of WHERE, for errors; `parts` has the places of the parts of expressions.
    `explosion` gives rows for the elements of arrays, behind `where`. `of_records` are the columns that a query around it wants of the
    records that its rows are.
    """

    side: PlannedSide | None
    joins: tuple[PlannedJoin, ...]
    where: TypedExpression | None
    groups: PlannedGroups | None
    columns: TypedColumns
    order_columns: TypedColumns = ()
    order: tuple[PlannedOrder, ...] = ()
    is_in_order: bool = False
    limit: int | None = None
    is_distinct: bool = False
    explosion: Explosion | None = None
    of_records: tuple[str, ...] = ()
    places: Mapping[str, Location] = field(default_factory=dict, compare=False, repr=False)
    where_at: Location | None = field(default=None, compare=False, repr=False)
    parts: ExpressionPlaces = field(default_factory=dict, compare=False, repr=False)

    @property
    def sides(self) -> tuple[PlannedSide, ...]:
        """All that it reads."""
        return () if self.side is None else (self.side, *(join.side for join in self.joins))

    def inputs(self) -> Iterator[PullInput]:
        """The streams and tables that it reads, those of queries in it too, in order."""
        for side in self.sides:
            if isinstance(side.read, PullInput):
                yield side.read
            else:
                yield from side.read.inputs()

    def as_of(self, moment_ms: int | None) -> PullPlan:
        """The query as of a time: all that it reads but what a query in FROM reads as of another one."""
        if moment_ms is None or self.side is None:
            return self
        joins = tuple(replace(join, side=join.side.as_of(moment_ms)) for join in self.joins)
        return replace(self, side=self.side.as_of(moment_ms), joins=joins)

    @property
    def is_of_records(self) -> bool:
        """Whether its rows are made of the records of streams one by one, or of several that a join puts side by side."""
        reads = [side.read for side in self.sides]
        return self.groups is None and any(
            read.is_of_records if isinstance(read, PullPlan) else isinstance(read.source, TopicRows) and read.source.is_stream
            for read in reads
        )

    @property
    def record_columns(self) -> tuple[str, ...]:
        """What its rows have beside its columns because each is a record of one stream, in the order of the stream; nothing if none is."""
        if self.side is None or self.joins or self.groups is not None or self.is_distinct:
            return ()
        read = self.side.read
        of_read = read.record_columns if isinstance(read, PullPlan) else tuple(RECORD_TYPES) if read.source.is_stream else ()
        own = {name.lower() for name, _ in self.columns if name not in self.of_records} | ({ORDER} if self.order else set())
        return tuple(name for name in of_read if name not in own)

    def with_record_columns(self, names: Sequence[str]) -> PullPlan:
        """The query with some of its record columns as columns of its own, behind the others."""
        new = [name for name in names if name not in self.of_records]
        if not new:
            return self
        assert self.side is not None, "what reads nothing has no records"
        read = self.side.read
        if isinstance(read, PullPlan):
            read = read.with_record_columns(new)
        else:
            read = replace(read, columns=tuple(dict.fromkeys((*read.columns, *new))))
        side = PlannedSide(read, tuple(dict.fromkeys((*self.side.names, *((name, name) for name in new)))))
        added = tuple((name, TypedExpression("column", RECORD_TYPES[name], (), name)) for name in new)
        return replace(self, side=side, columns=(*self.columns, *added), of_records=(*self.of_records, *new))

    @property
    def schema(self) -> Schema:
        """The columns of the result."""
        return Schema(tuple(SchemaColumn(name, one.type) for name, one in self.columns))
