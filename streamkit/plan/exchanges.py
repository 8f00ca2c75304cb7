"""Pass `insert_exchanges`: rows move by key wherever a step runs in a later stage than its input."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamkit.plan.program import Aggregate, Edge, Materialize, Receive, Send, TableJoin
from streamkit.plan.steps import Plan, Step


@dataclass(frozen=True)
class Exchange:
    """How rows move: by which columns, and whether those without a key do."""

    key: tuple[str, ...]
    keep_null_keys: bool


def insert_exchanges(plan: Plan) -> Plan:
    """
    Put a `Send` behind the input and a `Receive` before the step, by the key the step needs.

    A table moves by its key, a stream by the columns it is joined on (rows without a key only where a left join keeps
    them) or grouped by, and to an output by its own key.

        Source → Aggregate   becomes   Source → Send … Receive → Aggregate
    """
    steps: list[Step] = []
    edges: list[Edge] = []
    for step in plan.steps:
        inputs = []
        for name in step.inputs:
            source = plan.step(name)
            inputs.append(name if source.stage == step.stage else _exchange(source, step, steps, edges))
        steps.append(replace(step, operator=replace(step.operator, inputs=tuple(inputs))))
    return replace(plan.with_steps(steps), edges=tuple(edges))


def exchange_of(step: Step) -> Exchange:
    """How the rows that a step takes must be spread over the tasks."""
    operator = step.operator
    if isinstance(operator, TableJoin):
        return Exchange(operator.on, operator.how == "left")
    if isinstance(operator, Aggregate):
        return Exchange(operator.key, False)
    return Exchange(step.partition_by, not isinstance(operator, Materialize))


def _exchange(source: Step, step: Step, steps: list[Step], edges: list[Edge]) -> str:
    """Add both ends of an edge; the id of the end that receives."""
    exchange = exchange_of(step)
    edge = Edge(len(edges), source.stage, step.stage, exchange.key, source.schema)
    send = Send(f"{step.id}:send", source.stage, (source.id,), edge.number, exchange.keep_null_keys)
    receive = Receive(f"{step.id}:receive", step.stage, (send.id,), edge.number)
    edges.append(edge)
    steps += [replace(source, operator=send), replace(source, operator=receive)]
    return receive.id
