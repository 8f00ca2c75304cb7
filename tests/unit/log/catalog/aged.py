"""A topic whose rows are as old as a test wants them."""

from __future__ import annotations

HOUR = 3_600_000
NOW = 500_000 * HOUR
ANY_TIME = {"message_timestamp_after_max_ms": (1 << 63) - 1}


def topic_with(log, **settings):
    log.create_topic("t", "v bigint", partitions=1, config={name.replace("_", "."): value for name, value in settings.items()})


def append(log, *ages_ms, topic="t"):
    """One commit a row, so old."""
    with log.producer() as producer:
        for age_ms in ages_ms:
            producer.send(topic, {"v": age_ms}, timestamp_ms=log.clock.now_ms() - age_ms)
            producer.flush()


def offsets(log):
    return log.read("t")["_offset"].to_pylist()


def start_of(log):
    return log.catalog.manifest.start_offsets(log.topic("t").id)[0]
