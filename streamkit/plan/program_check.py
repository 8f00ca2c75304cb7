"""What holds of every program; a violation is a mistake of the compiler, or of whoever wrote the JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streamkit.plan.program import Aggregate, Materialize, Operator, Program, Receive, Send, Source, TableJoin, Write


def check_program(program: Program) -> None:
    """
    Raise ValueError unless the program is sound.

    Ids differ and inputs stand before those that take them; rows change the stage only from the `Send` to the `Receive`
    of one edge; readers hold no state; stores, inputs and outputs that are named exist.
    """
    _check_distinct((operator.id for operator in program.operators), "operator")
    _check_distinct((store.name for store in program.stores), "store")
    _check_distinct((output.topic for output in program.outputs), "output")
    known: dict[str, Operator] = {}
    for operator in program.operators:
        _check_inputs(operator, known)
        _check_names(operator, program)
        known[operator.id] = operator
    _check_edges(program)


def _check_distinct(names: Iterable[str], what: str) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    _require(not repeated, f"the {what} {repeated[:1]} occurs twice")


def _check_inputs(operator: Operator, known: dict[str, Operator]) -> None:
    for name in operator.inputs:
        _require(name in known, f"{operator.id} takes rows of {name}, which does not stand before it")
        crosses = isinstance(operator, Receive) and isinstance(known[name], Send)
        _require(
            crosses or known[name].stage == operator.stage,
            f"{operator.id} takes rows of {name} in another stage without an exchange",
        )
    if isinstance(operator, Aggregate):
        source = known[operator.inputs[0]]
        _require(
            isinstance(source, Receive) and source.folded == operator.folded, f"{operator.id} does not stand behind its exchange"
        )


def _check_names(operator: Operator, program: Program) -> None:
    _require(isinstance(operator, Source) == (not operator.inputs), f"{operator.id} takes {len(operator.inputs)} inputs")
    if isinstance(operator, Source):
        _require(
            operator.stage == 0 and 0 <= operator.input < len(program.inputs), f"{operator.id} reads an input that is not there"
        )
    if isinstance(operator, Write):
        _require(
            operator.stage > 0 and 0 <= operator.output < len(program.outputs),
            f"{operator.id} writes an output that is not there",
        )
    if isinstance(operator, (Aggregate, Materialize, TableJoin)):
        stages = [store.stage for store in program.stores if store.name == operator.store]
        _require(operator.stage > 0 and stages == [operator.stage], f"{operator.id} has no store {operator.store!r} in its stage")


def _check_edges(program: Program) -> None:
    sends = [operator for operator in program.operators if isinstance(operator, Send)]
    receives = [operator for operator in program.operators if isinstance(operator, Receive)]
    numbers = [edge.number for edge in program.edges]
    _require(numbers == list(range(len(numbers))), f"the edges have the numbers {numbers}")
    _require(sorted(send.edge for send in sends) == numbers, "not every edge has one Send")
    _require(sorted(receive.edge for receive in receives) == numbers, "not every edge has one Receive")
    for operator in sends + receives:
        edge = program.edges[operator.edge]
        stage = edge.from_stage if isinstance(operator, Send) else edge.to_stage
        _require(
            operator.stage == stage and edge.from_stage < edge.to_stage, f"{operator.id} is not at its end of edge {edge.number}"
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(f"the program is not sound: {message}")
