"""The way of records that made an operator fail: from a port of the operator to the topic that was named for them."""

from __future__ import annotations

from dataclasses import replace

from streamkit.errors import TopologyError
from streamkit.log.dead_letter import SCHEMA
from streamkit.plan.on_error import DEAD_LETTERS, DeadLetterTopic
from streamkit.plan.operator import PORT
from streamkit.plan.operators.dead_letters import DeadLetters
from streamkit.plan.operators.write import Write
from streamkit.plan.program import Output
from streamkit.plan.steps import UNSTAGED, Plan, Step


def with_dead_letters(plan: Plan) -> Plan:
    """The plan in which every step that sends failing records to a topic is followed by their way there."""
    outputs = {output.topic: output for output in plan.outputs}
    steps = list(plan.steps)
    for step in plan.steps:
        policy = plan.on_error.get(step.id)
        if isinstance(policy, DeadLetterTopic):
            output = Output(policy.topic, SCHEMA, (), (), "delete", 1)
            if outputs.setdefault(policy.topic, output) != output:
                raise TopologyError(
                    f"the topic {policy.topic!r} is already written by a stream of the topology; expected another topic for dead letters",
                    step.at,
                )
            steps += _way(step, list(outputs).index(policy.topic))
    return replace(plan, steps=tuple(steps), outputs=tuple(outputs.values()))


def _way(step: Step, output: int) -> tuple[Step, Step]:
    name = f"{step.id}:{DEAD_LETTERS}"
    letters = Step(DeadLetters(name, UNSTAGED, (f"{step.id}{PORT}{DEAD_LETTERS}",)), SCHEMA, (), (), False, step.at)
    return letters, replace(letters, operator=Write(f"{name}:write", UNSTAGED, (name,), output))
