"""An application as plain values: how far it has read, its stores, its steps and its epochs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from streamkit.engine.epoch.row_counting import rows_of_stores
from streamkit.engine.runs.history import history_of
from streamkit.engine.runs.step_figures import StepFigures, step_figures
from streamkit.errors import FormatVersionError
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.database.pulse import LAPSE_MS
from streamkit.log.input_lag import input_partitions
from streamkit.log.log import Log
from streamkit.names import application_heartbeat
from streamkit.plan.program import Program
from streamkit.state.restoring import restoring_now

PROGRAMS_KEPT = 64


@dataclass(frozen=True)
class InputPosition:
    """How far an application has read a partition, and how many records wait behind that."""

    topic: str
    partition: int
    next_offset: int
    lag: int


@dataclass(frozen=True)
class StoreSize:
    """
    A store, how many rows it has, and how much there is in its changelog.

    `rows` is None until an epoch has counted them, and for a store without a log. A table of more than 100,000 rows is counted in a sample.
    """

    store: str
    rows: int | None
    changelog: str
    records: int
    bytes: int


@dataclass(frozen=True)
class ApplicationDescription:
    """An application of one look; topics that were deleted since are among its inputs only once they were made again."""

    name: str
    epochs: int
    stream_time_ms: int | None
    tasks: int
    key_groups: int
    generation: int
    follows: str | None
    leader_was_reset: bool
    successor: str | None
    running: bool
    first_commit_ms: int | None
    late: int
    null_key: int
    errors: int
    inputs: tuple[InputPosition, ...]
    missing_inputs: tuple[str, ...]
    stores: tuple[StoreSize, ...]
    steps: tuple[StepFigures, ...]
    restoring: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


def application_description(log: Log, state: ApplicationState) -> ApplicationDescription:
    """What there is to say of an application whose state was read."""
    names = {topic.id: topic.name for topic in log.catalog.topics.every()}
    times = [epoch.committed_ms for epoch in log.catalog.epochs.last(state.id) if epoch.generation == state.generation]
    return ApplicationDescription(
        name=state.name,
        epochs=state.epoch,
        stream_time_ms=state.stream_time_ms,
        tasks=state.tasks,
        key_groups=state.key_groups,
        generation=state.generation,
        follows=state.follows,
        leader_was_reset=state.follows is not None and state.has_lost(log.catalog.applications.get(state.follows)),
        successor=state.successor,
        running=is_running(log, state),
        first_commit_ms=min(times, default=None),
        late=_total(state, "late"),
        null_key=_total(state, "null_key"),
        errors=_total(state, "error"),
        inputs=tuple(InputPosition(one.topic, one.partition, one.next_offset, one.lag) for one in input_partitions(log, state)),
        missing_inputs=log.catalog.applications.current_inputs(state).missing,
        stores=tuple(_stores(log, state, names)),
        steps=tuple(steps_of(log, state)),
        restoring=tuple(one.to_json() for one in restoring_now(log.storage.root, state.name)),
    )


def rows_in_stores(state: ApplicationState) -> Mapping[str, int]:
    """How many rows the stores of an application have, by name, as of its last commit."""
    return rows_of_stores(state.metrics, {store.name: store.changelog_topic_id for store in state.stores.values()})


def is_running(log: Log, state: ApplicationState) -> bool:
    """Whether a driver of the application has been heard of in the last minute."""
    heartbeat = application_heartbeat(state.id, state.generation)
    return log.heartbeats.ages_ms(heartbeat).get(heartbeat, LAPSE_MS) < LAPSE_MS


def steps_of(log: Log, state: ApplicationState) -> Sequence[StepFigures]:
    """The figures of the steps of the program that the catalog has; none if another version of StreamKit compiled it, or if it has none yet."""
    text = log.catalog.applications.program_of(state.name)
    try:
        return step_figures(read_program(text), state.metrics) if text else ()
    except FormatVersionError:
        return ()


@lru_cache(maxsize=PROGRAMS_KEPT)
def read_program(text: str) -> Program:
    """A program as the catalog keeps it; who watches an application asks for it each second."""
    return Program.from_json(json.loads(text))


def epochs_of(log: Log, application: str, last: int) -> list[dict[str, Any]]:
    """The last epochs of an application as plain values, oldest first; ConfigError if there is no such application."""
    found = history_of(log.catalog, application, last).to_pylist()
    return [{name: dict(value) if isinstance(value, list) else value for name, value in epoch.items()} for epoch in found]


def _stores(log: Log, state: ApplicationState, names: Mapping[int, str]) -> Iterable[StoreSize]:
    rows = rows_in_stores(state)
    for store in state.stores.values():
        changelog = names[store.changelog_topic_id]
        held = log.describe(changelog)
        yield StoreSize(store.name, rows.get(store.name), changelog, held["rows"], held["bytes"])


def _total(state: ApplicationState, metric: str) -> int:
    return sum(state.metrics.get(metric, {}).values())
