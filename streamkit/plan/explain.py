"""What each pass gave, as text: for people, and for golden tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamkit.names import changelog_topic
from streamkit.plan.duration import duration_text
from streamkit.plan.naming import StepNames
from streamkit.plan.operator import Operator
from streamkit.plan.program import Edge, Input, Output, Program, ProgramStore
from streamkit.plan.steps import UNSTAGED, Plan, Step


def explain_inputs(inputs: Iterable[Input]) -> str:
    """The inputs, in the canonical order."""
    return "\n".join(f"{number}  {_input(one)}" for number, one in enumerate(dict.fromkeys(inputs)))


def explain_names(names: StepNames) -> str:
    """Every step under its name."""
    return "\n".join(f"{name}  {node.text()}" for node, name in names.steps.items())


def explain_plan(plan: Plan) -> str:
    """The steps, each with the rows that leave it, and where a stream gets another key."""
    return "\n".join("\n".join(_step(step)) + (", re-keyed" if _is_rekeyed(step, plan) else "") for step in plan.steps)


def explain_change(before: Plan, after: Plan) -> str:
    """What a pass did: the steps it added, changed and removed, and the stage of each where it gave them."""
    if all(step.stage == UNSTAGED for step in before.steps) and after.stages > 0:
        stages = range(after.stages + 1)
        return "\n".join(
            f"{_stage_title(stage)}: {', '.join(step.id for step in after.steps if step.stage == stage)}" for stage in stages
        )
    old, new = ({step.id: step for step in plan.steps} for plan in (before, after))
    lines = [_marked("~" if step.id in old else "+", step) for step in after.steps if old.get(step.id) != step]
    lines += [f"- {step_id}" for step_id in old if step_id not in new]
    return "\n".join(lines or ["(nothing to do)"])


def explain_program(program: Program) -> str:
    """The program as it runs: inputs, operators by stage, exchanges, stores with their topics, outputs, fingerprint."""
    sections = [
        ("inputs", [f"{number}  {_input(one)}" for number, one in enumerate(program.inputs)]),
        *((_stage_title(stage), [_operator(one) for one in program.operators_of(stage)]) for stage in range(program.stages + 1)),
        ("exchanges", [_edge(edge) for edge in program.edges]),
        ("stores", [_store(store, program) for store in program.stores]),
        ("outputs", [f"{number}  {_output(one)}" for number, one in enumerate(program.outputs)]),
        ("what a task loses if it moves, its folder is lost, or the number of tasks changes", list(_losses(program))),
    ]
    blocks = ["\n".join([title, *(f"  {line}" for line in lines)]) for title, lines in sections if lines]
    return "\n".join([*blocks, f"fingerprint {program.fingerprint}"])


def _is_rekeyed(step: Step, plan: Plan) -> bool:
    """Whether a stream's key has other values behind a step; other names for its columns are no change."""
    return bool(step.inputs) and step.operator.rekeys(plan.step(step.inputs[0]).key, step.key)


def _marked(mark: str, step: Step) -> str:
    first, rows = _step(step)
    return f"{mark} {first}\n  {rows}"


def _step(step: Step) -> list[str]:
    table = ", table" if step.table else ""
    return [_operator(step.operator), f"    rows ({step.schema}), key [{', '.join(step.key)}]{table}"]


def _operator(operator: Operator) -> str:
    sources = f"  ← {', '.join(operator.inputs)}" if operator.inputs else ""
    return f"{operator.id}  {operator.text()}{sources}"


def _stage_title(stage: int) -> str:
    return "stage 0 (readers)" if stage == 0 else f"stage {stage} (kernel)"


def _input(one: Input) -> str:
    bootstrap = ", bootstrap" if one.bootstrap else ""
    times = "" if one.event_time is None else f", event time {one.event_time}"
    return f"{one.kind} {one.topic} ({one.schema}), key [{', '.join(one.key)}]{bootstrap}{times}"


def _edge(edge: Edge) -> str:
    return f"{edge.number}  stage {edge.from_stage} to {edge.to_stage} by [{', '.join(edge.key)}]: ({edge.columns})"


def _losses(program: Program) -> Iterator[str]:
    """What it costs that stores have no log; nothing if all have one."""
    for store in program.stores:
        if store.name in program.unlogged:
            yield f"{store.name}  all its rows: it has no log, and begins empty; what it has given to other steps stays there"
    logged = [store.name for store in program.stores if store.name not in program.unlogged]
    if program.unlogged and logged:
        yield f"{', '.join(logged)}  nothing: restored from {'its changelog' if len(logged) == 1 else 'their changelogs'}"


def _store(store: ProgramStore, program: Program) -> str:
    window = f", windows of {duration_text(store.window_size_ms)}" if store.window_size_ms is not None else ""
    retention = f", retention {duration_text(store.retention_ms)}" if store.retention_ms is not None else ""
    rows = f"({store.key}) to ({store.value})"
    log = ", without a log: newest changes in" if store.name in program.unlogged else ", changelog"
    topic = changelog_topic(program.application, store.name)
    return f"{store.name}  stage {store.stage}: {rows}{window}{retention}{log} {topic}"


def _output(output: Output) -> str:
    partitions = "as the widest input" if output.partitions is None else str(output.partitions)
    split = "" if output.partition_by == output.key else f" partitioned by [{', '.join(output.partition_by)}]"
    return f"{output.topic} ({output.schema}), key [{', '.join(output.key)}]{split}, {output.cleanup_policy}, partitions {partitions}"
