"""The newest configuration of each connector: a compacted topic, by which workers with an older file find out."""

from __future__ import annotations

import json
from typing import Any

from streamkit.connectors.classes import CLASS, class_of
from streamkit.connectors.connector import Connector
from streamkit.connectors.runtime.internal_topic import declare_internal_topic, newest_rows
from streamkit.connectors.sink import TOPICS
from streamkit.errors import ConfigError
from streamkit.log.log import Log

TOPIC = "__connect_configs"
TASKS_MAX = "tasks.max"
_SCHEMA = "connector string NOT NULL, worker string, settings string"


class OutdatedError(ConfigError):
    """Another worker has a newer configuration of the connector."""


def publish_configuration(log: Log, connector: Connector, worker: str) -> list[str]:
    """Make a connector's configuration the one that counts; returns which settings are others than before, none if it is new."""
    declare_internal_topic(log, TOPIC, _SCHEMA, ["connector"])
    known = _newest(log, connector.name)
    changed = [] if known is None else _differing(known[1], _shown(connector))
    if known is None or changed:
        with log.producer() as producer:
            producer.send(TOPIC, {"connector": connector.name, "worker": worker, "settings": json.dumps(_shown(connector))})
    return changed


def check_configuration(log: Log, connector: Connector) -> None:
    """OutdatedError if another worker has brought another configuration of the connector."""
    known = _newest(log, connector.name)
    changed = [] if known is None else _differing(known[1], _shown(connector))
    if known is not None and changed:
        raise OutdatedError(
            f"the worker {known[0]} runs the connector {connector.name} with another configuration, which is newer; other settings: "
            f"{', '.join(changed)}. Start this worker again, with the same file"
        )


def read_configurations(log: Log) -> dict[str, dict[str, str]]:
    """The newest settings of each connector, secrets hidden."""
    return {row["connector"]: json.loads(row["settings"]) for row in newest_rows(log, TOPIC, "connector")}


def read_tasks_max(log: Log) -> dict[str, int]:
    """How many tasks each connector has by its newest configuration."""
    found = {name: settings.get(TASKS_MAX, "") for name, settings in read_configurations(log).items()}
    return {name: int(written) for name, written in found.items() if written.isdecimal()}  # earlier versions wrote placeholders


def class_of_connector(log: Log, name: str) -> type[Connector] | None:
    """The class of a connector by its newest configuration; None if there is none, or this process cannot import it."""
    text = read_configurations(log).get(name, {}).get(CLASS)
    try:
        return None if text is None else class_of(text)
    except (ConfigError, ImportError):
        return None


def topics_of_sink(log: Log, name: str) -> list[str]:
    """The topics of a sink by its newest configuration; none of a source."""
    written = read_configurations(log).get(name, {}).get(TOPICS.name)
    return [] if written is None else list(TOPICS.read(written))


def _newest(log: Log, name: str) -> tuple[str, dict[str, str]] | None:
    rows = (row for row in newest_rows(log, TOPIC, "connector") if row["connector"] == name)
    return next(((row["worker"], json.loads(row["settings"])) for row in rows), None)


def _shown(connector: Connector) -> dict[str, str]:
    kind = type(connector)
    written = {CLASS: f"{kind.__module__}:{kind.__qualname__}"} | connector.config
    shown = {name: connector.redacted(_written(value)) for name, value in written.items()}
    return dict(sorted({**shown, TASKS_MAX: str(connector.settings[TASKS_MAX])}.items()))  # its value: others count tasks by it


def _written(value: Any) -> str:
    """A value as a file has it: of a list, texts with commas between."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
