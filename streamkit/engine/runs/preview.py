"""What a start of a program would change, and whether it would go on: found by the checks of a start, which only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from streamkit.config import load_settings
from streamkit.engine.evolution.continuation import Continuation, continuation, stores_to_rebuild
from streamkit.engine.evolution.definition import COLUMN, Difference, original_of
from streamkit.engine.evolution.program_comparison import (
    NEEDLESS_COPY,
    TOLD_TO_DROP,
    gone_inputs,
    gone_outputs,
    input_change,
    inputs_by_topic,
    kind_text,
    output_change,
    shape_text,
    step_changes,
)
from streamkit.engine.runs.start import check_logs, check_options, declared_store
from streamkit.errors import StreamKitError
from streamkit.log.catalog import applications
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.topic.topic import UNCREATED, Topic
from streamkit.names import changelog_topic
from streamkit.plan.added_topics import created, declared_output, declared_outputs_read
from streamkit.plan.earlier_program import read_program
from streamkit.plan.program import STREAM_KINDS, Input, Output, Program
from streamkit.plan.program_change import (
    ADDED,
    CHANGED,
    GONE,
    INPUTS,
    OUTPUTS,
    REFUSED,
    SAME,
    STORES,
    TASKS,
    ProgramChange,
    changes_of,
)
from streamkit.plan.refusal import RefusedTopic
from streamkit.state.format import is_earlier


@dataclass(frozen=True)
class Preview:
    """What a start would change, and why it would be refused; `known` is the application as it stands, None if it has never started."""

    application: str
    known: ApplicationState | None
    changes: tuple[ProgramChange, ...]
    refusals: tuple[str, ...]

    def of(self, subject: str) -> list[ProgramChange]:
        """The changes of one subject."""
        return changes_of(self.changes, subject)


def preview(
    catalog: Catalog,
    program: Program,
    tasks: int | None = None,
    refused: Sequence[RefusedTopic] = (),
    rebuild: Sequence[str] = (),
) -> Preview:
    """
    Compare a program with what its application last ran, and with the state that this left; nothing is written.

    `tasks` is the number of tasks that the start would ask for, and `rebuild` are the stores; `refused` has the topics that were passed over when
    the program was compiled. ConfigError for stores that cannot be rebuilt, FormatVersionError if a newer version ran the application.
    """
    found = continuation(catalog, program, stores_to_rebuild(catalog, program, rebuild))
    text = catalog.applications.program_of(found.known.name) if found.known is not None else ""
    before = read_program(text) if text else None
    refusals = [*_refusals(catalog, found, tasks, refused), *_failure(check_logs, catalog, found, found.program, tuple(rebuild))]
    changes = (
        *_inputs(catalog, program, before, found.known, _topics_of(refused, True)),
        *_outputs(catalog, program, before, _topics_of(refused, False)),
        *_stores(catalog, found),
        _tasks(program, found.known, tasks),
        *step_changes(before, found.program_in_stored_order()),
    )
    return Preview(program.application, found.known, changes, tuple(dict.fromkeys(refusals)))


def _topics_of(refused: Sequence[RefusedTopic], is_input: bool) -> set[str]:
    return {one.topic for one in refused if one.is_input == is_input}


def _refusals(catalog: Catalog, found: Continuation, tasks: int | None, refused: Sequence[RefusedTopic]) -> Iterator[str]:
    """Why the start would be refused, by the checks of a start."""
    program = found.program
    yield from (str(one.error) for one in refused)
    yield from _failure(check_options, tasks, None, program)
    inputs = list(_inputs_found(catalog, program).values())
    for output in program.outputs:
        yield from _failure(_check_created, catalog, output, inputs)
    if found.known is not None:
        yield from _failure(_check_keys, catalog, found.known, program)
    for store in program.stores:
        yield from _failure(_check_store, catalog, program, store.name)
    yield from map(str, found.refusals())


def _failure(check: Callable[..., None], *arguments: object) -> Iterator[str]:
    try:
        check(*arguments)
    except StreamKitError as error:
        yield str(error)


def _check_keys(catalog: Catalog, known: ApplicationState, program: Program) -> None:
    catalog.read(lambda transaction: applications.check_keys(transaction, known, program.key_groups))


def _inputs_found(catalog: Catalog, program: Program) -> dict[str, Topic]:
    """The topics that the program reads, as they are or as the start would create them, as far as either can be."""
    partitions = load_settings().topic_partitions
    added = {topic.name: created(topic, partitions) for topic in program.topics}

    def find(name: str) -> Topic | None:
        return catalog.topics.find(name) or added.get(name)

    found = {source.topic: topic for source in program.inputs if (topic := find(source.topic)) is not None}
    return found | {topic.name: topic for topic in declared_outputs_read(program, find)}


def _check_created(catalog: Catalog, output: Output, inputs: Sequence[Topic]) -> None:
    if catalog.topics.find(output.topic) is None:
        declared_output(output, inputs)


def _check_store(catalog: Catalog, program: Program, store: str) -> None:
    catalog.applications.check_changelog(program.application, declared_store(program, store))


def _inputs(
    catalog: Catalog, program: Program, before: Program | None, known: ApplicationState | None, refused: set[str]
) -> Iterator[ProgramChange]:
    earlier, now, found = inputs_by_topic(before), inputs_by_topic(program), _inputs_found(catalog, program)
    for name, inputs in now.items():
        topic = found.get(name)
        has_position = known is not None and topic is not None and topic.id in known.positions
        if topic is None or name in refused:
            yield ProgramChange(INPUTS, name, REFUSED, _misfit(topic, inputs[0]))
        else:
            text = "; ".join(_reading(one, has_position) for one in inputs)
            text += "; topic is created" if topic.id == UNCREATED else ""
            yield input_change(name, earlier.get(name, ()), inputs, text)
    yield from gone_inputs(earlier, now)


def _misfit(topic: Topic | None, meant: Input | Output) -> str:
    """A topic beside what the topology takes it for, on one line."""
    if topic is None:
        return "topic does not exist"
    has = f"{topic.schema}, key {list(topic.key)}"
    if has == shape_text(meant):
        return f"topic has {topic.partitions} partition{'s' * (topic.partitions != 1)}; the topology says another number"
    return f"topic has {has}; the topology has {shape_text(meant)}"


def _reading(source: Input, has_position: bool) -> str:
    if source.kind not in STREAM_KINDS:
        return kind_text(source)
    return f"{kind_text(source)}, {'goes on where it was read to' if has_position else 'read from its beginning'}"


def _outputs(catalog: Catalog, program: Program, before: Program | None, refused: set[str]) -> Iterator[ProgramChange]:
    earlier = {output.topic: output for output in before.outputs} if before is not None else {}
    changelogs = {changelog_topic(program.application, store.name) for store in program.stores}
    inputs = list(_inputs_found(catalog, program).values())
    for output in program.outputs:
        existing = catalog.topics.find(output.topic)
        fate = SAME if output.topic in earlier else ADDED
        if output.topic in changelogs:
            yield ProgramChange(OUTPUTS, output.topic, REFUSED, "topic is the changelog of a store of the topology")
        elif output.topic in refused:
            yield ProgramChange(OUTPUTS, output.topic, REFUSED, _misfit(existing, output))
        elif failure := list(_failure(_check_created, catalog, output, inputs)):
            yield ProgramChange(OUTPUTS, output.topic, REFUSED, failure[0])
        elif existing is None:
            created = declared_output(output, inputs)
            policy = dict(created.config)["cleanup.policy"]
            yield ProgramChange(
                OUTPUTS, output.topic, fate, f"topic is created: partitions={created.partitions}, cleanup.policy={policy}"
            )
        else:
            yield output_change(earlier.get(output.topic), output, "topic exists, results are appended")
    yield from gone_outputs(before, program)


def _stores(catalog: Catalog, found: Continuation) -> Iterator[ProgramChange]:
    program, known = found.program, found.known
    for store in program.stores:
        if failure := list(_failure(_check_store, catalog, program, store.name)):
            yield ProgramChange(STORES, store.name, REFUSED, failure[0])
        elif store.name in found.unfilled:
            yield ProgramChange(
                STORES, store.name, REFUSED, f"rows of {', '.join(found.unfilled[store.name].sources)} would be missing"
            )
        elif store.name in found.rebuilt and known is not None and known.positions:
            fate = CHANGED if store.name in found.kept else ADDED
            yield ProgramChange(
                STORES, store.name, fate, "filled again from its topics, up to where the application has read them"
            )
        elif store.name not in found.kept:
            yield ProgramChange(STORES, store.name, ADDED, _filling(found, store.name))
        elif store.name in found.differing:
            yield ProgramChange(STORES, store.name, REFUSED, _difference(found, store.name))
        elif store.name in found.evolved:
            is_filled = found.filled is not None and store.name in found.filled.stores
            fates = [f"{one}; {_fate(one, is_filled)}" for one in found.evolved[store.name]]
            yield ProgramChange(STORES, store.name, CHANGED, "; ".join(fates))
        elif store.name in found.reordered:
            yield ProgramChange(
                STORES, store.name, CHANGED, "same parts in another order; they keep the order in which they are stored"
            )
        else:
            converted = known is not None and is_earlier(known)
            yield ProgramChange(STORES, store.name, SAME, "read in the format of an earlier version" if converted else "")
    for name in found.dropped:
        why = _why_gone(found, name)
        yield ProgramChange(STORES, name, GONE, f"{why}; deleted with its changelog")
    for name in found.orphaned:
        yield ProgramChange(STORES, name, REFUSED, f"its state would be orphaned: {_renaming(found, name)}")


def _why_gone(found: Continuation, store: str) -> str:
    if store in found.program.dropped_stores:
        return TOLD_TO_DROP
    return "empty, left by a start that failed" if store in found.unused else NEEDLESS_COPY


def _difference(found: Continuation, store: str) -> str:
    """What a store holds otherwise, and why it cannot go on so."""
    why = found.hindrance(store)
    return "; ".join([*map(str, found.differing[store]), *([why] if why else [])])


def _fate(one: Difference, is_filled: bool) -> str:
    if one.part.startswith(COLUMN):
        if one.now is None:
            return "it is dropped from stored rows"
        return (
            "stored rows get it from the records read before"
            if is_filled
            else "stored rows have null there until they are written again"
        )
    return (
        "its state is dropped"
        if one.now is None
        else "it begins with the records from now on, in stored groups and open windows too"
    )


def _renaming(found: Continuation, orphan: str) -> str:
    """What the topology has instead of an orphaned store, if it may be the same under another name."""
    if ways := found.ways_on(orphan):
        return "; ".join(f"{name} would hold the same rows; {way} continues with them" for name, way in ways.items())
    return f"the topology no longer names it; app.drop_store({orphan!r}) deletes it"


def _filling(found: Continuation, store: str) -> str:
    """With what a new store begins."""
    original = original_of(found.program, store)
    if original in found.kept:
        return f"filled from {original}"
    if found.filled is not None and store in found.filled.stores:
        return f"filled with what follows from the rows of {', '.join(found.sources_of(store))}"
    is_late = found.known is not None and found.known.epoch > 0
    changelog = f"changelog {changelog_topic(found.program.application, store)}"
    return f"begins empty, without the records read before; {changelog}" if is_late else f"begins empty; {changelog}"


def _tasks(program: Program, known: ApplicationState | None, tasks: int | None) -> ProgramChange:
    before = None if known is None else known.tasks
    if any(_failure(check_options, tasks, None, program)):
        return ProgramChange(TASKS, "tasks", REFUSED, f"{tasks}; expected 1 to {program.key_groups}")
    if before is None:
        return ProgramChange(TASKS, "tasks", ADDED, "as many as the run has cores" if tasks is None else str(tasks))
    if tasks is None or tasks == before:
        return ProgramChange(TASKS, "tasks", SAME, str(before))
    return ProgramChange(TASKS, "tasks", CHANGED, str(tasks), str(before))
