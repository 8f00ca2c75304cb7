"""`streamkit dlq`: dead letters are listed, shown, and their records sent again, each once."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.errors import FencedError, SchemaError, StreamKitError, TopicNotFoundError
from streamkit.log.dead_letter import ATTEMPT_HEADER, UNKNOWN_ID, dead_letters_of
from streamkit.log.dead_letter_replay import replay, replayed
from tests.kit.engine_run import moment
from tests.unit.cli.test_groups import words

SCHEMA = "id int, price decimal(9,2), tags array<string>, raw binary"


def price(row: dict[str, Any]) -> dict[str, Any]:
    if not row["price"]:
        raise ValueError("no price")
    return {"price": row["price"]}


def topology() -> sk.Topology:
    app = sk.Topology("shop", on_error=sk.dead_letter("broken"))
    items = app.stream("items")
    items.map_values(price, "price decimal(9,2)", name="prices").to("prices")
    items.select(share=F.expr("100 / price")).to("shares")
    return app


def process(log: sk.Log | Any) -> None:
    run_available(start(log.catalog, log.storage, compile(topology(), log), tasks=2))


@pytest.fixture
def root(tmp_path):
    """A log on which the application has met four items; two of them have no price, and fail at both of its steps."""
    root = tmp_path / "log"
    with sk.open_log(root) as log:
        log.create_topic("items", SCHEMA, key="id", partitions=2)
        log.create_topic("others", "id int")
        with log.producer() as producer:
            for number, cost in enumerate(["1.50", "0", "2.00", "0"]):
                row = {"id": number, "price": Decimal(cost), "tags": ["a", None], "raw": b"\x00\xff"}
                producer.send("items", {**row, "_headers": [("trace", b"\x01")]}, timestamp_ms=1_000 + number)
            producer.delete("items", {"id": 9}, timestamp_ms=1_009)
        process(log)
    return root


def letters(log, topic="broken"):
    return [letter for batch in log.scan(topic) for letter in dead_letters_of(batch)]


def test_dead_letters_are_listed(streamkit):
    """A list counts the dead letters of each step and error, and those whose records were sent again; other topics are not in it."""
    assert words(streamkit("dlq", "list"))[1:] == [
        ["broken", "shop", "prices", "ValueError", "2", "0"],
        ["broken", "shop", "select-items", "EvaluationError", "2", "0"],
    ]
    streamkit("dlq", "replay", "broken", "--where", "operator = 'prices'")
    rows = json.loads(streamkit("dlq", "list", "--json"))
    assert [(row["operator"], row["records"], row["replayed"]) for row in rows] == [("prices", 2, 2), ("select-items", 2, 2)]


def test_dead_letters_are_shown(streamkit):
    """Each is shown with its record, error, step, line and attempt: as many as were asked for, from where and of those that were."""
    text = streamkit("dlq", "show", "broken", "--max", "3")
    assert "3 of 4 dead letters, newest first; --max N shows more, --json all" in text
    some = streamkit("dlq", "show", "broken", "--max", "1", "--where", "operator = 'prices'")
    assert "1 of 2 dead letters that match, newest first; --max N shows more, --json all" in some
    assert "2 of 2 dead letters that match, newest first" in streamkit(
        "dlq", "show", "broken", "--max", "2", "--where", "operator = 'prices'"
    )
    lines = [json.loads(line) for line in streamkit("dlq", "show", "broken", "--json").splitlines()]
    assert len(lines) == 4
    first = min((line for line in lines if line["operator"] == "prices"), key=lambda line: line["key"])
    assert (first["topic"], first["key"], first["error"], first["attempt"]) == ("items", '{"id": 1}', "ValueError", 1)
    assert first["message"].startswith("the function price raised ValueError: no price")
    assert (first["application"], first["is_whole"], first["is_replayed"]) == ("shop", True, False)
    assert first["value"] == '{"price": "0.00", "tags": ["a", null], "raw": "AP8="}'
    assert __file__ in first["line"]
    assert "record" not in first
    chosen = streamkit("dlq", "show", "broken", "--where", "operator = 'prices' and attempt = 1", "--json")
    assert len(chosen.splitlines()) == 2
    assert len(streamkit("dlq", "show", "broken", "--offset", "3", "--json").splitlines()) == 1


def test_the_newest_dead_letter_is_the_first(streamkit, root):
    """As on the page: by the times of their records, and in each partition from the end; --oldest-first has the order of the topic."""
    with sk.open_log(root) as log:
        with log.producer() as producer:
            for number in range(250):
                row = {"id": number, "price": Decimal(number % 2), "tags": [], "raw": b""}
                producer.send("items", row, timestamp_ms=10_000 + number)
        process(log)
        count = len(log.read("broken"))
    newest = [json.loads(line) for line in streamkit("dlq", "show", "broken", "--json").splitlines()]
    oldest = [json.loads(line) for line in streamkit("dlq", "show", "broken", "--json", "--oldest-first").splitlines()]
    assert len(newest) == len(oldest) == count > 250
    waiting = {partition: [one for one in newest if one["_partition"] == partition] for partition in range(4)}
    for letter in newest:  # the newest of those that are the next of their partitions
        heads = [those[0]["timestamp"].removesuffix("Z") for those in waiting.values() if those]
        assert waiting[letter["_partition"]].pop(0) == letter and letter["timestamp"].removesuffix("Z") == max(heads)
    for partition in {letter["_partition"] for letter in newest}:
        places = [letter["_offset"] for letter in newest if letter["_partition"] == partition]
        assert places == sorted(places, reverse=True)
        assert [letter["_offset"] for letter in oldest if letter["_partition"] == partition] == sorted(places)
    first = json.loads(streamkit("dlq", "show", "broken", "--json", "--max", "1"))
    assert first == newest[0]
    assert "1 of 254 dead letters, oldest first" in streamkit("dlq", "show", "broken", "--max", "1", "--oldest-first")


def test_a_replay_sends_the_same_records_once(streamkit, root):
    """A record comes back as it was, in its topic and partition, with the attempt in a header; a second replay sends nothing."""
    dry = json.loads(streamkit("dlq", "replay", "broken", "--dry-run", "--json"))
    assert dry == {"topic": "broken", "dry_run": True, "sent": {"items": 2}, "replayed_before": 0, "without_record": 0}
    assert "2 records were sent; 0 had been sent before, 0 dead letters have no record." in streamkit("dlq", "replay", "broken")
    with sk.open_log(root) as log:
        columns = [*log.topic("items").schema.names, "_headers"]
        rows = [row for row in log.read("items", columns).to_pylist() if row["price"] == 0]
    for number in (1, 3):
        first, again = [row for row in rows if row["id"] == number]
        names = ("id", "price", "tags", "raw", "_timestamp", "_partition", "_deleted")
        assert [first[name] for name in names] == [again[name] for name in names]
        header = {"key": ATTEMPT_HEADER, "value": b"2"}
        assert (first["_headers"] or []) + [header] == again["_headers"]
    assert "0 records were sent; 2 had been sent before" in streamkit("dlq", "replay", "broken")


def test_a_second_failure_is_a_second_attempt(streamkit, root):
    """A record that fails again after a replay is a dead letter of attempt 2, and can be sent again: attempt 3."""
    for attempt in (1, 2, 3):
        with sk.open_log(root) as log:
            found = sorted(letter.attempt for letter in letters(log))
        assert found == sorted([*range(1, attempt + 1)] * 4)
        assert "2 records were sent" in streamkit("dlq", "replay", "broken")
        with sk.open_log(root) as log:
            process(log)


def test_a_replay_that_died_sends_nothing_twice(root, monkeypatch):
    """Records and the marks of what was sent are one transaction: a replay that dies before its end has sent nothing."""
    with sk.open_log(root) as log:
        with pytest.raises(KeyboardInterrupt):
            replay(log, "broken", dying(letters(log)))
        monkeypatch.setattr("streamkit.log.dead_letter.DeadLetter.again", failing_later(letters(log)[0].__class__.again))
        with pytest.raises(RuntimeError):
            replay(log, "broken", letters(log))
        assert (len(log.read("items")), replayed(log, "broken")) == (5, set())
        monkeypatch.undo()
        assert replay(log, "broken", letters(log)).sent == {"items": 2}
        assert (len(log.read("items")), len(replayed(log, "broken"))) == (7, 2)


def dying(found):
    yield found[0]
    raise KeyboardInterrupt


def failing_later(again):
    """`again`, which works once."""
    calls = []

    def function(letter):
        calls.append(letter)
        if len(calls) > 1:
            raise RuntimeError("died")
        return again(letter)

    return function


def test_of_two_replays_at_once_one_wins(root):
    """A replay that begins while another is under way fences that one, so that no record is sent by both."""
    with sk.open_log(root) as log:

        def interrupted():
            yield from letters(log)
            assert replay(log, "broken", letters(log)).sent == {"items": 2}

        with pytest.raises(FencedError):
            replay(log, "broken", interrupted())
        assert len(log.read("items")) == 7


def test_what_cannot_be_replayed_is_said(streamkit, root):
    """A topic without dead letters is refused with those that have some; so is a record whose topic is gone, before anything is sent."""
    with pytest.raises(SchemaError, match=r"topic others holds no dead letters.*topics with dead letters are broken"):
        streamkit("dlq", "show", "others")
    with sk.open_log(root) as log:
        found = letters(log)
        log.delete_topic("items")
        with pytest.raises(TopicNotFoundError, match="topic items is gone"):
            replay(log, "broken", found)


def made_again(log, topic="items"):
    """The topic is deleted, and made again with one item that has no price, which becomes dead letters at the place of the former one."""
    found = log.topic(topic)
    log.delete_topic(topic)
    log.create_topic(topic, SCHEMA, key="id", partitions=2)
    with log.producer() as producer:
        for number in range(4, 8):
            producer.send(topic, {"id": number, "price": Decimal(0), "tags": [], "raw": b""})
    process(log)
    return found


def test_a_topic_that_is_made_again_is_another_one(streamkit, root):
    """Its records are none that were sent before, though they have the same places; what was sent stays sent."""
    assert "2 records were sent" in streamkit("dlq", "replay", "broken")
    with sk.open_log(root) as log:
        former = made_again(log)
        new = log.topic("items").id
        assert {(letter.topic_id) for letter in letters(log)} == {former.id, new}
        before = {origin[2:] for origin in replayed(log, "broken")}
        assert before & {letter.origin[2:] for letter in letters(log) if letter.topic_id == new}, "no place twice"
    assert "4 records were sent; 2 had been sent before" in streamkit("dlq", "replay", "broken")
    assert "0 records were sent; 6 had been sent before" in streamkit("dlq", "replay", "broken")
    with sk.open_log(root) as log:
        assert sorted(row["id"] for row in log.read("items").to_pylist()) == [4, 4, 5, 5, 6, 6, 7, 7]


def test_records_of_a_deleted_topic_do_not_go_into_its_successor(streamkit, root):
    """They are refused before anything is sent, and the message says behind which dead letter the others begin."""
    with sk.open_log(root) as log:
        made_again(log)
        last = max(letter.place[1] for letter in letters(log) if letter.topic_id != log.topic("items").id)
    for options in ((), ("--dry-run",)):
        with pytest.raises(TopicNotFoundError, match=f"topic items was deleted and made again, and 2 .* at offset {last}"):
            streamkit("dlq", "replay", "broken", *options)
    with sk.open_log(root) as log:
        assert len(log.read("items")) == 4
    assert "4 records were sent" in streamkit("dlq", "replay", "broken", "--offset", str(last + 1))


def test_dead_letters_and_marks_of_before_count_by_name(root):
    """Those of earlier versions do not say the id of a topic: they are sent to the one of their name, each once."""
    with sk.open_log(root) as log:
        found = [replace(letter, topic_id=UNKNOWN_ID) for letter in letters(log)]
        log.create_topic("broken-replayed", "topic string NOT NULL, partition int NOT NULL, offset bigint NOT NULL",
                         key=("topic", "partition", "offset"), partitions=1)  # fmt: skip
        _, _, partition, offset = found[0].origin
        with log.producer() as producer:
            producer.send("broken-replayed", {"topic": "items", "partition": partition, "offset": offset})
        for sent in ({"items": 1}, {}):
            assert replay(log, "broken", found).sent == sent
        assert replay(log, "broken", letters(log)).sent == {"items": 2}


def test_a_topic_that_got_a_column_takes_its_records_again(streamkit, root):
    """A column that a topic got since is null in what is sent again, and a wider one takes the value; the dry run says so before."""
    with sk.open_log(root) as log:
        log.alter_topic(
            "items", schema="id int, price decimal(12,2), tags array<string>, raw binary, note string, more array<int>"
        )
    assert "2 records would be sent" in streamkit("dlq", "replay", "broken", "--dry-run")
    assert "2 records were sent" in streamkit("dlq", "replay", "broken")
    with sk.open_log(root) as log:
        rows = [row for row in log.read("items").to_pylist() if row["price"] == 0]
    assert len(rows) == 4
    for row in rows:
        assert (row["note"], row["more"], row["tags"]) == (None, None, ["a", None])


def test_a_dry_run_refuses_what_a_run_refuses(root):
    """A topic that takes its records no more, or that is gone, is the same error in a dry run, and nothing is sent by either."""
    with sk.open_log(root) as log:
        found = letters(log)
        log.delete_topic("items")
        for is_dry in (True, False):
            with pytest.raises(TopicNotFoundError, match="topic items is gone"):
                replay(log, "broken", found, is_dry=is_dry)
        log.create_topic("items", "id int, price decimal(9,2), tags array<string>, raw binary, note string NOT NULL", key="id")
        found = [replace(letter, topic_id=UNKNOWN_ID) for letter in found]
        for is_dry in (True, False):
            with pytest.raises(SchemaError, match="topic items: the data have no column 'note'"):
                replay(log, "broken", found, is_dry=is_dry)
        assert (len(log.read("items")), replayed(log, "broken")) == (0, set())


@pytest.mark.parametrize("schema", ["id int", "topic string, topic_id bigint, partition int, offset bigint", None])
def test_a_dry_run_refuses_a_topic_of_marks_that_holds_something_else(streamkit, root, schema):
    """A topic of that name which someone else made is the same error in a dry run; the dead letters are shown all the same."""
    with sk.open_log(root) as log:
        log.create_topic("broken-replayed", **({"format": "json"} if schema is None else {"schema": schema}))
        for is_dry in (True, False):
            with pytest.raises(
                SchemaError, match=r"topic broken-replayed has .*; expected topic string NOT NULL, .* sent again from broken"
            ):
                replay(log, "broken", letters(log), is_dry=is_dry)
        assert len(log.read("items")) == 5
    shown = [json.loads(line) for line in streamkit("dlq", "show", "broken", "--json").splitlines()]
    assert [letter["is_replayed"] for letter in shown] == [False] * 4


def test_a_dry_run_refuses_a_name_that_marks_cannot_have(root):
    """A name of a topic may be so long that neither marks nor a producer can be named after it: the dry run says so, too."""
    with sk.open_log(root) as log:
        name, said = "b" * 245, []
        log.create_topic(name, log.topic("broken").schema, partitions=1)
        for is_dry in (True, False):
            with pytest.raises(StreamKitError, match=r"the producer name .* cannot be used: it has 256 characters") as error:
                replay(log, name, letters(log), is_dry=is_dry)
            said.append(str(error.value))
        assert said[0] == said[1]
        assert len(log.read("items")) == 5


def test_a_tombstone_is_replayed(root):
    """A record without a value goes back as one."""
    app = sk.Topology("strict")
    app.stream("items").map(price, SCHEMA, tombstones=True, on_error=sk.dead_letter("graves")).to("kept")
    with sk.open_log(root) as log:
        run_available(start(log.catalog, log.storage, compile(app, log), tasks=1))
        (grave,) = [letter for letter in letters(log, "graves") if letter.key == '{"id": 9}']
        assert grave.value is None
        replay(log, "graves", [grave])
        rows = [row for row in log.read("items").to_pylist() if row["id"] == 9]
        assert [(row["_deleted"], row["_timestamp"]) for row in rows] == [(True, moment(1_009))] * 2


def test_a_scheduled_call_is_shown_as_one(streamkit, root):
    """What failed in a call that a processor had scheduled has no record: it is shown as a call, and no replay sends it."""

    class Ticking(sk.Processor):
        def init(self, context):
            context.schedule("1 ms", "stream_time", self.tick)

        def process(self, record):
            """Only time matters."""

        def tick(self, time):
            raise ValueError("no time")

    app = sk.Topology("clock")
    app.stream("items").process(Ticking, name="ticking", on_error=sk.dead_letter("late"))
    with sk.open_log(root) as log:
        run_available(start(log.catalog, log.storage, compile(app, log), tasks=1))
    assert "a scheduled call" in streamkit("dlq", "show", "late")
    assert "0 records were sent" in streamkit("dlq", "replay", "late")
