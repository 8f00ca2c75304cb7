"""The passes from typed operators to a program, in order; each is a pure function of the plan."""

from __future__ import annotations

import platform
from dataclasses import replace

from streamkit.plan.exchanges import insert_exchanges
from streamkit.plan.location import TextLocation
from streamkit.plan.on_error import DEAD_LETTER, NOTE, DeadLetterTopic, NotedTopic, OnError
from streamkit.plan.partials import push_partial_aggregation
from streamkit.plan.program import Program
from streamkit.plan.program_check import check_program
from streamkit.plan.pruning import prune_columns
from streamkit.plan.stages import assign_stages
from streamkit.plan.steps import Pass, Plan
from streamkit.plan.turns import take_turns

PASSES: tuple[Pass, ...] = (assign_stages, insert_exchanges, push_partial_aggregation, take_turns, prune_columns)


def assemble(plan: Plan) -> Program:
    """The program of a plan that went through all passes; its invariants are checked."""
    program = Program(
        application=plan.application,
        inputs=plan.inputs,
        operators=tuple(step.operator for step in plan.steps),
        edges=plan.edges,
        stores=tuple(replace(store, number=number) for number, store in enumerate(plan.stores)),
        outputs=plan.outputs,
        stages=plan.stages,
        on_error={name: _policy_text(policy) for name, policy in plan.on_error.items()},
        python=".".join(platform.python_version_tuple()[:2]),
        lines={step.id: str(step.at) for step in plan.steps if step.at is not None},
        places={step.id: _places(step.at, plan) for step in plan.steps if isinstance(step.at, TextLocation)},
        structures=plan.structures,
        namings=plan.namings,
        labels=plan.labels,
        turns=plan.turns,
    )
    check_program(program)
    return program


def _places(at: TextLocation, plan: Plan) -> dict[str, str]:
    """Where a step is written, and where the parts of its expressions are, by their texts."""
    return {"": at.shown, **{text: place.shown for text, place in plan.places.get(at, {}).items()}}


def _policy_text(policy: OnError) -> str:
    """What a program says of a step whose failing records do not end the run."""
    if isinstance(policy, NotedTopic):
        return NOTE
    return DEAD_LETTER if isinstance(policy, DeadLetterTopic) else policy
