"""Applications of the log, running or not: where they stand, their steps, their epochs, and a state a second."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamkit.connectors.files.record_lines import json_text
from streamkit.description.applications import ApplicationDescription, application_description, epochs_of, steps_of
from streamkit.description.programs import ProgramStart, ProgramStartDescription, program_start, program_starts
from streamkit.engine.runs.step_figures import StepFigures
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.log import Log
from streamkit.serve.answers import Event, StreamAnswer
from streamkit.serve.forms import EVENTS
from streamkit.serve.refusals import absent, bad_request
from streamkit.serve.resource import Asked, Parameter, Resource

EPOCHS = 20
EPOCHS_IN_EVENTS = 1
GENERATION_DIGITS = 18


def application_state(log: Log, name: str) -> ApplicationState:
    """The state of an application; 404 if there is none of that name."""
    with absent("see /api/v1/applications"):
        return log.catalog.applications.get(name)


def applications(asked: Asked) -> list[dict[str, Any]]:
    """All of them."""
    return [application_description(asked.log, state).to_json() for state in asked.log.catalog.applications.every()]


def application(asked: Asked) -> dict[str, Any]:
    return application_description(asked.log, application_state(asked.log, asked.path["app"])).to_json()


def steps(asked: Asked) -> list[dict[str, Any]]:
    return [one.to_json() for one in steps_of(asked.log, application_state(asked.log, asked.path["app"]))]


def epochs(asked: Asked) -> list[dict[str, Any]]:
    last = asked.rows("last", "ask for fewer")
    application_state(asked.log, asked.path["app"])
    return epochs_of(asked.log, asked.path["app"], last)


def programs(asked: Asked) -> list[dict[str, Any]]:
    return [one.to_json() for one in program_starts(asked.log, application_state(asked.log, asked.path["app"]))]


def program(asked: Asked) -> dict[str, Any]:
    """What the start of a generation changed; 404 if none that changed anything is known of it."""
    state, text = application_state(asked.log, asked.path["app"]), asked.path["generation"]
    if not text.isdecimal() or len(text) > GENERATION_DIGITS:
        raise bad_request(f"found the generation {text!r}; expected its number")
    with absent(f"see /api/v1/applications/{state.name}/programs"):
        return program_start(asked.log, state, int(text)).to_json()


@dataclass
class ApplicationSight:
    """An application as those see it who watch it."""

    log: Log
    name: str

    def look(self, queries: Collection[Any]) -> Mapping[Any, Sequence[Event]]:
        """Its state now, with its newest epoch."""
        state = application_state(self.log, self.name)
        newest = epochs_of(self.log, self.name, EPOCHS_IN_EVENTS)
        value = application_description(self.log, state).to_json() | {"newest_epoch": newest[-1] if newest else None}
        event = Event("state", json_text(value), str(state.epoch))
        return {query: [event] for query in queries}


def events(asked: Asked) -> StreamAnswer:
    name = application_state(asked.log, asked.path["app"]).name
    return StreamAnswer(lambda: _states(asked, name))


async def _states(asked: Asked, name: str) -> AsyncIterator[str]:
    watching = asked.live.watching(("application", name), lambda: ApplicationSight(asked.log, name), by_commits=False)

    async def first(is_first: bool) -> Sequence[Event]:
        found = await asked.live.run_live(watching.sight.look, [None])
        return found[None]

    async for text in watching.events("state", first):
        yield text


RESOURCES = (
    Resource("/api/v1/applications", "All applications of the log.", applications, list[ApplicationDescription]),
    Resource(
        "/api/v1/applications/{app}",
        "An application: where it stands, its inputs, stores and steps, as streamkit apps describe --json.",
        application,
        ApplicationDescription,
        is_of_application=True,
    ),
    Resource(
        "/api/v1/applications/{app}/steps", "Rows and busy time of each step.", steps, list[StepFigures], is_of_application=True
    ),
    Resource(
        "/api/v1/applications/{app}/epochs",
        "The last epochs, oldest first, as streamkit apps history --json.",
        epochs,
        list[dict[str, Any]],
        (Parameter("last", int, "how many", EPOCHS, least=1),),
        is_of_application=True,
    ),
    Resource(
        "/api/v1/applications/{app}/programs",
        "The last starts that changed the program, newest first, as streamkit apps programs --json.",
        programs,
        list[ProgramStart],
        is_of_application=True,
    ),
    Resource(
        "/api/v1/applications/{app}/programs/{generation}",
        "What the start of a generation changed in the program, in the words of streamkit plan.",
        program,
        ProgramStartDescription,
        is_of_application=True,
    ),
    Resource(
        "/api/v1/applications/{app}/events",
        "The state of the application as events, once a second.",
        events,
        dict[str, Any],
        forms=(EVENTS,),
    ),
)
