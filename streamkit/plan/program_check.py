"""The invariants of every program; a violation is a bug of the compiler, or a mistake in hand-written JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streamkit.plan.operator import Operator, source_of
from streamkit.plan.program import Program


def check_program(program: Program) -> None:
    """
    Raise ValueError unless the program is sound.

    Ids are distinct, and an operator comes after its inputs. Rows change the stage only from the sending to the receiving end
    of one edge. Readers hold no state. Stores, inputs and outputs that are named exist.
    """
    _check_distinct((operator.id for operator in program.operators), "operator")
    _check_distinct((store.name for store in program.stores), "store")
    _check_distinct((output.topic for output in program.outputs), "output")
    _check_distinct((name for operator in program.operators for name in operator.stores), "keeper of store")
    numbers = [edge.number for edge in program.edges]
    _require(numbers == list(range(len(numbers))), f"the edges have the numbers {numbers}")
    known: dict[str, Operator] = {}
    for operator in program.operators:
        _check_inputs(operator, known)
        _require(not operator.ticks_ms or operator.stage > 0, f"{operator.id} ticks in the readers, which run with records only")
        for fault in operator.faults(program):
            _require(False, fault)
        known[operator.id] = operator
    for kind, what in (("send", "Send"), ("receive", "Receive")):
        ends = sorted(operator.edge for operator in program.operators if operator.kind == kind)  # type: ignore[attr-defined]
        _require(ends == numbers, f"not every edge has one {what}")


def _check_distinct(names: Iterable[str], what: str) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    _require(not repeated, f"the {what} {repeated[:1]} occurs twice")


def _check_inputs(operator: Operator, known: dict[str, Operator]) -> None:
    _require((operator.input_read is not None) == (not operator.inputs), f"{operator.id} takes {len(operator.inputs)} inputs")
    for name in map(source_of, operator.inputs):
        _require(name in known, f"{operator.id} takes rows of {name}, which does not stand before it")
        crosses = (known[name].kind, operator.kind) == ("send", "receive")
        _require(
            crosses or known[name].stage == operator.stage,
            f"{operator.id} takes rows of {name} in another stage without an exchange",
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(f"the program is not sound: {message}")
