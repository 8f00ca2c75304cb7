"""`streamkit topics`."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from streamkit.log.log import Log


def test_list_shows_sizes(streamkit):
    """Every topic is listed with its key, partitions and records."""
    lines = [line.split() for line in streamkit("topics", "list").splitlines()]

    assert ["orders", "number", "1", "3"] in [line[:4] for line in lines]
    assert ["customers", "name", "2", "2"] in [line[:4] for line in lines]


def test_describe_shows_schema_and_partitions(streamkit):
    """A description has the key, the settings given, every column with its type, every partition with its offsets."""
    output = streamkit("topics", "describe", "customers")
    lines = [line.split() for line in output.splitlines()]

    assert ["key", "name"] in lines
    assert ["settings", "cleanup.policy=compact"] in lines
    assert ["city", "string", "yes"] in lines
    assert sum(line[:1] in (["0"], ["1"]) and len(line) == 5 for line in lines) == 2


def test_list_as_json(streamkit):
    """JSON has what the table has, and all else a description has."""
    topics = {topic["name"]: topic for topic in json.loads(streamkit("topics", "list", "--json"))}

    assert set(topics) == {"orders", "customers"}
    assert (topics["orders"]["rows"], topics["orders"]["key"], topics["customers"]["config"]["cleanup.policy"]) == (
        3,
        ["number"],
        "compact",
    )


def test_a_topic_that_goes_meanwhile_is_not_listed(streamkit, monkeypatch):
    """A topic that somebody deletes while the others are looked up is left out."""
    names = Log.topics
    monkeypatch.setattr(Log, "topics", lambda log, internal=False: [*names(log, internal), "gone"])

    assert {topic["name"] for topic in json.loads(streamkit("topics", "list", "--json"))} == {"orders", "customers"}


def test_describe_as_json(streamkit):
    """JSON of one topic is its description."""
    described = json.loads(streamkit("topics", "describe", "orders", "--json"))

    assert (described["schema"], described["version"], described["format"]) == (
        "customer string, number int, amount double",
        1,
        None,
    )
    assert [part["end_offset"] for part in described["partitions"]] == [3]


def test_create_makes_what_is_asked_for(streamkit, root):
    """Every option goes into the topic; creating it once more leaves it as it is."""
    arguments = (
        "topics", "create", "sales", "--schema", "shop string, item string, at timestamp", "--key", "shop", "--key", "item",
        "--timestamp", "at", "--partitions", "3", "--config", "retention.ms=5", "--config", "cleanup.policy=compact,delete",
    )  # fmt: skip
    output = streamkit(*arguments)
    assert ["settings", "cleanup.policy=compact,delete,", "retention.ms=5"] in [line.split() for line in output.splitlines()]

    with sk.open_log(root) as log:
        topic = log.topic("sales")
    assert (topic.key, topic.timestamp, topic.partitions) == (("shop", "item"), "at", 3)
    assert json.loads(streamkit(*arguments, "--json"))["id"] == topic.id


def test_create_makes_the_log(streamkit, tmp_path):
    """The first topic makes the log that it is in."""
    place = str(tmp_path / "new")
    streamkit("topics", "create", "t", "--schema", "n int", "--log", place)

    assert "t" in streamkit("topics", "list", "--log", place)


def test_create_takes_formats(streamkit, tmp_path):
    """A topic of a format needs no schema; that of Avro values comes from a file."""
    (tmp_path / "order.avsc").write_text('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
    streamkit("topics", "create", "clicks", "--format", "json")
    output = streamkit("topics", "create", "avro", "--format", "avro", "--format-schema", str(tmp_path / "order.avsc"))

    assert ["format", "avro"] in [line.split() for line in output.splitlines()]
    assert json.loads(json.loads(streamkit("topics", "describe", "avro", "--json"))["format_schema"])["name"] == "Order"


def test_alter_changes_what_is_asked_for(streamkit, root):
    """Partitions, settings and schema change, the description that is printed has them."""
    streamkit("topics", "create", "t", "--schema", "n int", "--partitions", "1", "--config", "retention.ms=5")
    output = streamkit(
        "topics", "alter", "t", "--partitions", "2", "--config", "compression.type=lz4", "--delete-config", "retention.ms",
        "--schema", "n bigint, note string",
    )  # fmt: skip

    lines = [line.split() for line in output.splitlines()]
    assert ["settings", "compression.type=lz4"] in lines and ["schema", "version", "2"] in lines
    assert ["note", "string", "yes"] in lines and ["n", "bigint", "yes"] in lines
    with sk.open_log(root) as log:
        assert log.topic("t").partitions == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--delete-config", "foo"), "a topic has no setting 'foo'; expected one of cleanup.policy, retention.ms"),
        (
            ("--config", "min.insync.replicas=2"),
            "a topic has no setting 'min.insync.replicas': it is the log's, set with `streamkit storage set FOLDER … --min-insync N`; expected",
        ),
        (
            ("--config", "replication.factor=2"),
            "it is the log's, set with `streamkit storage set FOLDER … --factor N`; expected one of",
        ),
        (("--config", "retention.ms=1", "--delete-config", "retention.ms"), "the setting retention.ms is given twice"),
        (("--config", "retention.ms=1", "--config", "retention.ms=2"), "the setting retention.ms is given twice"),
        (("--delete-config", "retention.ms", "--delete-config", "retention.ms"), "the setting retention.ms is given twice"),
    ],
)
def test_alter_refuses_settings_that_contradict_each_other(streamkit, root, arguments, message):
    """A setting that does not exist, or comes twice, changes nothing."""
    with pytest.raises(sk.StreamKitError, match=message):
        streamkit("topics", "alter", "orders", *arguments)
    with sk.open_log(root) as log:
        assert log.topic("orders").config == ()


def test_alter_warns_of_keys_that_move(streamkit):
    """More partitions of a topic that has a key and records may send a key elsewhere; one without either is not warned of."""
    streamkit("topics", "create", "free", "--schema", "n int", "--partitions", "1")
    streamkit("topics", "create", "empty", "--schema", "n int", "--key", "n", "--partitions", "1")

    assert "new records of a key may go to another one" in streamkit("topics", "alter", "orders", "--partitions", "2")
    for name in ("free", "empty"):
        assert "warning" not in streamkit("topics", "alter", name, "--partitions", "2")
    assert "warning" not in streamkit("topics", "alter", "orders", "--config", "retention.ms=5")


def test_delete_asks(streamkit, root):
    """Deleting says how much goes and waits for a yes; a no leaves the topic."""
    assert "Delete orders with its 3 records?" in streamkit("topics", "delete", "orders", answer="n\n", code=1)
    assert "orders is deleted." in streamkit("topics", "delete", "orders", answer="y\n")
    assert json.loads(streamkit("topics", "delete", "customers", "--yes", "--json"))["deleted"] == "customers"
    assert json.loads(streamkit("topics", "list", "--json")) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "a/b", "--schema", "n int"), "error: the topic name 'a/b' cannot be used: its character 2 is U+002F SOLIDUS"),
        (("create", "t", "--schema", "n int, N int"), "error: the columns 'n' and 'N' have the same name"),
        (
            ("create", "t", "--schema", "n int", "--config", "retention.ms"),
            "error: found --config retention.ms; expected NAME=VALUE",
        ),
        (
            ("create", "t", "--schema", "n int", "--config", "segment.bytes=3000000000"),
            "error: the setting segment.bytes cannot be",
        ),
        (("create", "t", "--format", "protobuf"), "error: the format protobuf was given no schema"),
        (("create", "t", "--format", "avro", "--format-schema", "/no/file"), "error: the file '/no/file' with the schema"),
        (("create", "orders", "--schema", "n int"), "error: topic orders exists and differs"),
        (("create", "t"), "error: topic t: found neither --schema nor --format"),
        (("alter", "orders", "--schema", "number int"), "error: the schema of topic orders cannot change so"),
        (("alter", "customers", "--partitions", "9"), "error: topic customers cannot get more partitions"),
        (("alter", "orders"), "error: topic orders: found nothing to change; expected --partitions, --config"),
        (("alter", "x", "--partitions", "9"), "error: topic 'x' does not exist"),
        (
            ("delete", "x", "--yes"),
            "error: topic 'x' does not exist; there are customers, orders: a topic must be created before",
        ),
    ],
)
def test_what_cannot_be_is_one_message(as_program, arguments, message):
    """A refusal is its message on standard error, and code 1."""
    code, out, err = as_program("topics", *arguments)

    assert (code, out) == (1, "")
    assert err.startswith(message)


@pytest.mark.parametrize(
    "arguments",
    [
        ("bad name", "--schema", "n int"),
        ("new", "--schema", "n nothing"),
        ("new", "--schema", "n int", "--partitions", "0"),
        ("new", "--schema", "n int", "--config", "retention=1"),
        ("new", "--format", "xml"),
    ],
    ids=" ".join,
)
def test_a_topic_that_is_refused_makes_no_log(streamkit, tmp_path, arguments):
    """Where there was no log, a topic that cannot be created leaves none behind."""
    with pytest.raises(sk.StreamKitError):
        streamkit("topics", "create", *arguments, "--log", str(tmp_path / "fresh"))

    assert not (tmp_path / "fresh").exists()
