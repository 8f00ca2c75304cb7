"""Operators of a program in one line each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from streamkit.plan.duration import duration_text
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.plan.expression_text import typed_text
from streamkit.plan.program import (
    Aggregate,
    Emit,
    Filter,
    Fold,
    GlobalJoin,
    Materialize,
    Operator,
    Project,
    Receive,
    Send,
    Source,
    TableJoin,
    Windows,
    Write,
)


@singledispatch
def operator_text(operator: Operator) -> str:
    """What an operator does."""
    return operator.kind


@operator_text.register
def _(operator: Source) -> str:
    return f"source: input {operator.input}, columns {_list(operator.columns)}"


@operator_text.register
def _(operator: Filter) -> str:
    return f"filter{_of_table(operator.table)}: {typed_text(operator.predicate)}"


@operator_text.register
def _(operator: Project) -> str:
    return f"project{_of_table(operator.table)}: {_columns(operator.columns)}"


@operator_text.register
def _(operator: Send) -> str:
    return f"send: edge {operator.edge}" + (", null keys too" if operator.keep_null_keys else "")


@operator_text.register
def _(operator: Receive) -> str:
    return f"receive: edge {operator.edge}" + (", folded" if operator.folded else "")


@operator_text.register
def _(operator: Materialize) -> str:
    return f"materialize: store {operator.store}"


@operator_text.register
def _(operator: TableJoin) -> str:
    return f"table join: {operator.how}, store {operator.store}, on {_list(operator.on)}, gives {_sources(operator.columns)}"


@operator_text.register
def _(operator: GlobalJoin) -> str:
    steps = "".join(f"; table {operator_text(step)}" for step in operator.table)
    return (
        f"global join: {operator.how}, input {operator.input}, on {_list(operator.on)}, gives {_sources(operator.columns)}{steps}"
    )


@operator_text.register
def _(operator: Windows) -> str:
    times = f"size {duration_text(operator.size_ms)}, advance {duration_text(operator.advance_ms)}"
    return f"windows: {times}, grace {duration_text(operator.grace_ms)}, key {_list(operator.key)}"


@operator_text.register
def _(operator: Fold) -> str:
    return f"fold: by {_list(operator.key)}{_per_window(operator.windowed)}: {aggregates_text(operator.aggregates)}"


@operator_text.register
def _(operator: Aggregate) -> str:
    emitted = f", emits {_list(operator.modes)}" if operator.modes else ""
    by = f"by {_list(operator.key)}{_per_window(operator.size_ms is not None)}"
    return f"aggregate: {by}, store {operator.store}{emitted}: {aggregates_text(operator.aggregates)}"


@operator_text.register
def _(operator: Emit) -> str:
    return f"emit: {operator.mode}"


@operator_text.register
def _(operator: Write) -> str:
    return f"write: output {operator.output}"


def aggregates_text(aggregates: Iterable[TypedAggregate]) -> str:
    """Aggregates as `name = function(argument): type`."""
    return ", ".join(
        f"{one.name} = {one.function}({typed_text(one.argument) if one.argument else '*'}): {one.type}" for one in aggregates
    )


def _columns(columns: Iterable[tuple[str, TypedExpression]]) -> str:
    texts = ((name, typed_text(expression)) for name, expression in columns)
    return _list(name if text == name else f"{name} = {text}" for name, text in texts)


def _sources(columns: Iterable[tuple[str, str]]) -> str:
    return _list(name if source == f"left.{name}" else f"{name} = {source}" for name, source in columns)


def _of_table(table: bool) -> str:
    return " (table)" if table else ""


def _per_window(windowed: bool) -> str:
    return " and window" if windowed else ""


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
