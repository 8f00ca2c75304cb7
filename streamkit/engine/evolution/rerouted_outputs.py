"""
Outputs that get the rows of another output otherwise than the program before let them: from its topic, or as they are made.

The rows are the same, but where the application stands in that topic does not say which of them the output has: it would get some twice,
or never. In SQL that follows from WITH of the other statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from streamkit.errors import OrphanedStateError
from streamkit.plan.program import Program


def rerouted_outputs(
    before: Program, program: Program, unread: Mapping[str, int], elsewhere: str
) -> Iterator[OrphanedStateError]:
    """
    A refusal for each output that would get rows twice, or never.

    `unread` has the topics that hold records which the application has not read, with their numbers, `elsewhere` says how else the program may run.
    """
    earlier, now = _paths(before), _paths(program)
    both = sorted({one.topic for one in before.outputs} & {one.topic for one in program.outputs})
    for topic in sorted(unread.keys() & {one.topic for one in before.outputs}):
        records = f"{unread[topic]:,} record{'s' * (unread[topic] != 1)} that {program.application!r} has not read"
        for output in (one for one in both if one != topic):
            if now[topic, output] and not earlier[topic, output] and _is_moved(topic, output, earlier, now):
                yield OrphanedStateError(
                    f"{output!r} has had the rows of {topic!r} as they were made, and would read them again from the topic, which holds {records}: it "
                    f"would have them twice. Expected {topic!r} to be written as before, in SQL with the format and the TIMESTAMP of before; "
                    f"{_way(before, topic, output)}or {elsewhere}{_places(program, topic, output)}"
                )
            elif earlier[topic, output] and not now[topic, output]:
                yield OrphanedStateError(
                    f"{output!r} has read the rows of {topic!r} from the topic, which holds {records}: it would never have them, since it would get "
                    "new rows as they are made, or none. Run the topology as it was until it has read them, as `streamkit run --once` does "
                    f"again and again, and then this one; or {elsewhere}{_places(program, topic, output)}"
                )


def _way(before: Program, topic: str, output: str) -> str:
    """What else gives the output each record once; empty if nothing does."""
    if topic in {one.topic for one in before.inputs}:  # a new output would begin where the application is in it
        return "or run the topology as it was until it has read them, as `streamkit run --once` does, and then this one; "
    return "" if _has_store(before, output) else f"or {output!r} under another name, which begins with all records; "


def _has_store(program: Program, output: str) -> bool:
    """Whether rows of the output go through a store, which would have no step any more if the output had another name."""
    kept: set[str] = set()
    for one in program.operators:
        if one.stores or kept & set(one.sources):
            kept.add(one.id)
    return any(
        one.id in kept
        for one in program.operators
        if one.output_written is not None and program.outputs[one.output_written].topic == output
    )


def _is_moved(topic: str, output: str, earlier: Counter[tuple[str, str]], now: Counter[tuple[str, str]]) -> bool:
    """Whether rows of an input that go to the topic went from there to the output, too, by a path that there is no more."""
    sources = [source for source, end in earlier if end == topic]
    return any(now[source, output] < earlier[source, output] for source in sources)


def _paths(program: Program) -> Counter[tuple[str, str]]:
    """By how many ways rows of a topic go to an output, by both names."""
    above: dict[str, Counter[str]] = {}
    found = Counter[tuple[str, str]]()
    for one in program.operators:  # each behind those whose rows it takes
        above[one.id] = Counter() if one.input_read is None else Counter([program.inputs[one.input_read].topic])
        for source in one.sources:
            above[one.id] += above[source]
        if one.output_written is not None:
            output = program.outputs[one.output_written].topic
            found.update({(topic, output): count for topic, count in above[one.id].items()})
    return found


def _places(program: Program, *topics: str) -> str:
    """Where outputs are written, a line each, as far as that is known."""
    ids = {program.outputs[one.output_written].topic: one.id for one in program.operators if one.output_written is not None}
    return "".join(f"\n  {topic} at {program.lines[ids[topic]]}" for topic in topics if program.lines.get(ids.get(topic, "")))
