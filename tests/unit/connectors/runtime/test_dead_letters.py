"""Dead letters of a sink: which records are some, and that a record is none twice."""

from __future__ import annotations

import datetime as dt
from typing import ClassVar

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.connectors import Sink, run
from streamkit.connectors.files import FileSource
from streamkit.connectors.runtime.failed_records import FailedConnector, dead_letters
from streamkit.connectors.runtime.pipeline import RecordFailure, pass_through
from streamkit.connectors.runtime.positions import read_positions
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.sound_texts import SOUND_TEXTS
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError, SchemaError
from streamkit.failpoints import SimulatedCrash
from streamkit.log.connect_dead_letter import connect_dead_letters_of
from streamkit.log.dead_letter_replay import replay
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP, TOPIC
from tests.unit.connectors.contract import dies

_NO = SchemaError("no")


class Forgetful(Sink):
    """A target that keeps no positions, and refuses rows without a name, some of them by number."""

    PUT: ClassVar[list[int]] = []

    def open(self, generation, partitions):
        return None

    def put(self, rows, ends):
        wrong = [place for place, name in enumerate(rows["name"].to_pylist()) if name is None]
        if wrong:
            raise SchemaError("found no name", tuple(wrong))
        self.PUT.extend(rows["id"].to_pylist())


def refused_letters(log):
    """The offsets of the records that are dead letters."""
    return [
        int(next(pair["value"] for pair in headers if pair["key"].endswith(".offset")))
        for headers in log.read("bad", columns=["_headers"])["_headers"].to_pylist()
    ]


def test_a_record_that_is_read_again_is_one_dead_letter(tmp_path, monkeypatch):
    """A sink that died before its offsets were committed gets a batch again: what was a dead letter is none again, what was not is."""
    monkeypatch.setattr(Forgetful, "PUT", [])
    config = {"topics": "people", "batch.rows": 3, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
    config |= {"errors.deadletterqueue.context.headers.enable": True}
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("people", "id int, name string", partitions=1)

        def bring():
            SinkTask(Forgetful("out", config), 0, 1, log, is_once=True).run(Orders())

        def send(*names):
            with log.producer() as producer:
                producer.send_batch("people", [{"id": number, "name": name} for number, name in enumerate(names)])

        send("ann", None, "bob", None)
        with dies("connect.target_committed"), pytest.raises(SimulatedCrash):
            bring()
        assert (Forgetful.PUT, refused_letters(log)) == ([0, 2], [1])
        bring()
        send(None, "cid")
        bring()
        assert Forgetful.PUT == [0, 2, 0, 2, 1]
        assert refused_letters(log) == [1, 3, 4]
        kept = {split: position["offsets"] for split, position in read_positions(log, "out").items()}
        assert kept == {"people-0": [4]}


class Keeping(Sink):
    """A target that says how far it has come."""

    KEPT = 0

    def open(self, generation, partitions):
        return dict.fromkeys(partitions, self.KEPT)

    def put(self, rows, ends):
        """Take them."""


@pytest.mark.parametrize(
    ("kept", "message"),
    [(2, "the target has topic people, partition 0 up to offset 2, but 3 was committed: it has lost rows"),
     (4, "up to offset 4, but the topic ends at 3: it is another topic, or it has lost rows")],
)  # fmt: skip
def test_a_target_that_contradicts_the_log_is_told(tmp_path, monkeypatch, kept, message):
    """A target behind what was committed, or ahead of the topic, stops the task; one that is as far as either goes on."""
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("people", "id int, name string", partitions=1)
        with log.producer() as producer:
            producer.send_batch("people", [{"id": number, "name": "ann"} for number in range(3)])

        def bring(kept):
            monkeypatch.setattr(Keeping, "KEPT", kept)
            SinkTask(Keeping("out", {"topics": "people"}), 0, 1, log, is_once=True).run(Orders())

        bring(0)
        bring(3)
        with pytest.raises(ConfigError, match=message):
            bring(kept)


def test_a_dead_letter_is_the_record_and_what_failed():
    """It has the record's key, value, time and headers, then Connect's headers about the failure, without secrets, or none of these."""

    def failed():
        raise SchemaError("the password is hunter2")

    try:
        failed()
    except SchemaError as error:
        failure = RecordFailure(0, "TASK_PUT", error)
    rows = {
        "id": 1,
        "name": "ann",
        DELETED: False,
        TIMESTAMP: 7,
        HEADERS: [{"key": "h", "value": b"1"}],
        TOPIC: "from",
        PARTITION: 2,
        OFFSET: 5,
    }

    def letter(has_headers=True, **changes):
        origin = FailedConnector("out", 3, "Kind", has_headers, lambda text: text.replace("hunter2", "***"))
        return dead_letters(origin, "to", pa.Table.from_pylist([rows | changes]), ["id"], [failure])[0]

    found = letter()
    assert (found["key"], found["value"], found[TIMESTAMP]) == (b'{"id": 1}', b'{"id": 1, "name": "ann"}', 7)
    assert found[HEADERS][0] == ("h", b"1")
    said = {name.removeprefix("__connect.errors."): value.decode() for name, value in found[HEADERS][1:]}
    assert (said["topic"], said["partition"], said["offset"], said["task.id"]) == ("from", "2", "5", "3")
    assert (said["stage"], said["class.name"], said["exception.message"]) == ("TASK_PUT", "Kind", "the password is ***")
    assert "hunter2" not in said["exception.stacktrace"] and "SchemaError" in said["exception.stacktrace"]
    assert letter(has_headers=False)[HEADERS] == [("h", b"1")]
    assert {name: value for name, value in letter(**{DELETED: True, "name": None}).items() if name in ("value", DELETED)} == {
        "value": None,
        DELETED: True,
    }


@pytest.mark.parametrize(
    ("key", "value", "is_deletion"), [(b"k", None, True), (None, None, False), (b"k", b"v", False), (None, b"v", False)]
)
def test_a_dead_letter_of_bytes_deletes_if_the_record_does(key, value, is_deletion):
    """Bytes stay as they were; a record without a value is a deletion if it has a key, and else an empty record."""
    rows = pa.table({"key": pa.array([key], pa.binary()), "value": pa.array([value], pa.binary())})
    origin = FailedConnector("in", 0, "Kind", False, str)
    (found,) = dead_letters(origin, "to", rows, (), [RecordFailure(0, "VALUE_CONVERTER", SchemaError("no"))])
    assert (found["key"], found["value"], found.get(DELETED, False)) == (key, value, is_deletion)


@pytest.mark.parametrize(
    ("row", "key", "letter"),
    [
        ({"id": 1, "name": None}, ["id"], (b'{"id": 1}', None, True)),
        ({"id": None, "name": None}, ["id"], (b'{"id": null}', None, True)),
        ({"id": 1, "name": "ann"}, ["id"], (b'{"id": 1}', b'{"id": 1, "name": "ann", "_deleted": true}', False)),
        ({"id": 1, "is_new": True}, [], (None, b'{"id": 1, "is_new": true, "_deleted": true}', False)),
        ({"name": "ann"}, ["id"], (None, b'{"name": "ann", "_deleted": true}', False)),
    ],
)
def test_a_dead_letter_of_a_row_that_deletes(row, key, letter):
    """It has all that the row says: its key alone only if there is nothing else."""
    rows = pa.Table.from_pylist([{**row, DELETED: True}])
    (found,) = dead_letters(FailedConnector("in", 0, "Kind", False, str), "to", rows, key, [RecordFailure(0, "TASK_PUT", _NO)])
    assert (found["key"], found["value"], found.get(DELETED, False)) == letter


def test_a_deletion_for_a_topic_without_a_key(tmp_path):
    """It is refused, and its dead letter has it as it was; the reason says nothing of its place among those that came with it."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id":2,"is_new":null}\n{"id":1,"is_new":true,"_deleted":true}\n')
    settings = {"path": str(tmp_path / "in"), "topic": "people", "schema": "id int, is_new boolean", "min.age.ms": 0}
    with sk.open_log(tmp_path / "log") as log:
        config = {**settings, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
        run([FileSource("in", config | {"errors.deadletterqueue.context.headers.enable": True})], log, once=True)
        assert log.read("people")["id"].to_pylist() == [2]
        (found,) = log.read("bad", ["key", "value", "_headers"]).to_pylist()
    said = next(pair["value"] for pair in found["_headers"] if pair["key"].endswith("exception.message"))
    assert said == b"topic people: column '_deleted': it deletes a key, and the topic has none"
    assert (found["key"], found["value"]) == (None, b'{"id": 1, "is_new": true, "_deleted": true}')


FAR = dt.datetime(2900, 1, 1, tzinfo=dt.timezone.utc)
UNLIMITED = {"message.timestamp.after.max.ms": str((1 << 63) - 1), "max.message.bytes": "20000000", "retention.ms": "-1"}


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        ({"_timestamp": FAR}, "timestamp"),
        ({"note": "x" * 2_000_000}, "cut"),
        ({"key": "x" * 2_000_000}, "cut"),
        ({"_headers": [("h", b"x" * 2_000_000)]}, "cut"),
        ({"key": "x" * 2_000_000, "note": "x" * 2_000_000, "_timestamp": FAR, "_headers": [("h", b"x" * 2_000_000)]}, "cut"),
    ],
)
def test_a_record_beyond_the_limits_of_its_letter(tmp_path, monkeypatch, record, kept):
    """A topic without limits has records that the topic of dead letters would not take: each has its letter, and the sink goes on."""
    monkeypatch.setattr(Forgetful, "PUT", [])
    config = {"topics": "people", "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic(
            "people", "key string NOT NULL, id int, name string, note string", key="key", partitions=1, config=UNLIMITED
        )
        with log.producer() as producer:
            producer.send_batch("people", [{"key": "a", "id": 1, "name": "ann", "note": None}])
            producer.send_batch("people", [{"key": "b", "id": 2, "name": None, "note": None, **record}])
        SinkTask(Forgetful("out", config), 0, 1, log, is_once=True).run(Orders())
        (letter,) = log.read("bad", columns=["key", "value", "_headers"]).to_pylist()
        assert Forgetful.PUT == [1] and refused_letters(log) == [1]
    assert kept in {pair["key"].rpartition(".")[2] for pair in letter["_headers"]}
    assert letter["value"].startswith(b'{"key": "')


def test_values_that_python_cannot_read():
    """A dead letter of texts that are no UTF-8, also within nested values, and of years beyond Python's."""
    bad = pa.StringArray.from_buffers(1, *pa.array([b"a\xff"]).buffers()[1:])
    rows = pa.table(
        {
            "text": bad,
            "nested": pa.ListArray.from_arrays([0, 1], pa.StructArray.from_arrays([bad, pa.array([1])], names=["s", "n"])),
            "map": pa.MapArray.from_arrays([0, 1], bad, bad),
            "far": pa.array([1 << 60], pa.timestamp("us", tz="UTC")),
        }
    )
    origin = FailedConnector("in", 0, "a.Source", True, lambda text: text)
    (letter,) = dead_letters(origin, "t", rows, (), [RecordFailure(0, "KAFKA_PRODUCE", SchemaError("not UTF-8: \udcff"))])
    assert letter["value"].startswith(
        b'{"text": "a\\\\xff", "nested": [{"s": "a\\\\xff", "n": 1}], "map": {"a\\\\xff": "a\\\\xff"}, "far": "'
    )


def test_texts_that_are_no_utf_8():
    """Rows that have one are told, also among rows of nested values in pieces; the others pass."""
    texts = pa.array([b"a", b"\xff", b"b", b"\xe9", b"c"])
    bad = pa.StringArray.from_buffers(5, *texts.buffers()[1:])
    lists = pa.ListArray.from_arrays([0, 1, 2, 3, 4, 5], bad)
    for column in (bad, lists, pa.chunked_array([lists.slice(0, 2), lists.slice(2)])):
        passed = pass_through([SOUND_TEXTS], "t", pa.table({"s": column, "n": range(5)}))
        assert sorted(failure.row for failure in passed.failures) == [1, 3]
        assert [part["n"].to_pylist() for _, part in passed.parts] == [[0, 2, 4]]


LETTERS = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}


def test_the_own_topic_takes_no_dead_letters(tmp_path):
    """Neither of a source, nor of a sink, nor where a transform says the topic: rows and dead letters would be side by side."""
    for make in (
        lambda: FileSource("in", {"path": "x", "topic": "bad", **LETTERS}),
        lambda: Forgetful("out", {"topics": "a,bad", **LETTERS}),
    ):
        with pytest.raises(
            ConfigError, match=r"errors\.deadletterqueue\.topic\.name=bad, which is the topic .*; expected a topic of its own"
        ):
            make()
    (tmp_path / "a.csv").write_text("a\n1\n")
    router = {
        "transforms": "r",
        "transforms.r.type": "RegexRouter",
        "transforms.r.regex": ".*",
        "transforms.r.replacement": "bad",
    }
    with (
        sk.open_log(tmp_path / "log") as log,
        pytest.raises(ConfigError, match="rows go to the topic bad, which takes its dead letters"),
    ):
        run(
            [FileSource("in", {"path": str(tmp_path / "a.csv"), "topic": "good", "min.age.ms": 0, **router, **LETTERS})],
            log,
            once=True,
        )


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ({"format": "bytes", "config": {"cleanup.policy": "compact"}}, "is compacted"),
        ({"schema": "a int"}, "has columns"),
    ],
)
def test_a_topic_that_takes_no_dead_letters(tmp_path, topic, said):
    """It is refused when the task starts, by the setting's name, and not when a record fails."""
    (tmp_path / "a.csv").write_text("a\n1\n")
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("bad", **topic)
        log.create_topic("people", "id int, name string")
        for one in (
            FileSource("in", {"path": str(tmp_path / "a.csv"), "topic": "rows", **LETTERS}),
            Forgetful("out", {"topics": "people", **LETTERS}),
        ):
            with pytest.raises(ConfigError, match=rf"errors\.deadletterqueue\.topic\.name=bad, and the topic bad {said}"):
                run([one], log, once=True)


def test_a_letter_names_the_topic_by_its_id(monkeypatch):
    """A topic that is made again begins at offset 0 again: a letter of the former one is of none of its records."""
    monkeypatch.setattr(Forgetful, "PUT", [])
    config = {"topics": "people", "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
    with sk.open_log(":memory:") as log:
        for connector in ("out", "again"):
            log.create_topic("people", "id int, name string", partitions=1)
            with log.producer() as producer:
                producer.send_batch("people", [{"id": 0, "name": None}])
            SinkTask(Forgetful(connector, config), 0, 1, log, is_once=True).run(Orders())
            if connector == "out":
                log.delete_topic("people")
        found = [letter for rows in log.scan("bad", ["key", "value", HEADERS]) for letter in connect_dead_letters_of(log, rows)]
        assert [letter.is_whole for letter in found] == [False, True]
        assert found[1].topic_id == log.topic("people").id != 0
        assert replay(log, "bad", found).sent == {"people": 1}
        assert replay(log, "bad", found).before == 1


def test_a_record_of_another_system_is_none_of_the_log():
    """A letter of a source names Kafka's topic, by Kafka's id, or by none: a topic of the log of that name has other records."""
    error = SchemaError("bad")
    rows = pa.table(
        {"key": pa.array([b"k"]), "value": pa.array([b"v"]), TOPIC: ["people"], PARTITION: pa.array([0]), OFFSET: pa.array([0])}
    )
    with sk.open_log(":memory:") as log:
        log.create_topic("people", "id int", partitions=1)
        log.create_topic("bad", format="bytes", partitions=1)
        with log.producer() as producer:
            producer.send("people", {"id": 1})
            for ids in ({}, {"people-0": "9f3k"}, {"people-0": str(log.topic("people").id)}):
                letters = dead_letters(
                    FailedConnector("in", 0, "X", True, str), "t", rows, (), [RecordFailure(0, "PUT", error)], identities=ids
                )
                producer.send_batch("bad", letters)
        found = [letter for rows in log.scan("bad", ["key", "value", HEADERS]) for letter in connect_dead_letters_of(log, rows)]
        assert [letter.is_whole for letter in found] == [False, False, True]
