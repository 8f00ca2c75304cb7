"""
The graph of a program alone, as the catalog keeps it: the operators of a step are one box.

It has what runs, so a step that does nothing when it runs has no box, and a table that is kept for a join shows its store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from streamkit.plan.graph.graph import SINK, SOURCE, STEP, Box, Graph, numbered_flows
from streamkit.plan.graph.topology_graph import step_box
from streamkit.plan.naming import step_of
from streamkit.plan.node import words
from streamkit.plan.operator import Operator
from streamkit.plan.program import Input, Program, StepLabel
from streamkit.plan.traits import STREAM


def graph_of_program(program: Program) -> Graph:
    """The graph of a program: its inputs, its steps with all stores that they keep, its outputs; without connectors, which it does not name."""
    box_of = _boxes_of_steps(program)
    steps: dict[str, list[Operator]] = {}
    for operator in program.operators:
        steps.setdefault(box_of[step_of(operator.id)], []).append(operator)
    whole = {step: read for operator in program.operators for step, read in _read_whole(operator, program).items()}
    boxes = [_box_read_whole(step, program, read) for step, read in whole.items() if step not in steps]
    boxes += [_box(step, program, operators) for step, operators in steps.items()]
    return Graph(program.application, tuple(boxes), numbered_flows(_ends(program, box_of)))


def _boxes_of_steps(program: Program) -> dict[str, str]:
    """
    The box of each step: its own, or that of the step whose rows it keeps.

    Beside the steps that were declared there are those that keep their rows for others: these have no label. In a program without labels
    they have no operator of their name.
    """
    declared = program.labels.keys() or {operator.id for operator in program.operators}
    box_of: dict[str, str] = {}
    for operator in program.operators:
        step = step_of(operator.id)
        is_own = step in declared or not operator.sources
        box_of.setdefault(step, step if is_own else box_of[step_of(operator.sources[0])])
    return box_of


def _ends(program: Program, box_of: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """
    From which box to which rows go, as often as one of its operators takes them, by whatever way inside the box.

    Exchanges are on the way and no more: two steps may share one.
    """
    ways: dict[
        str, Counter[str]
    ] = {}  # for each operator from which boxes it takes rows, and how often; for an exchange its source
    ends = Counter[tuple[str, str]]()
    for operator in program.operators:
        box = box_of[step_of(operator.id)]
        taken = Counter[str]()
        for source in operator.sources:
            start = box_of[step_of(source)]
            taken += ways[source] if start == box or program.operator(source).traits.moves_rows else Counter([start])
        ways[operator.id] = taken
        if not operator.traits.moves_rows:
            ends |= Counter({(start, box): count for start, count in taken.items() if start != box})
    yield from ends.elements()
    whole = [[*_read_whole(operator, program), box_of[step_of(operator.id)]] for operator in program.operators]
    yield from dict.fromkeys(pair for way in whole for pair in pairwise(way))


def _read_whole(operator: Operator, program: Program) -> dict[str, Input | Operator]:
    """The steps between a topic that is read whole and the operator that takes its rows, which stand in that one, from the source on."""
    if operator.input_read_whole is None:
        return {}
    read = program.inputs[operator.input_read_whole]
    steps: dict[str, Input | Operator] = {step_of(one.id): one for one in operator.steps_of_whole}
    steps.pop(step_of(operator.id), None)
    source = next((step for step in steps if _is_source(step, program)), f"{read.kind}-{read.topic}")
    return {source: read} | {step: one for step, one in steps.items() if step != source}


def _is_source(step: str, program: Program) -> bool:
    label = program.labels.get(step)
    return label is not None and label.kind == SOURCE


def _box_read_whole(step: str, program: Program, read: Operator | Input) -> Box:
    label = program.labels.get(step)
    if isinstance(read, Input):
        return step_box(step, label or _source_label(read), read.topic)
    return step_box(step, label or StepLabel(STEP, STREAM, (read.text(),)), note=read.text())


def _box(step: str, program: Program, operators: list[Operator]) -> Box:
    label = program.labels.get(step) or _label(step, program, operators)
    topics = [program.inputs[one.input_read].topic for one in operators if one.input_read is not None]
    topics += [
        program.outputs[one.output_written].topic for one in operators if one.output_written is not None and one.id == step
    ]
    stores = [store for operator in operators for store in operator.stores]
    note = "\n".join(operator.text() for operator in operators)
    box = step_box(step, label, next(iter(topics), None), stores, note)
    return replace(box, steps=tuple(dict.fromkeys(step_of(one.id) for one in operators)))


def _label(step: str, program: Program, operators: list[Operator]) -> StepLabel:
    """The label of a step in a program that says none: what is read or written, else what its own operator does."""
    for one in operators:
        if one.input_read is not None:
            return _source_label(program.inputs[one.input_read])
        if one.output_written is not None and one.id == step:
            return StepLabel(SINK, "", (f"to {program.outputs[one.output_written].topic}",))
    own = next((one for one in operators if one.id == step), operators[-1])
    return StepLabel(STEP, STREAM, (own.text(),))


def _source_label(read: Input) -> StepLabel:
    key = (f"key {', '.join(read.key)}",) if read.key else ()
    return StepLabel(SOURCE, read.kind, (f"{words(read.kind)} {read.topic}", *key))
