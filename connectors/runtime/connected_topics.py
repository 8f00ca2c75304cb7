"""Which topics the connectors of a log fill, and which they empty, by their newest settings and positions."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.connectors.classes import CLASS
from streamkit.connectors.runtime.configurations import read_configurations, topics_of_sink
from streamkit.connectors.runtime.positions import read_with_targets
from streamkit.connectors.runtime.targets import TARGETS
from streamkit.log.log import Log


@dataclass(frozen=True)
class ConnectedTopic:
    """A connector, by its name and the name of its class, and a topic that it fills or empties."""

    name: str
    kind: str
    topic: str
    is_source: bool


def connected_topics(log: Log) -> tuple[ConnectedTopic, ...]:
    """The topics of all connectors that have run on a log; a source fills those that its positions name."""
    found: list[ConnectedTopic] = []
    for name, settings in sorted(read_configurations(log).items()):
        kind, emptied = settings[CLASS].rpartition(":")[2], topics_of_sink(log, name)
        found += [ConnectedTopic(name, kind, topic, is_source=False) for topic in emptied]
        filled = {} if emptied else read_with_targets(log, name)
        topics = {topic for position in filled.values() for topic, _ in position.get(TARGETS, {}).get("topics", {}).values()}
        found += [ConnectedTopic(name, kind, topic, is_source=True) for topic in sorted(topics)]
    return tuple(found)
