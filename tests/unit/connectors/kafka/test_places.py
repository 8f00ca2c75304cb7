"""Where records go: among the partitions of Kafka, and of the log, by whatever way they came."""

from __future__ import annotations

from collections import defaultdict

import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.errors import ConfigError
from tests.unit.connectors.kafka.test_kafka import WAYS, _short_waits, consume, create, log, name, produce, sink_of, source_of

__all__ = ["_short_waits", "log", "name"]
pytestmark = pytest.mark.foreign("kafka")


def places_by(broker, name, messages, partitioner, partitions):
    """Where a producer of confluent-kafka puts records with the keys of these."""
    create(broker, name, partitions)
    produce(broker, name, [{"key": key, "value": ""} for key in {one.key() for one in messages}], partitioner=partitioner)
    return {one.key(): one.partition() for one in consume(broker, name)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("partitioner", [None, "murmur2", "consistent"])
def test_columns_go_by_the_key_that_is_written(broker, name, log, way, partitioner):
    """Rows with a key lie beside those of other producers, also if both topics have as many partitions; a partitioner that is given counts."""
    log.create_topic("orders", "id bigint, amount double", key="id", partitions=3)
    with log.producer() as producer:
        producer.send_batch("orders", [{"id": number, "amount": number / 2} for number in range(200)])
    create(broker, name, 3)
    given = WAYS[way] | ({} if partitioner is None else {"kafka.partitioner": partitioner})
    run([sink_of(broker, name, topics="orders", **given)], log, once=True)
    found = consume(broker, name)
    assert len(found) == 200
    own = places_by(broker, f"{name}-own", found, partitioner or "murmur2_random", 3)
    assert {one.key(): one.partition() for one in found} == own


@pytest.mark.parametrize("way", WAYS)
def test_bytes_stay_where_they_are_unless_a_partitioner_is_given(broker, name, log, way):
    """Records of bytes keep their partition where both topics have as many; with a partitioner their keys decide."""
    log.create_topic("words", format="bytes", partitions=3)
    with log.producer() as producer:
        producer.send_batch(
            "words",
            [{"key": b"k%d" % number, "value": b"%d" % (number % 3)} for number in range(60)],
            partitions=[number % 3 for number in range(60)],
        )
    for target, given in ((name, {}), (f"{name}-by-key", {"kafka.partitioner": "murmur2_random"})):
        create(broker, target, 3)
        run([sink_of(broker, target, connector=target, topics="words", **WAYS[way], **given)], log, once=True)
    kept, by_key = consume(broker, name), consume(broker, f"{name}-by-key")
    assert all(one.partition() == int(one.value()) for one in kept)
    assert {one.key(): one.partition() for one in by_key} == places_by(broker, f"{name}-own", by_key, "murmur2_random", 3)


@pytest.mark.parametrize("way", WAYS)
def test_rows_without_a_key_keep_partition_and_order(broker, name, log, way):
    """Lines without a key, through columns of the log and back, are in the partitions and in the order that they had."""
    create(broker, name, 3)
    create(broker, f"{name}-out", 3)
    produce(broker, name, [{"value": f"{number:05}", "partition": number % 3} for number in range(3_000)])
    settings = {"value.format": "string", "value.schema": "line string", "topic": "lines"}
    run([source_of(broker, name, **WAYS[way], **settings)], log, once=True)
    assert log.topic("lines").partitions == 3
    run([sink_of(broker, f"{name}-out", topics="lines", **{"value.format": "string"}, **WAYS[way])], log, once=True)
    assert by_partition(consume(broker, f"{name}-out")) == by_partition(consume(broker, name))


def by_partition(messages):
    found = defaultdict(list)
    for one in messages:
        found[one.partition()].append(one.value())
    return found


def test_a_topology_that_says_columns_has_as_many_partitions(broker, name, log):
    """The topic of a source gets Kafka's partitions, also where the topology says its columns, and lines have their order there."""
    create(broker, name, 1)
    produce(broker, name, [{"value": f"{number:06}"} for number in range(5_000)])
    place = {"bootstrap_servers": broker.address}
    app = sk.Topology("lines")
    lines = app.stream(sk.kafka(name, value_format="string", **place), schema="value string")
    lines.to(sk.kafka(f"{name}-out", value_format="string", **place))
    sk.run(app, log=log, engine="local", drain=True).wait()
    assert log.topic(f"kafka.{name}").partitions == 1
    every = [f"{number:06}" for number in range(5_000)]
    assert log.read(f"kafka.{name}")["value"].to_pylist() == every
    assert (
        sorted(one.value().decode() for one in consume(broker, f"{name}-out")) == every
    )  # without a key rows have no order behind a step


def test_what_nothing_decodes_goes_as_it_came(broker, name, log):
    """A topology from Kafka to Kafka that names no format writes the keys and values that it read, nulls too."""
    create(broker, name, 2)
    records = [{"key": b"\x00k%d" % number, "value": None if number % 7 == 0 else b"\x04\xff%d" % number} for number in range(50)]
    produce(broker, name, records)
    app = sk.Topology("copies")
    place = {"bootstrap_servers": broker.address}
    app.stream(sk.kafka(name, **place)).to(sk.kafka(f"{name}-out", **place))
    sk.run(app, log=log, engine="local", drain=True).wait()
    found = {one.key(): one.value() for one in consume(broker, f"{name}-out")}
    assert found == {record["key"]: record["value"] for record in records}


def test_text_with_a_column_of_the_key(broker, name, log):
    """A format of one column takes the key's columns beside it; more than one is an error in words, and a key that nobody reads too."""
    create(broker, name, 1)
    produce(broker, name, [{"key": f"k{number}", "value": f"v{number}"} for number in range(5)])
    settings = {"value.format": "string", "key": "who"}
    run(
        [source_of(broker, name, "one", topic="words", **settings, **{"value.schema": "who string, word string"})], log, once=True
    )
    assert log.read("words", ["who", "word"]).to_pylist()[0] | {"_timestamp": 0, "_partition": 0, "_offset": 0} == {
        "who": "k0", "word": "v0", "_timestamp": 0, "_partition": 0, "_offset": 0,
    }  # fmt: skip
    with pytest.raises(
        ConfigError,
        match=r"value\.format=string has one column, and who, word, more were found; expected one beside those of the key",
    ):
        run(
            [source_of(broker, name, "two", topic="more", **settings, **{"value.schema": "who string, word string, more int"})],
            log,
            once=True,
        )
    with pytest.raises(ConfigError, match="found key=who, and nothing says which columns the values have"):
        run([source_of(broker, name, "three", topic="bytes", **settings)], log, once=True)


def test_more_tasks_than_before(broker, name, log):
    """A connector takes more tasks, and fewer, than it had: each change goes on where it stood."""
    create(broker, name, 4)
    for tasks, first in ((1, 0), (3, 20), (2, 40), (4, 60)):
        produce(broker, name, [{"key": b"%d" % number, "value": b"%d" % number} for number in range(first, first + 20)])
        run([source_of(broker, name, topic="words", **{"tasks.max": tasks})], log, once=True)
    assert sorted(int(row["value"]) for row in log.decode("words", log.read("words"))) == list(range(80))
