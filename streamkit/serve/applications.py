"""Applications of the log, running or not: where they stand, their steps, their epochs, and a state a second."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamkit.connectors.files.record_lines import json_text
from streamkit.description.applications import ApplicationDescription, application_description, epochs_of, steps_of
from streamkit.engine.runs.step_figures import StepFigures
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.log import Log
from streamkit.serve.answers import StreamAnswer, event_text
from streamkit.serve.forms import EVENTS
from streamkit.serve.refusals import absent
from streamkit.serve.resource import Asked, Parameter, Resource

EPOCHS = 20
EPOCHS_IN_EVENTS = 1


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


@dataclass
class ApplicationSight:
    """An application as those see it who watch it."""

    log: Log
    name: str

    def look(self, queries: Collection[Any]) -> Mapping[Any, Sequence[str]]:
        """Its state now, with its newest epoch."""
        state = application_state(self.log, self.name)
        newest = epochs_of(self.log, self.name, EPOCHS_IN_EVENTS)
        value = application_description(self.log, state).to_json() | {"newest_epoch": newest[-1] if newest else None}
        event = event_text("state", json_text(value), str(state.epoch))
        return {query: [event] for query in queries}


def events(asked: Asked) -> StreamAnswer:
    name = application_state(asked.log, asked.path["app"]).name
    return StreamAnswer(lambda: _states(asked, name))


async def _states(asked: Asked, name: str) -> AsyncIterator[str]:
    watching = asked.live.watching(("application", name), lambda: ApplicationSight(asked.log, name), by_commits=False)

    async def first(is_first: bool) -> Sequence[str]:
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
        "/api/v1/applications/{app}/events", "A state of the application a second.", events, dict[str, Any], forms=(EVENTS,)
    ),
)
