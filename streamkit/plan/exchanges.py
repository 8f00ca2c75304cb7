"""Pass `insert_exchanges`: rows move by key wherever a step runs in a later stage than its input."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from streamkit.plan.operator import Exchange
from streamkit.plan.operators.exchange import Receive, Send
from streamkit.plan.program import Edge
from streamkit.plan.steps import Plan, Step


def insert_exchanges(plan: Plan) -> Plan:
    """
    Put a `Send` behind the input and a `Receive` before the step, by the key the step needs.

    A table moves by its key. A stream moves by the columns it is joined on or grouped by, and to an output by its own key.
    Rows without a key move only where a left join or an output keeps them. Steps of one stage share an exchange if they need the
    same rows by the same key; those that write rows share none with others, because such rows travel by the partition they go to.

        Source → Aggregate   becomes   Source → Send … Receive → Aggregate
    """
    moves = _Moves()
    for step in plan.steps:
        inputs = tuple(_input(plan, step, place, moves) for place in range(len(step.inputs)))
        moves.steps.append(replace(step, operator=replace(step.operator, inputs=inputs)))
    return replace(plan.with_steps(moves.steps), edges=tuple(moves.edges))


@dataclass
class _Moves:
    """The steps and edges so far; `shared` has the receiving ends that other steps may use, by input, stage, exchange, and whether they write."""

    steps: list[Step] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    shared: dict[tuple[str, int, Exchange, bool], str] = field(default_factory=dict)


def _input(plan: Plan, step: Step, place: int, moves: _Moves) -> str:
    name = step.inputs[place]
    source = plan.step(name)
    if source.stage == step.stage:
        return name
    exchange = step.operator.exchange(place, source) or Exchange(source.partition_by, keep_null_keys=True)
    if step.operator.folds:  # these rows are folded before they travel, so no other step takes them
        return _moved(step, place, source, exchange, moves)
    writes = step.operator.output_written is not None or step.operator.bytes_made is not None
    what = (name, step.stage, exchange, writes)
    if what not in moves.shared:
        moves.shared[what] = _moved(step, place, source, exchange, moves)
    return moves.shared[what]


def _moved(step: Step, place: int, source: Step, exchange: Exchange, moves: _Moves) -> str:
    """Add both ends of an edge, and return the id of the end that receives."""
    name = step.inputs[place]
    edge = Edge(len(moves.edges), source.stage, step.stage, exchange.key, source.schema)
    ends = f"{step.id}:{place}:" if place else f"{step.id}:"
    send = Send(
        f"{ends}send",
        source.stage,
        (name,),
        edge.number,
        exchange.key,
        exchange.keep_null_keys,
        null_keys_by=exchange.null_keys_by,
    )
    receive = Receive(f"{ends}receive", step.stage, (send.id,), edge.number, exchange.key)
    moves.edges.append(edge)
    moves.steps += [replace(source, operator=send), replace(source, operator=receive)]
    return receive.id
