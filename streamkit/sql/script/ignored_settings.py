"""Settings of ksqlDB, and of Kafka's clients within it, that scripts set and that mean nothing here."""

from __future__ import annotations

OF_KSQLDB = "ksql."
OF_STREAMS = (
    "acceptable.recovery.lag", "application.server", "buffered.records.per.partition", "built.in.metrics.version", "cache.max.bytes.buffering",
    "client.id", "commit.interval.ms", "default.deserialization.exception.handler", "default.production.exception.handler",
    "default.timestamp.extractor", "max.task.idle.ms", "max.warmup.replicas", "metadata.max.age.ms", "num.standby.replicas", "num.stream.threads",
    "poll.ms", "probing.rebalance.interval.ms", "processing.guarantee", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
    "repartition.purge.interval.ms", "replication.factor", "request.timeout.ms", "retries", "retry.backoff.ms", "rocksdb.config.setter",
    "send.buffer.bytes", "state.cleanup.delay.ms", "state.dir", "statestore.cache.max.bytes", "task.timeout.ms", "topology.optimization",
    "window.size.ms", "windowstore.changelog.additional.retention.ms",
)  # fmt: skip
OF_CONSUMERS = (
    "allow.auto.create.topics", "auto.commit.interval.ms", "check.crcs", "connections.max.idle.ms", "default.api.timeout.ms", "enable.auto.commit",
    "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id", "group.instance.id", "heartbeat.interval.ms",
    "isolation.level", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "partition.assignment.strategy",
    "session.timeout.ms",
)  # fmt: skip
OF_PRODUCERS = (
    "acks", "batch.size", "buffer.memory", "compression.type", "delivery.timeout.ms", "enable.idempotence", "linger.ms", "max.block.ms",
    "max.in.flight.requests.per.connection", "max.request.size", "partitioner.class", "transaction.timeout.ms",
)  # fmt: skip
OF_KAFKA = frozenset((*OF_STREAMS, *OF_CONSUMERS, *OF_PRODUCERS, "bootstrap.servers", "security.protocol"))
CLIENTS = ("streams.", "consumer.", "producer.", "main.consumer.", "restore.consumer.", "global.consumer.", "admin.")


def is_ignored(name: str) -> bool:
    """Whether a setting is one of ksqlDB or of Kafka's clients; `ksql.streams.` and the names of clients may stand before the latter."""
    if name.startswith(OF_KSQLDB):
        return True
    client = next((one for one in sorted(CLIENTS, key=len, reverse=True) if name.startswith(one)), "")
    return name.removeprefix(client) in OF_KAFKA
