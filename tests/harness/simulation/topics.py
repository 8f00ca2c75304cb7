"""The topics of the world: two that hold what clients send once, three that are sent the same rows and lose some, one for copies."""

from __future__ import annotations

from streamkit.log.log import Log
from streamkit.log.topic.settings import SettingValue
from tests.harness.history.members import COPIES
from tests.kit.history import create_copies

TOPICS = {"orders": 3, "events": 2}
RETENTION_MS, DELETE_RETENTION_MS = 8_000, 8_000
TWIN_PARTITIONS = 2
WHOLE, COMPACTED, AGING = "whole", "compacted", "aging"
TWINS: dict[str, dict[str, SettingValue]] = {
    WHOLE: {"retention.ms": -1},
    COMPACTED: {"cleanup.policy": "compact", "delete.retention.ms": DELETE_RETENTION_MS},
    AGING: {"retention.ms": RETENTION_MS},
}


def create_topics(log: Log) -> None:
    for topic, partitions in TOPICS.items():
        schema = "producer bigint, number bigint"
        log.create_topic(topic, schema, key=["producer", "number"], partitions=partitions, config={"retention.ms": -1})
    for topic, config in TWINS.items():
        log.create_topic(topic, "k bigint, v bigint", key="k", partitions=TWIN_PARTITIONS, config=config)
    create_copies(log, COPIES)
