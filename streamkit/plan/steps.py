"""The plan between topology and program: typed operators, each with what is known about the rows that leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from streamkit.errors import Location
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_places import ExpressionPlaces
from streamkit.plan.on_error import OnError
from streamkit.plan.operator import Operator, source_of
from streamkit.plan.program import Edge, Input, Naming, Output, ProgramStore, StepLabel, Structures, Turn
from streamkit.schema import Schema, SchemaColumn

UNSTAGED = -1


@dataclass(frozen=True)
class Step:
    """
    An operator, and the rows that leave it: their own columns, their key, and the part of it that chooses a partition.

    `table` says that rows may delete their key. `at` is the user's line, `declared` when the step was declared, among all, and
    `became_table` when the stream was declared to be a table of which the rows are, which adds no step. `grouped_at` says when each
    input was grouped by another key, if it was. `has_row_times` says that a change
    may bring a row of another time than its own: that of what a join has left without a partner.
    """

    operator: Operator
    schema: Schema
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    table: bool = False
    at: Location | None = field(default=None, compare=False, repr=False)
    declared: int = field(default=0, compare=False, repr=False)
    became_table: int | None = field(default=None, compare=False, repr=False)
    grouped_at: tuple[int | None, ...] = field(default=(), compare=False, repr=False)
    has_row_times: bool = False

    @property
    def id(self) -> str:
        return self.operator.id

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.operator.inputs

    @property
    def sources(self) -> tuple[str, ...]:
        return self.operator.sources

    @property
    def stage(self) -> int:
        return self.operator.stage


@dataclass(frozen=True)
class Plan:
    """Steps in topological order, the topics, exchanges and stores they name, and which of them leave out rows that fail, and how."""

    application: str
    steps: tuple[Step, ...]
    inputs: tuple[Input, ...]
    stores: tuple[ProgramStore, ...] = ()
    outputs: tuple[Output, ...] = ()
    edges: tuple[Edge, ...] = ()
    on_error: Mapping[str, OnError] = field(default_factory=dict)
    structures: Structures = field(default=Structures(), compare=False, repr=False)
    namings: Mapping[str, Naming] = field(default_factory=dict, compare=False, repr=False)
    labels: Mapping[str, StepLabel] = field(default_factory=dict, compare=False, repr=False)
    turns: Mapping[str, Turn] = field(default_factory=dict, compare=False, repr=False)
    places: ExpressionPlaces = field(default_factory=dict, compare=False, repr=False)

    def step(self, step_id: str) -> Step:
        """The step of that id, or the one behind an input's name."""
        return self._by_id[source_of(step_id)]

    def consumers(self, step_id: str) -> tuple[Step, ...]:
        """The steps that take the rows of one."""
        return tuple(step for step in self.steps if step_id in step.sources)

    def with_steps(self, steps: Iterable[Step]) -> Plan:
        """The plan with other steps, sorted by stage, inputs before those that take them."""
        return replace(self, steps=tuple(sorted(steps, key=lambda step: step.stage)))

    @property
    def stages(self) -> int:
        """The number of kernels."""
        return max((step.stage for step in self.steps), default=0)

    @cached_property
    def _by_id(self) -> dict[str, Step]:
        return {step.id: step for step in self.steps}


Pass = Callable[[Plan], Plan]


def with_operator(step: Step, schema: Schema | None = None, **changes: object) -> Step:
    """The step with fields of its operator changed, and its schema if one is given."""
    operator = replace(step.operator, **changes)  # type: ignore[arg-type]
    return replace(step, operator=operator, schema=step.schema if schema is None else schema)


def column_of(schema: Schema, name: str) -> TypedExpression:
    """A column as it is."""
    return TypedExpression("column", schema[name].type, (), name)


def typed_columns(columns: Iterable[tuple[str, TypedExpression]], schema: Schema) -> tuple[SchemaColumn, ...]:
    """The columns that named expressions over `schema` give."""
    return tuple(SchemaColumn(name, expression.type, _nullable(expression, schema)) for name, expression in columns)


def _nullable(expression: TypedExpression, schema: Schema) -> bool:
    return not (expression.name == "column" and not schema[str(expression.value)].nullable)
