"""Records moved by their key, whatever comes behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.node import Node
from streamkit.plan.operator import Exchange, Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.stateless import passed
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import Traits
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class RepartitionNode(Node):
    """The records of a stream, moved by their key; new topics behind it have `partitions` unless they say otherwise."""

    kind: ClassVar[str] = "repartition"
    child: Node
    partitions: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partitions is not None and (not isinstance(self.partitions, int) or self.partitions < 1):
            raise TopologyError(f"repartition() was given {self.partitions!r} partitions; expected at least 1", self.at)

    @property
    def subject(self) -> str:
        return self.name or self.child.subject

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        rows = super().traits_over(below)
        return replace(rows, partitions=self.partitions or rows.partitions)

    def text(self) -> str:
        return "repartition" + (f" into {self.partitions} partitions" if self.partitions else "")

    def lower(self, building: Building) -> Step:
        rows = building.lower(self.child)
        if not rows.partition_by:
            raise TopologyError(
                "repartition() moves records by their key, and the stream has none; expected select_key(…) before", self.at
            )
        keeps = building.demands[self].null_keys
        operator = Repartition(building.name(self), UNSTAGED, (rows.id,), rows.partition_by, keeps)
        return building.add(replace(rows, operator=operator, at=self.at))


@dataclass(frozen=True)
class Repartition(Operator):
    """Move the rows by `key`; those whose key is null are dropped unless `keep_null_keys`."""

    kind: ClassVar[str] = "repartition"
    traits: ClassVar[OperatorTraits] = OperatorTraits(waits_for_record=True, stage_min=1)
    key: Key
    keep_null_keys: bool

    def exchange(self, place: int, rows: Step) -> Exchange:
        return Exchange(self.key, self.keep_null_keys)

    def partitioning(self, inputs: Sequence[Key | None]) -> Key:
        return self.key

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed | frozenset(self.key)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return passed(step, rows)

    def text(self) -> str:
        return f"repartition: by {listed(self.key)}" + (", null keys too" if self.keep_null_keys else "")
