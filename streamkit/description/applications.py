"""An application as plain values: how far it has read, its stores, its steps and its epochs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from streamkit.engine.runs.history import history_of
from streamkit.engine.runs.step_figures import StepFigures, step_figures
from streamkit.errors import FormatVersionError
from streamkit.log.catalog.applications import ApplicationState, StoreState
from streamkit.log.database.pulse import LAPSE_MS
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
class ChangelogSize:
    """A store, and how much there is in its changelog."""

    store: str
    changelog: str
    records: int
    bytes: int


@dataclass(frozen=True)
class ApplicationDescription:
    """An application of one look; topics that were deleted since are left out."""

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
    stores: tuple[ChangelogSize, ...]
    steps: tuple[StepFigures, ...]
    restoring: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


def application_description(log: Log, state: ApplicationState) -> ApplicationDescription:
    """What there is to say of an application whose state was read."""
    names = {topic.id: topic.name for topic in log.catalog.topics.every()}
    times = [epoch.timestamp_ms for epoch in log.catalog.epochs.last(state.id) if epoch.generation == state.generation]
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
        inputs=tuple(_inputs(log, state, names)),
        stores=tuple(_store(log, store, names[store.changelog_topic_id]) for store in state.stores.values()),
        steps=tuple(steps_of(log, state)),
        restoring=tuple(one.to_json() for one in restoring_now(log.storage.root, state.name)),
    )


def is_running(log: Log, state: ApplicationState) -> bool:
    """Whether a driver of the application has been heard of lately."""
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
    found = history_of(log.catalog.epochs.last(log.catalog.applications.get(application).id, last)).to_pylist()
    return [{name: dict(value) if isinstance(value, list) else value for name, value in epoch.items()} for epoch in found]


def _inputs(log: Log, state: ApplicationState, names: Mapping[int, str]) -> Iterable[InputPosition]:
    for topic_id, offsets in state.positions.items():
        if topic_id in names:
            ends = log.catalog.manifest.end_offsets(topic_id)
            for partition, offset in sorted(offsets.items()):
                yield InputPosition(names[topic_id], partition, offset, ends[partition] - offset)


def _store(log: Log, store: StoreState, changelog: str) -> ChangelogSize:
    held = log.describe(changelog)
    return ChangelogSize(store.name, changelog, held["rows"], held["bytes"])


def _total(state: ApplicationState, metric: str) -> int:
    return sum(state.metrics.get(metric, {}).values())
