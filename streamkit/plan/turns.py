"""
Pass `take_turns`: in which order operators get what one record causes.

One record may reach an operator by several ways. The order is that of Kafka Streams (`streamkit.plan.visit`): operators are numbered as a
record visits them, and inputs where an operator has several. Records of two inputs of the program may visit the same in two orders; then
each input has its own numbers. Paths are made of these numbers (`streamkit.engine.rows.place`).
"""

from __future__ import annotations

from dataclasses import replace

from streamkit.plan.lookups import seen_from, sharing
from streamkit.plan.program import InputTurn, Turn
from streamkit.plan.steps import Plan, Step
from streamkit.plan.visit import Visit
from streamkit.plan.ways import Ways


def take_turns(plan: Plan) -> Plan:
    """
    Number the operators, and their inputs, in the order in which they get what a record causes.

    An operator with several inputs also learns from when on the rows of each are seen by who looks them up, and whether one record may
    cause rows of several.
    """
    sources = sorted((step for step in plan.steps if step.operator.input_read is not None), key=lambda step: step.declared)
    visit = Visit.of(Ways(plan), sources)
    usual = _numbers(plan, visit)
    shares, looked_through = sharing(plan, visit)
    of_inputs = _of_inputs(plan, visit, sources, shares, usual) if shares else []
    is_one = all(numbers is usual for numbers in of_inputs)
    moments = sorted({step.declared for step in plan.steps})  # without those of other topologies before
    declared = {moment: place for place, moment in enumerate(moments)}
    turns = {}
    for step in plan.steps:
        own, inputs, seen = (found := usual[step.id]).own, found.inputs, found.seen
        by_input = () if is_one else tuple(numbers[step.id] for numbers in of_inputs)
        turns[step.id] = Turn(own, declared[step.declared], inputs, seen, step.id in shares, step.id in looked_through, by_input)
    return replace(plan, turns=turns)


def _of_inputs(
    plan: Plan, visit: Visit, sources: list[Step], shares: set[str], usual: dict[str, InputTurn]
) -> list[dict[str, InputTurn]]:
    """
    The numbers by step for records of each input.

    They are the usual ones, those of a visit, unless records of the input visit what they do in another order.
    """
    order = visit.numbers_in_paths(shares)
    found = []
    for number in range(1 + max(source.operator.input_read or 0 for source in sources)):
        first = [source for source in sources if source.operator.input_read == number]
        own = Visit.of(visit.ways, first).numbers_in_paths(shares)
        in_turn = [order[one] for one in sorted(own, key=own.__getitem__)]
        if in_turn == sorted(in_turn):
            found.append(usual)
        else:
            others = [source for source in sources if source.operator.input_read != number]
            found.append(_numbers(plan, Visit.of(visit.ways, [*first, *others])))
    return found


def _numbers(plan: Plan, visit: Visit) -> dict[str, InputTurn]:
    """The numbers of a visit by step."""
    seen, found = seen_from(plan, visit), {}
    for step in plan.steps:
        several = list(step.sources) if len(step.sources) > 1 else []
        inputs = tuple(visit.inputs.get((step.id, place), 0) for place in range(len(several)))
        at_once = tuple(min(seen[name], number) for name, number in zip(several, inputs, strict=True))  # kept before they come
        found[step.id] = InputTurn(visit.own.get(step.id, 0), inputs, at_once)
    return found
