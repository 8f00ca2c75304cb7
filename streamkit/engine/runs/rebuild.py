"""
The rebuild of stores: what leads to them runs again from the beginning of its topics, and the application takes over what comes of it.

It is a start of the application that comes to its end: a run begins behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from streamkit.engine.evolution.adoption import Adoption
from streamkit.engine.evolution.continuation import stores_to_rebuild
from streamkit.engine.evolution.held_back import differing_waits
from streamkit.engine.evolution.replaying import Stretch, check_records, replayed_program, stores_text, stretches
from streamkit.engine.evolution.waits import GivenResults
from streamkit.engine.runs.local_epochs import LocalEpochs
from streamkit.engine.runs.start import StoreRebuild, remove_rebuilding, start
from streamkit.errors import FencedError, StreamKitError
from streamkit.failpoints import reach
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.span import GivenOffsets
from streamkit.log.log import Log
from streamkit.log.upkeep import Upkeep
from streamkit.plan.program import Program

Tell = Callable[[int, int], None]  # how many records of how many have been read again


class RebuildStoppedError(StreamKitError):
    """A rebuild was stopped before its end; the application is as it was, and the same rebuild goes on where it was."""


@dataclass(frozen=True)
class Rebuild:
    """
    What is to be rebuilt, and how: the stores that a user named, and whether what topics have lost may be missing.

    `threads` tasks run side by side. `is_stopped` ends it between two epochs; `tell` hears how far it is.
    """

    stores: tuple[str, ...]
    accepts_loss: bool = False
    threads: int = 1
    records_max: int | None = None
    is_stopped: Callable[[], bool] = lambda: False
    tell: Tell = lambda done, total: None

    @property
    def subject(self) -> str:
        """How an error begins that says what topics have lost."""
        return f"{stores_text(self.stores)} cannot be rebuilt whole"


def rebuild_stores(log: Log, program: Program, wanted: Rebuild) -> None:
    """
    Fill stores of the program's application again from their topics, as if the program had always been as it is now.

    An application that has read nothing yet has nothing to fill. ConfigError for stores that cannot be rebuilt so, OffsetOutOfRangeError if
    topics have lost records that count, OrphanedStateError if results would come twice or never, FencedError if the application is started
    meanwhile, RebuildStoppedError if it is stopped.
    """
    stores = stores_to_rebuild(log.catalog, program, wanted.stores)
    known = next((one for one in log.catalog.applications.every() if one.name == program.application), None)
    if known is None or not known.positions:
        return
    if not wanted.accepts_loss:
        part = replayed_program(program, stores)
        check_records(part, _stretches(log, part, {}, known.positions), wanted.subject)

    def replay(program: Program, state: ApplicationState, given: GivenResults) -> Adoption:
        return _replay(log, program, stores, state, given, wanted)

    settings = log.settings
    start(
        log.catalog,
        log.storage,
        program,
        default_tasks=wanted.threads,
        settings=settings,
        rebuild=StoreRebuild(stores, replay),
    )
    reach("replay.adopted")
    remove_rebuilding(log.catalog, log.storage, settings.local_dir, program.application)


def _stretches(log: Log, part: Program, since: GivenOffsets, until: GivenOffsets) -> dict[int, list[Stretch]]:
    ids = [log.catalog.topics.get(source.topic).id for source in part.inputs]
    return stretches(log.catalog, part, ids, since, until)


def _replay(
    log: Log, program: Program, stores: frozenset[str], state: ApplicationState, given: GivenResults, wanted: Rebuild
) -> Adoption:
    """Run the part of a program that leads to the stores, up to where the application stands."""
    part = replayed_program(program, stores)
    if not _goes_on(log, part, state):
        remove_rebuilding(log.catalog, log.storage, log.settings.local_dir, program.application)
    with Upkeep(log, state.id, state.generation):
        planner = start(
            log.catalog,
            log.storage,
            part,
            default_tasks=min(wanted.threads, part.key_groups),
            records_max=wanted.records_max or log.settings.max_records_per_epoch,
            settings=log.settings,
        )
        own = planner.application
        with (
            Upkeep(log, own.id, own.generation, interval_ms=0),  # from now on retention keeps what is to be read
            closing(LocalEpochs(log, planner, wanted.threads)) as epochs,
        ):
            _read_again(log, epochs, state, given, wanted)
    reach("replay.ended")
    _check_turn(log, state)  # a start in between has removed the replay
    return Adoption(log.catalog.applications.get(part.application), tuple(sorted(stores)))


def _goes_on(log: Log, part: Program, state: ApplicationState) -> bool:
    """Whether a replay that was begun before is one of this part, and what it has still to read is there."""
    begun = next((one for one in log.catalog.applications.every() if one.name == part.application), None)
    if begun is None or begun.program_hash != part.fingerprint:
        return False
    for topic_id, offsets in begun.positions.items():
        earliest, ends = log.catalog.manifest.start_offsets(topic_id), state.positions.get(topic_id, {})
        if any(not earliest.get(at, 0) <= offset <= ends.get(at, 0) for at, offset in offsets.items()):
            return False
    return True


def _read_again(log: Log, epochs: LocalEpochs, state: ApplicationState, given: GivenResults, wanted: Rebuild) -> None:
    """Run epochs up to the positions of the application; behind them windows close that it has closed without a record."""
    planner, before = epochs.planner, epochs.committed_end()
    found = _stretches(log, planner.program, before.positions, state.positions)
    if not wanted.accepts_loss:
        check_records(planner.program, found, wanted.subject)
    pieces = {(one.topic, one.partition): one for several in found.values() for one in several}
    total, done = sum(one.end - max(one.start, one.earliest) for one in pieces.values()), 0
    read = {planner.topic_ids[number] for number in found}
    until = {topic_id: ends for topic_id, ends in state.positions.items() if topic_id in read}
    wanted.tell(done, total)
    while (end := planner.next_end(before, until)) is not None:
        if wanted.is_stopped():
            raise RebuildStoppedError(
                f"the rebuild of {', '.join(wanted.stores)} was stopped after {done:,} of {total:,} records; {state.name} is unchanged, and the "
                "same command continues from here"
            )
        _check_turn(log, state)
        before = epochs.run(epochs.plan(before, end)).end
        done += end.records
        wanted.tell(done, total)
        reach("replay.epoch")
    for refusal in given.refusals(planner.program, before.times):
        raise refusal
    if (end := planner.closed_end(before, given.closed)) is not None:
        before = epochs.run(epochs.plan(before, end)).end
    if state.drained and (end := planner.closing_end(before, given.apart)) is not None:
        epochs.run(epochs.plan(before, end))
    replayed = log.catalog.applications.get(planner.application.name)
    for refusal in differing_waits(log.catalog, log.storage, planner.program, state, replayed, given):
        raise refusal


def _check_turn(log: Log, state: ApplicationState) -> None:
    newest, _ = log.catalog.applications.turn(state.name)
    if newest != state.generation:
        raise FencedError(
            f"application {state.name}: generation {newest} has started while its stores were rebuilt in generation {state.generation}; it is "
            "unchanged, and the rebuild begins again with the next start that asks for it"
        )
