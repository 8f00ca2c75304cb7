"""The end of a stream: its records are appended to a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.formats.format import KEY_FORMAT, Format
from streamkit.log.topic.formats import KEY, OPAQUE_SCHEMA
from streamkit.names import check_name
from streamkit.plan.building import Building
from streamkit.plan.encoding import Encoded, Encoding, encoded, other_keys, other_settings
from streamkit.plan.event_time import EventTime, event_time_of
from streamkit.plan.node import LATER, ROUNDED, Node
from streamkit.plan.operator import Names, Operator
from streamkit.plan.operator_traits import READ, OperatorTraits
from streamkit.plan.operators.emit import EmitNode
from streamkit.plan.operators.encode import Encode
from streamkit.plan.operators.net_change import OLD
from streamkit.plan.program import Output, Program
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import Traits
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class To(Node):
    """The end of a stream: its records are appended to a topic."""

    kind: ClassVar[str] = "to"
    shape: ClassVar[str] = ROUNDED
    child: Node
    topic: str
    partitions: int | None = None
    encoding: Encoding | None = field(default=None, metadata=LATER, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.topic, "topic", self.at)
        if self.partitions is not None and self.partitions < 1:
            raise TopologyError(
                f"the topic {self.topic!r} cannot have {self.partitions} partitions; expected at least 1", self.at
            )

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        return replace(super().traits_over(below), is_sink=True)

    @property
    def subject(self) -> str:
        return self.name or self.topic

    @property
    def generated_name(self) -> str:
        return f"{self.kind}-{self.topic}"

    @property
    def as_tested(self) -> To:
        """The end as test drivers run it."""
        rows = self.child
        return replace(self, child=replace(rows, mode=rows.tested)) if isinstance(rows, EmitNode) and rows.tested else self

    def text(self) -> str:
        return f"to {self.topic}{'' if self.encoding is None else f', {self.encoding.text()}'}"

    def lower(self, building: Building) -> Step:
        rows = building.lower(self.child)
        policy = "compact" if isinstance(self.child, EmitNode) and self.child.keeps_newest else "delete"
        if policy == "compact" and not rows.key:
            raise TopologyError("a table's newest rows need a key; expected a table with key columns", self.at)
        rows, format = (rows, None) if self.encoding is None else self._encoded(self.encoding, rows, building)
        partitions = self.partitions or self.traits.partitions
        output = Output(self.topic, rows.schema, rows.key, rows.partition_by, policy, partitions, format)
        known = building.outputs.setdefault(self.topic, output)
        check_same_output(self, known, output)
        number = list(building.outputs).index(self.topic)
        kept = tuple(name for name in rows.schema.names if name.startswith(OLD)) if self.child.traits.has_old_values else ()
        return building.add(replace(rows, operator=Write(building.name(self), UNSTAGED, (rows.id,), number, kept), at=self.at))

    def _encoded(self, encoding: Encoding, rows: Step, building: Building) -> tuple[Step, Format]:
        """The step that makes bytes of the rows, and the format of the topic."""
        if self.child.traits.has_old_values:
            raise TopologyError(
                f"what goes to {self.topic!r} has the rows that changes replace, and a deletion as {encoding.value.name} has no value to hold "
                "them; expected to() without value_format=, or a table without them",
                self.at,
            )
        found = encoded(encoding, rows.schema, rows.key, self.topic, self.at)
        operator = Encode(
            f"{building.name(self)}:encode", UNSTAGED, (rows.id,), self.topic, found.format, found.keys, found.key, found.value,
            self._time(encoding, rows.schema), self._writes_nulls(found),
        )  # fmt: skip
        for step in building.steps.values():
            if isinstance(step.operator, Encode) and step.operator.topic == self.topic:
                self._check_same_keys(step.operator, operator)
        written = building.add(Step(operator, OPAQUE_SCHEMA, (KEY,), (KEY,), rows.table, self.at))
        return written, replace(found.format, topic=self.topic) if found.format.has_registry else found.format

    def _writes_nulls(self, found: Encoded) -> bool:
        """Whether a key of nulls alone is written: in the formats of ksqlDB, where one column of nulls is a key in DELIMITED only."""
        is_of_ksqldb = bool(found.format.setting(KEY_FORMAT))
        return is_of_ksqldb and self.child.traits.has_own_key and (len(found.key.names) > 1 or found.keys.name == "delimited")

    def _time(self, encoding: Encoding, rows: Schema) -> EventTime | None:
        """The column that has the time of what is written; None where that is the time of the rows."""
        if encoding.timestamp is None:
            return None
        return event_time_of(encoding.timestamp, self.topic, rows, None, self.at, encoding.timestamp_format, encoding.since_1970)

    def _check_same_keys(self, known: Encode, other: Encode) -> None:
        if reason := other_keys(known.bytes_made, other.bytes_made):
            raise TopologyError(
                f"two streams go to the topic {self.topic!r} with keys in two forms: {reason}; expected the same key_format= and key columns",
                self.at,
            )


@dataclass(frozen=True)
class Write(Operator):
    """Append the rows to output number `output`; a deletion keeps its key and the columns `kept`."""

    kind: ClassVar[str] = "write"
    traits: ClassVar[OperatorTraits] = OperatorTraits(stage_min=1, headers=READ)
    output: int
    kept: tuple[str, ...] = ()

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names)

    @property
    def output_written(self) -> int:
        return self.output

    def text(self) -> str:
        return f"write: output {self.output}"

    def faults(self, program: Program) -> list[str]:
        is_there = self.stage > 0 and 0 <= self.output < len(program.outputs)
        return [] if is_there else [f"{self.id} writes an output that is not there"]


def check_same_output(node: To, known: Output, output: Output) -> None:
    """TopologyError if two streams that go to one topic differ."""
    same_rows = {(c.name, c.type) for c in known.schema} == {(c.name, c.type) for c in output.schema}
    one, other = known.format, output.format
    if one and other and replace(one, settings=()) == replace(other, settings=()):
        if reason := other_settings(dict(other.settings), dict(one.settings)):
            raise TopologyError(f"two different streams go to the topic {node.topic!r}: {reason}", node.at)
        one = other
    if not same_rows or (known.key, known.cleanup_policy, known.partitions, one) != (
        output.key,
        output.cleanup_policy,
        output.partitions,
        other,
    ):
        forms = ["" if one is None else f"; {one.name}" for one in (known.format, output.format)]
        raise TopologyError(
            f"two different streams go to the topic {node.topic!r}; expected the same columns, key, kind and format\n"
            f"  the one:   {known.schema}; key {list(known.key)}; {known.cleanup_policy}{forms[0]}\n"
            f"  the other: {output.schema}; key {list(output.key)}; {output.cleanup_policy}{forms[1]}",
            node.at,
        )
