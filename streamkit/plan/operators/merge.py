"""Streams as one: the records of all, each at its own place in the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.keys import make_schema
from streamkit.plan.node import Node, shortened, words
from streamkit.plan.operator import Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.origin import Origin
from streamkit.plan.steps import UNSTAGED, Step, with_operator
from streamkit.plan.traits import STREAM, Traits
from streamkit.schema import Schema, SchemaColumn


@dataclass(frozen=True, eq=False, repr=False)
class MergeNode(Node):
    """The records of several streams with the same columns and key."""

    lowers_children: ClassVar[bool] = True
    kind: ClassVar[str] = "merge"
    streams: tuple[Node, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.streams) < 2:
            raise TopologyError("merge() was given no stream; expected at least one", self.at)
        for stream in self.streams:
            if stream.relation != STREAM:
                raise TopologyError(f"a stream cannot be merged with a {words(stream.relation)}; expected a stream", self.at)

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        return replace(
            super().traits_over(below),
            are_records=all(one.are_records for one in below),
            has_own_key=all(one.has_own_key for one in below),
        )

    @cached_property
    def subject(self) -> str:
        return self.name or shortened("-".join(stream.subject for stream in self.streams))

    def text(self) -> str:
        return f"merge {', '.join(stream.subject for stream in self.streams)}"

    def lower(self, building: Building) -> Step:
        rows = [building.lower(stream) for stream in self.streams]
        first = rows[0]
        for other in rows[1:]:
            _check_alike(self, first, other)
        columns = [SchemaColumn(c.name, c.type, any(one.schema[c.name].nullable for one in rows)) for c in first.schema]
        partition_by = first.partition_by if all(one.partition_by == first.partition_by for one in rows) else first.key
        operator = Merge(building.name(self), UNSTAGED, tuple(one.id for one in rows), first.schema.names)
        schema = make_schema(columns, self.at)
        return building.add(Step(operator, schema, first.key, partition_by, any(one.table for one in rows), self.at))


@dataclass(frozen=True)
class Merge(Operator):
    """The rows of all inputs, with these columns in this order."""

    kind: ClassVar[str] = "merge"
    traits: ClassVar[OperatorTraits] = OperatorTraits(mixes_inputs=True)
    columns: Key

    def partitioning(self, inputs: Sequence[Key | None]) -> Key | None:
        return inputs[0] if all(one == inputs[0] for one in inputs) else None

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        kept = tuple(name for name in self.columns if name in needed)
        return with_operator(step, step.schema.select(kept), columns=kept)

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        """All rows; a column is what it is in each of the inputs."""
        columns = {column: " or ".join(dict.fromkeys(one.of(column) for one in above)) for column in self.columns}
        return above[0].but(" and ".join(one.rows for one in above), columns)

    def text(self) -> str:
        return f"merge: {listed(self.sources)}"


def _check_alike(node: MergeNode, first: Step, other: Step) -> None:
    """TopologyError unless two streams have the same columns, types and key."""
    columns, others = ({(column.name, column.type) for column in one.schema} for one in (first, other))
    if columns != others or first.key != other.key:
        raise TopologyError(
            "streams that are merged have the same columns, types and key; expected select(…) or rename(…) before\n"
            f"  the one:   {first.schema}; key {list(first.key)}\n"
            f"  the other: {other.schema}; key {list(other.key)}",
            node.at,
        )
