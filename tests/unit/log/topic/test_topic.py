"""Promises of topics and their settings as values."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from streamkit.errors import ConfigError, SchemaError
from streamkit.log.topic.formats import declare_format
from streamkit.log.topic.settings import SETTINGS, check_settings
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.schema import Schema

SCHEMA = "user string, n int not null, ts timestamp"


def test_a_topic_survives_its_travel():
    """A topic says the same after JSON."""
    topic = declare_topic("t", SCHEMA, ["user", "n"], "ts", 3, {"retention.ms": 5}, "user", internal=True).with_id(4)

    assert Topic.from_json(json.loads(json.dumps(topic.to_json()))) == topic


def test_what_is_not_said_has_defaults():
    """Without a word a topic has four partitions, is partitioned by its key, kept for a week, not compressed."""
    topic = declare_topic("t", SCHEMA, key="user")

    assert (topic.partitions, topic.partition_by, topic.values, topic.timestamp) == (4, ("user",), ("n", "ts"), None)
    assert (topic.setting("retention.ms"), topic.compression, topic.is_compacted) == ("604800000", "none", False)


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ({"name": "a/b"}, ConfigError, "topic name 'a/b'"),
        ({"schema": ""}, SchemaError, "schema is empty"),
        ({"schema": "_offset int"}, SchemaError, "StreamKit's own"),
        ({"key": "nobody"}, SchemaError, "key column 'nobody' does not exist; the schema has user string"),
        ({"key": ["user", "user"]}, SchemaError, "twice"),
        ({"timestamp": "when"}, SchemaError, "timestamp column 'when' does not exist"),
        ({"timestamp": "n"}, SchemaError, "is int; expected timestamp"),
        ({"partitions": 0}, ConfigError, "partitions=0"),
        ({"partitions": "4"}, ConfigError, "partitions='4'"),
        ({"partitions": 10_001}, ConfigError, "from 1 to 10000"),
        ({"partition_by": "n"}, SchemaError, "must be among the key columns"),
        ({"config": {"retention": 1}}, ConfigError, "no setting 'retention'; expected one of cleanup.policy"),
        ({"key": None, "config": {"cleanup.policy": "compact"}}, ConfigError, "the topic has no key"),
    ],
)
def test_what_cannot_be_is_refused(change, error, reason):
    """A declaration that means nothing says which part, and what there is instead."""
    with pytest.raises(error, match=reason):
        declare_topic(**({"name": "t", "schema": SCHEMA, "key": "user"} | change))


def test_numbers_of_partitions_may_be_numpys():
    """What Python takes for an index is a whole number, and the topic keeps it as Python's own."""
    found = declare_topic("t", SCHEMA, partitions=np.int64(3))  # type: ignore[arg-type]

    assert found.partitions == 3 and type(found.partitions) is int


@pytest.mark.parametrize(
    ("name", "value", "canonical"),
    [
        ("cleanup.policy", "compact, delete", "compact,delete"),
        ("cleanup.policy", "delete,compact", "compact,delete"),
        ("cleanup.policy", "delete,delete", "delete"),
        ("retention.ms", 3_600_000, "3600000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", " 10\n", "10"),
        ("compression.type", "zstd", "zstd"),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
    ],
)
def test_settings_have_one_form(name, value, canonical):
    """A setting reads the same however it was written."""
    assert check_settings({name: value}) == ((name, canonical),)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "shred"), ("retention.ms", -2), ("retention.ms", "1h"), ("segment.bytes", 10), ("delete.retention.ms", -1),
        ("retention.ms", "1 0"), ("retention.ms", "1_000"), ("retention.ms", "٣"), ("min.cleanable.dirty.ratio", "0.0_1"),
        ("compression.type", "gzip"), ("message.timestamp.type", "Never"), ("max.message.bytes", True), ("min.compaction.lag.ms", 1.5),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(name, value):
    """The message says what is expected of the setting."""
    with pytest.raises(ConfigError, match=f"{name} cannot be .*; expected"):
        check_settings({name: value})


def test_defaults_pass_their_own_checks():
    """No default is out of range."""
    assert dict(check_settings({setting.name: setting.default for setting in SETTINGS.values()})) == {
        setting.name: setting.default for setting in SETTINGS.values()
    }


def test_a_topic_is_one_line_and_a_small_table():
    """A topic says in one line what it holds, and shows its columns in a notebook."""
    topic = Topic(7, "orders", Schema.parse("user string not null, amount double"), ("user",), None, 4, (("retention.ms", "-1"),))

    assert repr(topic) == "Topic('orders': user string NOT NULL, amount double; key user; partitions 4; settings retention.ms=-1)"
    shown = topic._repr_html_()
    assert "topic orders: key user; partitions 4" in shown and "<tr><td>amount</td><td>double</td><td>yes</td></tr>" in shown


def test_a_topic_under_another_name_has_the_subjects_of_that_name():
    """So what a registry has of a topic is where its readers look, wherever the topic came from; one without a registry has none."""
    settings = {"schema.registry.url": "http://127.0.0.1:1"}
    built = declare_topic("totals-2", format=declare_format("avro", settings=settings))
    assert built.format is not None and built.format.topic == "totals-2"

    for before in (built, built.under_subjects_of("totals")):
        now = before.called("totals")
        assert (now.name, now.format) == ("totals", replace(built.format, topic="totals"))
    plain = declare_topic("totals-2", SCHEMA)
    assert plain.called("totals") == replace(plain, name="totals")
