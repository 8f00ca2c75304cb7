"""
Connectors that statements have declared: a compacted topic of their settings, which every worker of the log can read.

The settings are as they were written, with placeholders: each worker puts in what its own environment and files have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from streamkit.connectors.classes import CLASS, class_of, connector_of
from streamkit.connectors.connector import Connector
from streamkit.connectors.placeholders import kept_elsewhere
from streamkit.connectors.runtime import configurations, status
from streamkit.connectors.runtime.converters import check_formats
from streamkit.connectors.runtime.internal_topic import newest_rows
from streamkit.connectors.setting import read_settings, written_secret
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.log.rows.records import records_of
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.names import DELETED, check_name

TOPIC = "__connect_declared"
ALIVE = (status.RUNNING, status.PAUSED, status.RESTARTING)


@dataclass(frozen=True)
class DeclaredConnector:
    """A connector by its name and the settings that its statement gives, the class among them."""

    name: str
    settings: Mapping[str, str]

    def made(self) -> Connector:
        """The connector, with what this process has for its placeholders; ConfigError says what is wrong."""
        return connector_of(self.name, self.settings)

    def check(self) -> type[Connector]:
        """
        The class of the connector; ConfigError for settings that it does not have, or that would show a secret.

        A setting whose placeholder has no value in this process is not looked at: the worker has the value.
        """
        check_name(self.name, "connector")
        kind = class_of(self.settings[CLASS])
        given = {name: value for name, value in self.settings.items() if name != CLASS}
        secret = written_secret(kind.declared(), given)
        if secret is not None:
            raise ConfigError(
                f"{secret} is secret, and every reader of the log would see it; expected a placeholder, as in '{secret}' = '${{env:NAME}}' or "
                "'${file:PATH:KEY}', and the value where the worker runs"
            )
        hidden = {name for name, value in given.items() if not _is_to_be_had(name, value)}
        if not hidden:
            check_formats(self.made())
        else:
            seen = [one for one in kind.declared() if one.name not in hidden]
            read_settings(kind.__name__, seen, {name: value for name, value in given.items() if name not in hidden})
        return kind


def _is_to_be_had(name: str, value: str) -> bool:
    """Whether this process has values for the placeholders of a setting."""
    try:
        kept_elsewhere({name: value})
    except ConfigError:
        return False
    return True


def declared_topic() -> Topic:
    """The topic of the declarations, as it is created."""
    schema = "connector string NOT NULL, settings string"
    return declare_topic(TOPIC, schema, ["connector"], None, 1, {"cleanup.policy": "compact"}, internal=True)


def declaration(topic: Topic, connector: DeclaredConnector, now_ms: int) -> list[pa.RecordBatch]:
    """The row that declares a connector, for the topic."""
    settings = json.dumps(dict(sorted(connector.settings.items())))
    return records_of(topic, [{"connector": connector.name, "settings": settings}], now_ms)


def read_declared(log: Log) -> dict[str, DeclaredConnector]:
    """The connectors that statements have declared, by name."""
    rows = newest_rows(log, TOPIC, "connector")
    return {row["connector"]: DeclaredConnector(row["connector"], json.loads(row["settings"])) for row in rows}


def is_alive(log: Log, name: str) -> bool:
    """Whether a worker runs a task of a connector."""
    return any(one.connector == name and one.state in ALIVE for one in status.read_status(log))


def traces(log: Log, name: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The keys of the states of a connector and of the requests to it, each with its topic; its positions are not among them."""
    if name in configurations.read_configurations(log):
        yield configurations.TOPIC, {"connector": name}
    for task in status.read_states(log):
        if task.connector == name:
            yield status.STATUS, {"connector": name, "task": task.task}
    if name in status.read_requests(log):
        yield status.REQUESTS, {"connector": name}


def deletions(log: Log, name: str) -> Iterator[tuple[Topic, list[pa.RecordBatch]]]:
    """The deletions, by topic, of a connector's states and of the requests to it."""
    for topic_name, key in traces(log, name):
        topic = log.topic(topic_name)
        yield topic, records_of(topic, [{**key, DELETED: True}], log.clock.now_ms())


def forget_runs(log: Log, name: str) -> None:
    """Forget how a connector ran that is declared no more, as its worker has said it at its end."""
    with log.producer() as producer, producer.transaction():
        for topic, key in traces(log, name):
            producer.delete(topic, key)
