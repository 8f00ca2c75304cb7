"""Settings of Kafka's client, and names of topics, that a connector refuses when it is made; no broker is asked."""

from __future__ import annotations

import re

import pytest

from streamkit.connectors.kafka import KafkaSink, KafkaSource
from streamkit.errors import ConfigError

SIDES = [(KafkaSource, {"topic": "t", "kafka.topic": "a"}), (KafkaSink, {"topics": "t", "kafka.topic": "a"})]

# From librdkafka's CONFIGURATION.md: whatever a connector says itself, whatever is a function, and whatever breaks "once, in order".
REFUSED = """
    bootstrap.servers=other:9 metadata.broker.list=other:9 topic.blacklist=^a allow.auto.create.topics=true isolation.level=read_uncommitted
    auto.offset.reset=latest enable.auto.commit=true auto.commit.enable=true enable.auto.offset.store=true offset.store.method=file
    enable.partition.eof=false transactional.id=x enable.gapless.guarantee=true delivery.report.only.error=true
    broker.version.fallback=0.8.2 api.version.fallback.ms=5 api.version.request=false enabled_events=1 log.queue=true default.topic.config=x
    logger=x on_delivery=x on_commit=x msg_order_cmp=x interceptors=x opaque=x error_cb=x dr_cb=x dr_msg_cb=x stats_cb=x throttle_cb=x
    oauth_cb=x partitioner_cb=x consume_cb=x rebalance_cb=x background_event_cb=x socket_cb=x test.mock.num.brokers=3
    test.mock.broker.rtt=1 enable.idempotence=false acks=0 acks=1 request.required.acks=1 queuing.strategy=lifo partitioner=random
    partitioner=fnv2 max.in.flight=6 max.in.flight.requests.per.connection=1000000 retries=0 message.send.max.retries=0
    transaction.timeout.ms=60001 transaction.timeout.ms=100 batch.size=1000001
"""
TAKEN = """
    acks=all acks=-1 enable.idempotence=true partitioner=murmur2 partitioner=consistent_random partitioner=fnv1a_random max.in.flight=5
    retries=3 transaction.timeout.ms=30000 batch.size=16384 compression.type=zstd linger.ms=50 message.max.bytes=5000000 check.crcs=true
    client.id=x client.rack=a security.protocol=SASL_SSL sasl.password=x statistics.interval.ms=0 group.id=g fetch.min.bytes=10
"""


@pytest.mark.parametrize(("connector", "settings"), SIDES)
def test_settings_of_the_client(connector, settings):
    """Each is refused with its name and the reason, or taken."""
    given = {"bootstrap.servers": "127.0.0.1:9092", **settings}
    for one in REFUSED.split():
        name, _, value = one.partition("=")
        with pytest.raises(ConfigError, match=rf"found kafka\.{re.escape(name)}.*because.*"):
            connector("x", {**given, f"kafka.{name}": value})
    for one in TAKEN.split():
        name, _, value = one.partition("=")
        connector("x", {**given, f"kafka.{name}": value})


@pytest.mark.parametrize(("connector", "settings"), SIDES)
@pytest.mark.parametrize("name", ["", "a b", "a/b", "${Topic}", "${topic", "ä", ".", "x" * 250])
def test_names_of_topics(connector, settings, name):
    """A name that Kafka has not is refused when the connector is made; it was asked for, again and again, or a part of it was taken."""
    with pytest.raises(ConfigError, match=r"kafka\.topic"):
        connector("x", {"bootstrap.servers": "127.0.0.1:9092", **settings, "kafka.topic": name})


def test_one_topic_of_a_sink():
    """A sink writes to one topic, which may have the name of the log's in it; a source reads several."""
    given = {"bootstrap.servers": "127.0.0.1:9092"}
    with pytest.raises(ConfigError, match="the name of one topic"):
        KafkaSink("x", {**given, "topics": "t", "kafka.topic": "a,b"})
    KafkaSink("x", {**given, "topics": "t", "kafka.topic": "of-${topic}.x"})
    KafkaSource("x", {**given, "kafka.topic": "a,b"})
    with pytest.raises(ConfigError, match=r"topic='\$\{Topic\}'"):
        KafkaSource("x", {**given, "kafka.topic": "a", "topic": "${Topic}"})
