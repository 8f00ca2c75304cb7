"""
A second version of an application beside the first: it reads what that one has read, writes to no topic, and takes its outputs over.

It never passes the positions of the first. So when that one is fenced for good, every record has been read by it, and its results stand,
or is still to be read by the second, which writes from there on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from streamkit.engine.epoch.epoch import EpochEnd
from streamkit.engine.epoch.stream_time import committed_times
from streamkit.engine.evolution.changed_encodings import changed_encodings
from streamkit.engine.evolution.continuation import Continuation, written_outputs
from streamkit.engine.evolution.held_back import differing_waits
from streamkit.engine.evolution.replaying import Stretch, check_records, stretches, withheld_program
from streamkit.engine.evolution.waits import GivenResults, closings_to_come, hindrances
from streamkit.engine.runs.commit import check_generation
from streamkit.engine.runs.local_epochs import LocalEpochs
from streamkit.engine.runs.planner import Planner
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError, OffsetOutOfRangeError, OrphanedStateError
from streamkit.failpoints import reach
from streamkit.log.catalog.applications import ApplicationState, check_followed
from streamkit.log.log import Log
from streamkit.log.upkeep import Upkeep
from streamkit.plan.earlier_program import read_program
from streamkit.plan.program import Program

WAIT_SECONDS = 0.5  # the longest wait for a commit of the first version
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Succession:
    """
    The application that another follows, its `leader`, and how; `accepts_loss` goes on where topics have lost records of before.

    `threads` tasks run side by side. `is_stopped` ends it between two epochs, behind each of which `tell` is called.
    """

    leader: str
    accepts_loss: bool = False
    tasks: int | None = None
    threads: int = 1
    records_max: int | None = None
    is_stopped: Callable[[], bool] = lambda: False
    tell: Callable[[], None] = lambda: None


def follow(log: Log, program: Program, wanted: Succession) -> bool:
    """
    Run a program behind another application, without its outputs, until it has taken that one over; True then, also if it had before.

    False if it was stopped. ConfigError if the program's application runs by itself, another one has taken the leader over, or that was reset,
    OffsetOutOfRangeError if topics have lost records that count, FencedError if another process follows in its place.
    """
    own = next((one for one in log.catalog.applications.every() if one.name == program.application), None)
    if own is not None and own.took_over == wanted.leader:
        return True
    leader = log.catalog.applications.get(wanted.leader)
    _check_leader(leader, program.application)
    if own is not None and own.follows == leader.name:
        check_followed(own, leader)
    led, stores = _program_of(log, leader), frozenset(store.name for store in program.stores)
    for refusal in (
        *changed_encodings(led, program, written_outputs(log.catalog, program)),
        *hindrances(led, program, stores, committed_times(leader, ())),
    ):
        raise refusal
    part = withheld_program(program)
    planner = start(
        log.catalog,
        log.storage,
        part,
        tasks=wanted.tasks,
        default_tasks=min(wanted.threads, program.key_groups),
        records_max=wanted.records_max or log.settings.max_records_per_epoch,
        settings=log.settings,
        follows=leader.name,
    )
    application = planner.application
    with (
        Upkeep(log, application.id, application.generation),
        closing(LocalEpochs(log, planner, wanted.threads)) as epochs,
    ):
        before = epochs.committed_end()
        found = stretches(log.catalog, part, planner.topic_ids, before.positions, leader.positions)
        if before.epoch:
            _check_place(application.name, found)
        if not wanted.accepts_loss:
            check_records(part, found, f"the application {application.name!r} cannot begin as if it had always been there")
        if not _follow(log, epochs, before, wanted):
            return False
    log.catalog.applications.lead(application.name, application.generation)
    reach("follow.led")
    return True


def _check_place(name: str, found: Mapping[int, Sequence[Stretch]]) -> None:
    """OffsetOutOfRangeError if records have been deleted that come next, behind others that were read: no loss that is accepted bridges that."""
    for piece in (one for pieces in found.values() for one in pieces):
        if piece.earliest > piece.start > 0:
            raise OffsetOutOfRangeError(
                f"the application {name!r} cannot go on: it is at offset {piece.start} of the topic {piece.topic}, partition {piece.partition}, and "
                f"the records before {piece.earliest} have been deleted. Let it begin again with the records that are left, by "
                f"`streamkit apps reset {name}` and then the same command with --accept-loss",
                piece.topic,
                piece.partition,
                piece.start,
                piece.earliest,
                piece.end,
            )


def _follow(log: Log, epochs: LocalEpochs, before: EpochEnd, wanted: Succession) -> bool:
    """Run epochs up to where the leader stands, until it has been handed over and nothing is left that it has read; whether it has."""
    planner, compared = epochs.planner, (0, 0)
    while not wanted.is_stopped():
        watch = log.catalog.watch()
        check_generation(log.catalog, planner.application)
        leader = log.catalog.applications.get(wanted.leader)  # its successor and its positions, of one moment
        _check_leader(leader, planner.application.name)
        check_followed(log.catalog.applications.get(planner.application.name), leader)
        if (end := planner.next_end(before, leader.positions)) is not None:
            before = epochs.run(epochs.plan(before, end)).end
            reach("follow.epoch")
        elif leader.successor is not None:
            given = _given(log, planner, leader)
            for end in _closings(planner, before, leader, given):
                epochs.run(epochs.plan(epochs.committed_end(), end))
            _warn_of(leader, _differing_waits(log, planner, leader, given))
            return True
        else:
            if compared != (leader.generation, leader.epoch):
                _check_results(log, planner, before, leader)
                compared = leader.generation, leader.epoch
            epochs.rest()
            watch.wait(WAIT_SECONDS)
        wanted.tell()
    return False


def _check_results(log: Log, planner: Planner, before: EpochEnd, leader: ApplicationState) -> None:
    """OrphanedStateError if results would come twice, or never, were the leader taken over where it stands."""
    stores, given = frozenset(store.name for store in planner.program.stores), _given(log, planner, leader)
    for refusal in (
        *hindrances(_program_of(log, leader), planner.program, stores, committed_times(leader, ())),
        *given.refusals(planner.program, before.times),
        *(() if leader.drained else closings_to_come(planner.program, given, before.times)),
    ):
        raise refusal
    differing = list(_differing_waits(log, planner, leader, given))
    now = log.catalog.applications.get(leader.name)
    if differing and (now.generation, now.epoch) == (leader.generation, leader.epoch):  # else it may hold back other rows by now
        raise differing[0]


def _differing_waits(log: Log, planner: Planner, leader: ApplicationState, given: GivenResults) -> Iterator[OrphanedStateError]:
    own = log.catalog.applications.get(planner.application.name)
    return differing_waits(log.catalog, log.storage, planner.program, leader, own, given)


def _given(log: Log, planner: Planner, leader: ApplicationState) -> GivenResults:
    """Up to which times the leader has given its results, by the waits of this program."""
    stores = frozenset(store.name for store in planner.program.stores)
    return Continuation(planner.program, leader, _program_of(log, leader), rebuilt=stores).given_results(leader)


def _closings(planner: Planner, before: EpochEnd, leader: ApplicationState, given: GivenResults) -> Iterator[EpochEnd]:
    """The epochs without records in which windows close that the leader has closed."""
    _warn_of(leader, given.refusals(planner.program, before.times))
    if (end := planner.closed_end(before, given.closed)) is not None:
        yield end
        before = end
    if leader.drained and (end := planner.closing_end(before, given.apart)) is not None:
        yield end


def _warn_of(leader: ApplicationState, refusals: Iterable[OrphanedStateError]) -> None:
    """Say what is lost: the leader writes no more, so it is too late for a refusal."""
    for refusal in refusals:
        _logger.warning("%s was taken over nevertheless: %s", leader.name, refusal)


def _program_of(log: Log, state: ApplicationState) -> Program:
    return read_program(log.catalog.applications.program_of(state.name))


def _check_leader(leader: ApplicationState, name: str) -> None:
    if leader.name == name:
        raise ConfigError(
            f"the application {name!r} cannot follow itself; expected another name, as in --as {name}-2 --from {name}"
        )
    if leader.follows is not None:
        raise ConfigError(
            f"the application {leader.name!r} follows {leader.follows!r} itself, and writes nothing; expected --from {leader.follows}"
        )
    if leader.successor not in (None, name):
        raise ConfigError(
            f"the application {leader.name!r} has been taken over by {leader.successor!r}; expected --from {leader.successor}"
        )
