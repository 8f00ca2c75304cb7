"""
What one program has other than the one before it: inputs, outputs, stores and steps, from the two programs alone.

A preview says the same in the same words, and also how a start would change the present topics and state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamkit.engine.evolution.definition import Difference, Telling, definition, differences, original_of, reads_since_1970
from streamkit.plan.earlier_program import has_steps
from streamkit.plan.operator import Operator
from streamkit.plan.plain import to_plain
from streamkit.plan.program import STREAM_KINDS, Input, Output, Program
from streamkit.plan.program_change import ADDED, CHANGED, GONE, INPUTS, OUTPUTS, SAME, STEPS, STORES, ProgramChange
from streamkit.plan.python_function import renumbered

TOLD_TO_DROP = "as the topology says"
NEEDLESS_COPY = "a copy that no join looks up any more"
_UNNAMED = "the topology no longer names it"
_UNREAD, _UNWRITTEN = "no longer read", "no longer written; the topic stays"
_SHOWN_ELSEWHERE = (
    "source",
    "write",
    "send",
    "receive",
    "fold",
)  # kinds of operators that are inputs, outputs, or the way between kernels
_PLACES = ("id", "stage", "inputs", "streams", "window")  # fields of an operator that say where it stands, or stand in its text
_SHAPE = {"schema", "key"}  # fields of an input or an output whose texts are shown
_STREAMS = re.compile(r"(?<=stream time of input )\d+(?:, \d+)*")


def compare(before: Program | None, program: Program) -> tuple[ProgramChange, ...]:
    """
    The parts of a program that differ from the program before it, and the equal ones; all are new if there was no program.

    Steps are left out if only the keepers of stores are known of the one before.
    """
    earlier, now = inputs_by_topic(before), inputs_by_topic(program)
    written = {output.topic: output for output in before.outputs} if before is not None else {}
    return (
        *(input_change(name, earlier.get(name, ()), found, _kinds_text(found)) for name, found in now.items()),
        *gone_inputs(earlier, now),
        *(output_change(written.get(output.topic), output) for output in program.outputs),
        *gone_outputs(before, program),
        *_store_changes(before, program),
        *step_changes(before, program),
    )


def inputs_by_topic(program: Program | None) -> dict[str, tuple[Input, ...]]:
    """The inputs of each topic: a topic may be read as a stream, as a table and as a global table at once."""
    found: dict[str, list[Input]] = {}
    for one in program.inputs if program is not None else ():
        found.setdefault(one.topic, []).append(one)
    return {topic: tuple(sorted(inputs, key=lambda one: one.kind)) for topic, inputs in found.items()}


def input_change(topic: str, before: Sequence[Input], now: Sequence[Input], text: str) -> ProgramChange:
    """What has become of a topic that is read now; `text` says how it is read."""
    if not before:
        return ProgramChange(INPUTS, topic, ADDED, text)
    was = _kinds_text(before)
    if was != _kinds_text(now):
        return ProgramChange(INPUTS, topic, CHANGED, text, was)
    return _place_change(INPUTS, topic, before, now, (was, text))


def gone_inputs(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ProgramChange]:
    """The topics that were read before alone; both have them as keys."""
    for topic in sorted(set(before) - set(now)):
        yield ProgramChange(INPUTS, topic, GONE, _UNREAD)


def output_change(before: Output | None, now: Output, text: str = "") -> ProgramChange:
    """What has become of a topic that is written now; `text` says more of a new one, which else has its columns and its key."""
    if before is None:
        return ProgramChange(OUTPUTS, now.topic, ADDED, text or shape_text(now))
    return _place_change(OUTPUTS, now.topic, (before,), (now,), ("", ""))


def gone_outputs(before: Program | None, now: Program) -> Iterator[ProgramChange]:
    """The topics that were written before alone."""
    earlier = {output.topic for output in before.outputs} if before is not None else set()
    for topic in sorted(earlier - {output.topic for output in now.outputs}):
        yield ProgramChange(OUTPUTS, topic, GONE, _UNWRITTEN)


def _place_change(
    subject: str, topic: str, before: Sequence[Input | Output], now: Sequence[Input | Output], texts: tuple[str, str]
) -> ProgramChange:
    """What has become of a topic that is read, or written, as before; texts of columns and key follow these two."""
    pairs = [(was, one) for was, one in zip(before, now, strict=True) if was.to_json() != one.to_json()]
    fields = dict.fromkeys(field for was, one in pairs for field in _differing_fields(was.to_json(), one.to_json()))
    was_text, text = texts
    if not fields:
        return ProgramChange(subject, topic, SAME, text)
    others = _what_has_changed([field for field in fields if field not in _SHAPE])
    if _SHAPE.isdisjoint(fields):
        return ProgramChange(subject, topic, CHANGED, _joined(text, others))
    was, one = pairs[0]
    return ProgramChange(subject, topic, CHANGED, _joined(text, shape_text(one), others), _joined(was_text, shape_text(was)))


def shape_text(place: Input | Output) -> str:
    """The columns and the key of an input or an output, on one line."""
    return f"{place.schema}, key {list(place.key)}"


def kind_text(source: Input) -> str:
    """Whether a topic is read as a stream or a table, in words."""
    kind = source.kind.replace("_", " ")
    return kind if source.kind in STREAM_KINDS else f"{kind}, read whole"


def _kinds_text(inputs: Sequence[Input]) -> str:
    return "; ".join(map(kind_text, inputs))


def _store_changes(before: Program | None, program: Program) -> Iterator[ProgramChange]:
    """How the stores have changed, by the contents that both programs declare."""
    earlier = {store.name for store in before.stores} if before is not None else set()
    for store in program.stores:
        if before is None or store.name not in earlier:
            yield ProgramChange(STORES, store.name, ADDED, _text(program, program.keeper(store.name)))
        elif found := _store_differences(before, program, store.name):
            yield ProgramChange(STORES, store.name, CHANGED, "; ".join(map(str, found)))
        else:
            yield ProgramChange(STORES, store.name, SAME)
    for name in sorted(earlier - {store.name for store in program.stores}):
        yield ProgramChange(STORES, name, GONE, _why_gone(before, program, name))


def _store_differences(before: Program, program: Program, store: str) -> list[Difference]:
    telling = Telling(origins=has_steps(before), code=before.python == program.python, since_1970=reads_since_1970(program))
    held, made = (definition(one, one.store(store), telling) for one in (before, program))
    logged = ["off" if store in one.unlogged else "on" for one in (before, program)]
    return [*differences(held, made), *([Difference("its log", *logged)] if logged[0] != logged[1] else [])]


def _why_gone(before: Program | None, program: Program, store: str) -> str:
    if store in program.dropped_stores:
        return TOLD_TO_DROP
    original = original_of(before, store) if before is not None else None
    return NEEDLESS_COPY if any(one.name == original for one in program.stores) else _UNNAMED


def step_changes(before: Program | None, program: Program) -> Iterator[ProgramChange]:
    """What records go through, without what the other subjects show; nothing if only the keepers of stores are known of before."""
    if before is not None and not has_steps(before):
        return
    now, earlier = _shown(program), _shown(before)
    for name, operator in now.items():
        text = _text(program, operator)
        if name not in earlier or before is None:
            yield ProgramChange(STEPS, name, ADDED, text)
        elif (was := _text(before, earlier[name])) != text:
            yield ProgramChange(STEPS, name, CHANGED, text, was)
        elif fields := _differing_parts(before, program, name):
            yield ProgramChange(STEPS, name, CHANGED, _joined(text, _what_has_changed(fields)))
        else:
            yield ProgramChange(STEPS, name, SAME, text)
    for name in earlier:
        if before is not None and name not in now:
            yield ProgramChange(STEPS, name, GONE, _text(before, earlier[name]))


def _shown(program: Program | None) -> dict[str, Operator]:
    operators = program.operators if program is not None else ()
    return {operator.id: operator for operator in operators if operator.kind not in _SHOWN_ELSEWHERE}


def _text(program: Program, operator: Operator) -> str:
    """What an operator does, with topics instead of the numbers of inputs, which move when another input comes."""
    return _STREAMS.sub(lambda found: ", ".join(program.inputs[int(one)].topic for one in found[0].split(", ")), operator.text())


def _differing_parts(before: Program, program: Program, step: str) -> list[str]:
    """The difference of two steps with the same text, such as the changed code of a function."""
    was, made = to_plain([before.operator(step), program.operator(step)])
    fields = [field for field in _differing_fields(was, made) if field not in _PLACES]
    return fields + (["on_error"] if before.on_error.get(step) != program.on_error.get(step) else [])


def _differing_fields(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    was, made = (json.loads(renumbered(json.dumps(one))) for one in (before, now))
    return [name for name in dict.fromkeys([*was, *made]) if was.get(name) != made.get(name)]


def _what_has_changed(fields: Sequence[str]) -> str:
    """The names of changed fields, without their values; no field gives an empty text."""
    return f"what has changed: {', '.join(field.replace('_', ' ') for field in fields)}" if fields else ""


def _joined(*texts: str) -> str:
    return "; ".join(text for text in texts if text)
