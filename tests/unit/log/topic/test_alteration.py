"""Promises of altering and deleting topics: what can change, what is refused, and who notices."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, EpochFailedError, SchemaError, TopicExistsError, TopicNotFoundError
from streamkit.log.catalog.applications import StoreDeclaration
from streamkit.log.catalog.epochs import EpochCommit
from streamkit.log.consume.reader import Reader
from streamkit.log.opening import open_log
from streamkit.log.topic.topic import declare_topic
from streamkit.names import fresh_token


@pytest.fixture
def clock():
    return HandClock(1000)


@pytest.fixture
def log(empty_log):
    empty_log.create_topic("t", "user string, n int", key="user", partitions=2, config={"retention.ms": 5})
    return empty_log


def send(log, topic="t", rows=20):
    with log.producer() as producer:
        producer.send_batch(topic, pa.table({"user": [f"u{n}" for n in range(rows)], "n": range(rows)}))


def started(log, reads, stores=("counts",)):
    """An application that has committed an epoch on a topic, with stores over changelogs of its own."""
    changelog = {
        store: declare_topic(f"app-{store}-changelog", "key binary not null, value binary", "key", internal=True)
        for store in stores
    }
    state = log.catalog.applications.start(
        "app", tasks=1, default_tasks=1, key_groups=8, program_hash="h",
        stores=[StoreDeclaration(store, topic) for store, topic in changelog.items()],
    )  # fmt: skip
    log.catalog.epochs.commit(epoch(state, 1, log.topic(reads)))
    return state


def epoch(state, number, topic):
    positions = {topic.id: dict.fromkeys(range(2), 0)}
    return EpochCommit(state.id, state.generation, number, fresh_token(), positions, positions, None, False, (), {}, 0)


def test_partitions_are_added(log):
    """More partitions begin empty; rows stay where they are, new ones spread over all."""
    send(log)
    before = log.end_offsets("t")

    assert log.alter_topic("t", partitions=np.int32(5)) == log.topic("t")
    assert log.end_offsets("t") == before | {2: 0, 3: 0, 4: 0}
    send(log)
    after = log.end_offsets("t")
    assert sum(after.values()) == 40 and all(after[partition] > 0 for partition in range(5))
    assert log.catalog.manifest.check() == ()


@pytest.mark.every_catalog
def test_settings_change_one_by_one(log):
    """A setting given is set, one of None goes back to its default, the others stay."""
    assert log.alter_topic("t", config={"compression.type": "zstd"}).config == (
        ("compression.type", "zstd"),
        ("retention.ms", "5"),
    )
    altered = log.alter_topic("t", config={"retention.ms": None, "retention.bytes": 10, "segment.bytes": None})
    assert altered.config == (("compression.type", "zstd"), ("retention.bytes", "10"))
    assert log.describe("t")["config"]["retention.ms"] == "604800000"


def test_versions_of_the_schema_are_kept(log):
    """Each change of the schema is a version, with its time; other changes are none."""
    log.clock.advance(5)
    assert log.alter_topic("t", schema="user string, n bigint").version == 2
    log.clock.advance(5)
    assert log.alter_topic("t", partitions=3, schema="user string, n bigint, note string").version == 3
    assert log.alter_topic("t", config={"retention.ms": 6}).version == 3

    described = log.describe("t")
    assert (described["version"], described["schema"]) == (3, "user string, n bigint, note string")
    assert [(past["version"], past["schema"], past["created_ms"]) for past in described["schemas"]] == [
        (1, "user string, n int", 1000),
        (2, "user string, n bigint", 1005),
        (3, "user string, n bigint, note string", 1010),
    ]


def test_an_alteration_that_changes_nothing_is_none(log):
    """What is so already leaves the topic as it was, its version too."""
    before = log.topic("t")

    assert log.alter_topic("t", partitions=2, config={"retention.ms": "5"}, schema="user string, n int") == before
    assert log.alter_topic("t") == before == log.topic("t")


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ({"partitions": 1}, ConfigError, "topic t has 2 partitions; found partitions=1, expected more"),
        ({"partitions": 0}, ConfigError, "partitions=0; expected a whole number"),
        ({"partitions": "3"}, ConfigError, "partitions='3'"),
        ({"config": {"retention": 1}}, ConfigError, "no setting 'retention'"),
        ({"config": {"retention": None}}, ConfigError, "no setting 'retention'"),
        ({"config": {"retention.ms": -2}}, ConfigError, "retention.ms cannot be -2"),
        ({"schema": "user string"}, SchemaError, "the column 'n' is missing"),
        ({"schema": "user string, n int, _offset int"}, SchemaError, "StreamKit's own"),
        ({"schema": ""}, SchemaError, "schema is empty"),
    ],
)
def test_what_cannot_be_is_refused_whole(log, change, error, reason):
    """An alteration of which one part cannot be changes nothing of the others."""
    before = log.topic("t")
    with pytest.raises(error, match=reason):
        log.alter_topic("t", **({"config": {"compression.type": "lz4"}, "partitions": 4} | change))
    assert log.topic("t") == before
    assert len(log.end_offsets("t")) == 2


def test_a_topic_that_is_not_there_cannot_change(log):
    """An unknown name is answered with the names there are."""
    with pytest.raises(TopicNotFoundError, match="topic 'x' does not exist; there are t"):
        log.alter_topic("x", partitions=4)


def test_compaction_needs_a_key(log):
    """A topic without a key cannot become a compacted one."""
    log.create_topic("plain", "n int")
    with pytest.raises(ConfigError, match="the topic has no key"):
        log.alter_topic("plain", config={"cleanup.policy": "compact"})
    assert log.alter_topic("t", config={"cleanup.policy": "compact"}).is_compacted


def test_the_schema_of_a_format_is_fixed(log):
    """An opaque topic can get partitions and settings, but no other columns."""
    log.create_topic("events", format="json", partitions=1)
    assert log.alter_topic("events", partitions=2, config={"retention.ms": 1}).partitions == 2
    with pytest.raises(SchemaError, match="has the format json, whose schema is fixed"):
        log.alter_topic("events", schema="key binary, value binary, more int")


def test_declarations_are_compared_with_what_is_there_now(log):
    """After a change, creating the topic as it is now finds it, and as it was then is refused with both."""
    log.alter_topic("t", partitions=3, schema="user string, n bigint")

    assert log.create_topic("t", "user string, n bigint", "user", partitions=3, config={"retention.ms": 5}) == log.topic("t")
    with pytest.raises(TopicExistsError, match=r"found schema .user string, n bigint.*; asked for schema .user string, n int"):
        log.create_topic("t", "user string, n int", "user", partitions=2, config={"retention.ms": 5})


def test_changelogs_belong_to_their_application(log):
    """What an application declares for itself cannot be altered or deleted."""
    started(log, "t")
    for change in ({"partitions": 9}, {"config": {"retention.ms": 1}}, {"schema": "key binary not null, value binary, more int"}):
        with pytest.raises(ConfigError, match="topic app-counts-changelog belongs to an application"):
            log.alter_topic("app-counts-changelog", **change)
    with pytest.raises(ConfigError, match="backs the store counts of app; reset the application first"):
        log.delete_topic("app-counts-changelog")


def test_a_topic_behind_a_store_keeps_what_the_store_is_made_of(log):
    """A topic of the user's that is a changelog too keeps partitions, schema and policy; its other settings can change."""
    table = log.create_topic("table", "user string, n int", key="user", partitions=4, config={"cleanup.policy": "compact"})
    log.catalog.applications.start(
        "app", tasks=1, default_tasks=1, key_groups=8, program_hash="h", stores=[StoreDeclaration("rows", table)]
    )
    for change in ({"partitions": 9}, {"schema": "user string, n bigint"}, {"config": {"cleanup.policy": "delete"}}):
        with pytest.raises(ConfigError, match="topic table backs the store rows of app"):
            log.alter_topic("table", **change)
    assert log.alter_topic("table", config={"compression.type": "lz4"}).compression == "lz4"


def test_keys_do_not_move_under_an_application_with_state(log):
    """The input of an application with stores gets no more partitions before a reset; one that nobody keyed does."""
    log.create_topic("keyless", "n int", partitions=2)
    started(log, "t")
    with pytest.raises(ConfigError, match=r"new rows of a key would go to another partition.*the state of app depends"):
        log.alter_topic("t", partitions=3)
    assert log.alter_topic("t", config={"retention.ms": 1}, schema="user string, n bigint").version == 2
    assert log.alter_topic("keyless", partitions=3).partitions == 3

    log.catalog.applications.reset("app")
    assert log.alter_topic("t", partitions=3).partitions == 3


def test_an_application_without_state_does_not_mind(log):
    """A topic that is read by an application without stores gets more partitions."""
    started(log, "t", stores=())
    assert log.alter_topic("t", partitions=3).partitions == 3


def test_keys_do_not_move_under_compaction(log):
    """A compacted topic with rows gets no more partitions, or a key would keep two newest rows; an empty one does."""
    log.create_topic("table", "user string, n int", key="user", partitions=2, config={"cleanup.policy": "compact,delete"})
    assert log.alter_topic("table", partitions=3).partitions == 3
    send(log, "table")
    with pytest.raises(ConfigError, match="compaction would keep both; create a topic with more partitions"):
        log.alter_topic("table", partitions=4)
    send(log)
    with pytest.raises(ConfigError, match="compaction would keep both"):
        log.alter_topic("t", partitions=4, config={"cleanup.policy": "compact"})


def test_alterations_at_the_same_time_add_up(tmp_path):
    """Of many alterations at once each either takes effect beside the others or is refused; none undoes another."""
    with open_log(tmp_path) as log:
        log.create_topic("t", "n int", partitions=1)
    outcomes = []
    gate = threading.Barrier(4)

    def alter(number):
        with open_log(tmp_path) as log:
            gate.wait()
            for name in (f"c{number}_0", f"c{number}_1"):
                try:
                    log.alter_topic("t", partitions=1 + number, config={"retention.ms": number}, schema=f"n int, {name} int")
                    outcomes.append(name)
                except (SchemaError, ConfigError):
                    pass

    threads = [threading.Thread(target=alter, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with open_log(tmp_path) as log:
        described = log.describe("t")
    assert len(outcomes) == 1 and described["schema"] == f"n int, {outcomes[0]} int"
    assert [past["version"] for past in described["schemas"]] == [1, 2]
    assert len(described["partitions"]) == 1 + int(outcomes[0][1])
    assert described["config"]["retention.ms"] == outcomes[0][1]


def test_a_topic_created_anew_is_another_one(log):
    """Deleting forgets rows, versions and positions; producers, readers and commits of before fail instead of mixing the two."""
    state = started(log, "t")
    send(log)
    old = log.topic("t")
    log.alter_topic("t", schema="user string, n bigint")
    with log.producer() as producer:
        producer.send("t", {"user": "a", "n": 1})
        producer.flush()
        reader = log.scan("t")
        next(reader)
        log.delete_topic("t")
        log.create_topic("t", "user string, n int", key="user", partitions=2)
        with pytest.raises(TopicNotFoundError, match="deleted and created again"):
            list(reader)
        with pytest.raises(TopicNotFoundError, match="deleted and created again"):
            Reader(log.storage, log.catalog, old, start=0)
        producer.send("t", {"user": "b", "n": 2})
        with pytest.raises(TopicNotFoundError, match="topic t was deleted"):
            producer.flush()
        with pytest.raises(EpochFailedError, match="deleted and created again"):
            log.catalog.epochs.commit(epoch(state, 2, old))
        producer.send("t", {"user": "c", "n": 3})

    assert log.read("t")["user"].to_pylist() == ["c"]
    assert (log.topic("t").id > old.id, log.topic("t").version) == (True, 1)
    assert len(log.describe("t")["schemas"]) == 1
    assert log.catalog.applications.get("app").positions == {}
    log.catalog.epochs.commit(epoch(state, 2, log.topic("t")))


@pytest.mark.parametrize("uses", ["reader", "application"])
def test_a_topic_is_deleted_whoever_uses_it(log, uses):
    """As in Kafka, readers and applications do not keep a topic alive."""
    send(log)
    if uses == "application":
        started(log, "t")
    else:
        next(log.scan("t"))
    log.delete_topic("t")

    assert log.topics() == []
    assert log.storage.list("slabs") == ()
