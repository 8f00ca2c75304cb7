"""What each step of an application has done since its first start: rows, busy time, and the rows it left out, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamkit.engine.epoch.row_counting import SAMPLED_ROWS, STORE_ROWS
from streamkit.engine.runs.epoch_report import BUSY_US, ROWS_IN, ROWS_OUT
from streamkit.engine.stage.context import CHANGES, READ, WRITTEN
from streamkit.plan.naming import step_of
from streamkit.plan.operator import Operator, source_of
from streamkit.plan.program import Program

# Counts that are of steps but no reason to leave rows out, and those of topics and stores, one of which may have the name of a step.
OTHER_COUNTS = (ROWS_IN, ROWS_OUT, BUSY_US, READ, WRITTEN, CHANGES, STORE_ROWS, SAMPLED_ROWS)


@dataclass(frozen=True)
class StepFigures:
    """
    A step, by the name that `explain` shows, in the order of the program.

    `rows_in` are the rows that it took from other steps, or from its topic, and `rows_out` those that other steps took; of a step behind which
    there is none, those that it made. `busy_us` adds up the time of all tasks. `counts` has rows by metric: `late`, `null_key`, `error` ….
    """

    step: str
    rows_in: int
    rows_out: int
    busy_us: int
    counts: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """The figures as plain values."""
        return {**vars(self), "counts": dict(self.counts)}


def step_figures(program: Program, totals: Mapping[str, Any]) -> tuple[StepFigures, ...]:
    """The figures of each step, from the totals that the catalog keeps of an application."""
    steps: dict[str, list[Operator]] = {}
    for operator in program.operators:
        steps.setdefault(step_of(operator.id), []).append(operator)
    taken_by: dict[str, set[str]] = {}
    for operator in program.operators:
        for name in operator.inputs:
            taken_by.setdefault(name, set()).add(step_of(operator.id))
    reasons = [name for name, value in totals.items() if isinstance(value, dict) and name not in OTHER_COUNTS]
    found = []
    for step, operators in steps.items():
        ids = {step, *(operator.id for operator in operators)}
        counts = {reason: sum(rows for name, rows in totals[reason].items() if name in ids) for reason in reasons}
        found.append(
            StepFigures(
                step,
                sum(_rows_in(operator, totals) for operator in operators),
                _rows_out(operators, taken_by, totals),
                sum(_by_name(totals, BUSY_US).get(operator.id, 0) for operator in operators),
                {reason: rows for reason, rows in counts.items() if rows},
            )
        )
    return tuple(found)


def _rows_in(operator: Operator, totals: Mapping[str, Any]) -> int:
    """The rows that an operator took which no operator of its own step had made."""
    made = _by_name(totals, ROWS_OUT)
    if operator.input_read is not None:
        return made.get(operator.id, 0)
    own = sum(made.get(name, 0) for name in operator.inputs if step_of(source_of(name)) == step_of(operator.id))
    return max(0, _by_name(totals, ROWS_IN).get(operator.id, 0) - own)


def _rows_out(operators: list[Operator], taken_by: Mapping[str, set[str]], totals: Mapping[str, Any]) -> int:
    """The rows of a step that others took; if nobody takes any, those of its last operator, which an output takes as they came."""
    made, taken = _by_name(totals, ROWS_OUT), _by_name(totals, ROWS_IN)
    ids, step = {operator.id for operator in operators}, step_of(operators[0].id)
    for_others = {name for name, steps in taken_by.items() if source_of(name) in ids and steps - {step}}
    if for_others:
        return sum(made.get(name, 0) for name in for_others)
    last = operators[-1]
    return made.get(last.id, 0) or taken.get(last.id, 0)


def _by_name(totals: Mapping[str, Any], metric: str) -> Mapping[str, int]:
    found: Mapping[str, int] = totals.get(metric, {})
    return found
