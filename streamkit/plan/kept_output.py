"""The store that has the rows of an output: of a topic that a program keeps up to date as a table."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.plan.operator import RowStep, port_of, source_of
from streamkit.plan.program import Program

LATEST = "latest"


@dataclass(frozen=True)
class KeptOutput:
    """A store, and the steps from its rows to those of an output."""

    store: str
    steps: tuple[RowStep, ...] = ()


def kept_output(program: Program, topic: str) -> KeptOutput | None:
    """
    The store that has the rows which a program keeps a topic up to date with.

    None if the topic has something else: records, final results, or rows of a join that no store keeps. No step of a table leaves failing rows
    out.
    """
    operators = {operator.id: operator for operator in program.operators}
    outputs = [number for number, output in enumerate(program.outputs) if output.topic == topic]
    writes = [one for one in operators.values() if one.output_written in outputs]
    if len(writes) != 1 or program.outputs[outputs[0]].cleanup_policy != "compact":
        return None
    steps: list[RowStep] = []
    at = writes[0]
    while len(at.inputs) == 1:
        above = operators[source_of(at.inputs[0])]
        if port_of(at.inputs[0]) == LATEST:
            return None if above.newest_rows is None else KeptOutput(above.newest_rows, tuple(reversed(steps)))
        if above.row_step is None:
            return None
        steps.append(above.row_step)
        at = above
    return None
