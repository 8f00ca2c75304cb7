"""The programs with which an application was started lately, and what each start changed, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from streamkit.engine.evolution.program_comparison import compare
from streamkit.errors import ConfigError, FormatVersionError
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.programs import StartedProgram
from streamkit.log.log import Log
from streamkit.plan.earlier_program import read_program
from streamkit.plan.program_change import INPUTS, OUTPUTS, SAME, STEPS, STORES, ProgramChange, changes_of

FIRST_GENERATION = 1
COMPARISONS_KEPT = 64


@dataclass(frozen=True)
class ProgramStart:
    """A start that changed the program of its application; `changes` is None where the program before is not known any more."""

    generation: int
    started_ms: int
    tasks: int
    changes: int | None

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class ChangeOfProgram:
    """What becomes of one input, output, store or step: its name, and the words and signs of `streamkit plan`."""

    name: str
    fate: str
    text: str
    before: str


@dataclass(frozen=True)
class ProgramStartDescription:
    """
    What a start changed: everything that its program has, and what only the one before had.

    `generation_before` is the one that began with the program before; None where there was none, or where it is not known any more. In
    the latter case `changes` is None too, and nothing is compared.
    """

    application: str
    generation: int
    started_ms: int
    tasks: int
    changes: int | None
    generation_before: int | None
    inputs: tuple[ChangeOfProgram, ...] = ()
    outputs: tuple[ChangeOfProgram, ...] = ()
    stores: tuple[ChangeOfProgram, ...] = ()
    steps: tuple[ChangeOfProgram, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


def program_starts(log: Log, state: ApplicationState) -> list[ProgramStart]:
    """The last starts that changed the program of an application, newest first."""
    known = log.catalog.applications.programs(state.id)
    return [
        ProgramStart(one.generation, one.started_ms, one.tasks, _count(_changes_at(known, place)))
        for place, one in enumerate(known)
    ]


def program_start(log: Log, state: ApplicationState, generation: int) -> ProgramStartDescription:
    """What the start of a generation changed; ConfigError, which lists those there are, if none that changed anything is known of it."""
    known = log.catalog.applications.programs(state.id)
    places = {one.generation: place for place, one in enumerate(known)}
    if generation not in places:
        raise ConfigError(
            f"generation {generation} of {state.name!r} is not known to have changed the program; expected one of "
            f"{', '.join(map(str, places)) or 'none'}: the others went on with the program of the one before"
        )
    place = places[generation]
    one, changes = known[place], _changes_at(known, place)
    before = known[place + 1].generation if changes is not None and place + 1 < len(known) else None
    listed = {subject: _described(changes or (), subject) for subject in (INPUTS, OUTPUTS, STORES, STEPS)}
    return ProgramStartDescription(state.name, generation, one.started_ms, one.tasks, _count(changes), before, **listed)


def _described(changes: Sequence[ProgramChange], subject: str) -> tuple[ChangeOfProgram, ...]:
    return tuple(ChangeOfProgram(**one.to_json()) for one in changes_of(changes, subject))


def _count(changes: Sequence[ProgramChange] | None) -> int | None:
    return None if changes is None else sum(one.fate != SAME for one in changes)


def _changes_at(known: Sequence[StartedProgram], place: int) -> tuple[ProgramChange, ...] | None:
    """What the program at a place of the list changed; None if the one before is not known, or another version of StreamKit has made one of them."""
    text = known[place].text
    try:
        if place + 1 < len(known):
            return _compared(known[place + 1].text, text)
        return _compared("", text) if known[place].generation == FIRST_GENERATION else None
    except FormatVersionError:
        return None


@lru_cache(maxsize=COMPARISONS_KEPT)
def _compared(before: str, text: str) -> tuple[ProgramChange, ...]:
    """Who watches an application asks for the same again and again."""
    return compare(read_program(before) if before else None, read_program(text))
