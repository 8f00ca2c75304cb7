"""
Settings of Kafka's client that a user may give, and those on which exactly once, the order of a key or an answer of ours rests.

`kafka.*` takes any setting of librdkafka (its CONFIGURATION.md); what is listed here is refused when a connector is made, source or sink.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamkit.connectors.setting import Setting
from streamkit.errors import ConfigError

BATCH_BYTES = 1_000_000
TRANSACTION_MS = 60_000  # what a dead producer leaves open so long is waited for, and no longer
DEALS_EMPTY_KEYS = "consistent_random"
HASH_NULLS = ("murmur2", "consistent", "fnv1a")  # these partitioners have a place for records without a key
BY_KEY = ("murmur2_random", "murmur2", DEALS_EMPTY_KEYS, "consistent", "fnv1a_random", "fnv1a")

# Why a setting is the connector's own, whatever its value.
_OURS = {
    "bootstrap.servers": "it is the setting bootstrap.servers",
    "metadata.broker.list": "it is another name of bootstrap.servers",
    "topic.blacklist": "topics would look as if they were not there",
    "allow.auto.create.topics": "a question about a topic would create it; a sink has auto.create",
    "isolation.level": "a source reads committed records",
    "auto.offset.reset": "a source begins at its own positions",
    "enable.auto.commit": "a source has its own positions",
    "auto.commit.enable": "a source has its own positions",
    "enable.auto.offset.store": "a source has its own positions",
    "offset.store.method": "a source has its own positions",
    "offset.store.path": "a source has its own positions",
    "enable.partition.eof": "it tells a source that it is at the end",
    "transactional.id": "a sink fences its older instances by it",
    "enable.gapless.guarantee": "a refused record would end the client, and not be a dead letter",
    "delivery.report.only.error": "a sink hears of each record",
    "broker.version.fallback": "transactions and headers need the requests of newer brokers",
    "api.version.fallback.ms": "transactions and headers need the requests of newer brokers",
    "enabled_events": "nobody would hear of events",
    "log.queue": "nobody would read the messages",
    "default.topic.config": "its settings are given as kafka.*, too",
    "default_topic_conf": "its settings are given as kafka.*, too",
    "logger": "it is a function, and not a text",
    "on_delivery": "it is a function, and not a text",
    "on_commit": "it is a function, and not a text",
    "msg_order_cmp": "it is a function, and not a text",
    "interceptors": "it is a function, and not a text",
    "opaque": "it is an object, and not a text",
}
_FUNCTIONS, _MOCKS = "_cb", "test."  # how names of functions end, and names of a cluster that is none begin

# What a setting may be.
_BOUNDED = {
    one.name: one
    for one in (
        Setting("enable.idempotence", "records arrive once, in their order", choices=("true",)),
        Setting("api.version.request", "transactions and headers need the requests of newer brokers", choices=("true",)),
        Setting("acks", "a record is kept by all replicas in sync", choices=("all", "-1")),
        Setting("request.required.acks", "a record is kept by all replicas in sync", choices=("all", "-1")),
        Setting("queuing.strategy", "records of a key have an order", choices=("fifo",)),
        Setting("partitioner", "records of a key are in one partition, in their order", choices=BY_KEY),
        Setting("max.in.flight", "records arrive once, in their order", "integer", least=1, most=5),
        Setting("max.in.flight.requests.per.connection", "records arrive once, in their order", "integer", least=1, most=5),
        Setting("retries", "records arrive once, in their order", "integer", least=1),
        Setting("message.send.max.retries", "records arrive once, in their order", "integer", least=1),
        Setting("transaction.timeout.ms", "a start waits so long for what a dead task left open", "integer", least=1_000, most=TRANSACTION_MS),
        Setting("batch.size", "a batch that a broker refuses is cut from this size on", "integer", least=1, most=BATCH_BYTES),
    )
}  # fmt: skip


def check_client_settings(connector: str, settings: Mapping[str, str]) -> None:
    """ConfigError for settings of the client that are the connector's own, or that may not have their value."""
    for name, written in settings.items():
        reason = _OURS.get(name) or ("it is a function, and not a text" if name.endswith(_FUNCTIONS) else None)
        if name.startswith(_MOCKS):
            reason = "records would go to a cluster that is none"
        if reason is not None:
            raise ConfigError(
                f"found kafka.{name}, which connector {connector} sets itself, because {reason}; expected no such setting"
            )
        if name in _BOUNDED:
            try:
                _BOUNDED[name].read(written.strip().lower())
            except ConfigError as error:
                raise ConfigError(f"connector {connector}: found kafka.{error}, because {_BOUNDED[name].doc}") from None
