"""Event time from a column: it decides order, windows and lateness, whatever the time under which records were written."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.errors import EvaluationError, TopologyError
from streamkit.formats.codec import declare_format
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import Run, execute, fresh_log
from tests.kit.sampling import TAKES_ALL, combined, in_turn

UTC = dt.timezone.utc
BASE = 1_617_300_000_000
FORMS = {  # the columns that say the time, what timestamp= names, and a value of that time
    "bigint": ("at bigint", "at", lambda at: at),
    "timestamp": ("at timestamp", "at", lambda at: None if at is None else dt.datetime.fromtimestamp(at / 1000, UTC)),
    "ntz": ("at timestamp_ntz", "at", lambda at: dt.datetime.fromtimestamp(at / 1000, UTC).replace(tzinfo=None)),
    "field": ("at struct<ms: bigint, of: string>", "at.ms", lambda at: {"ms": at, "of": "x"}),
}


def counted(stream):
    """Counts of windows, final and each, and what was late."""
    windows = sk.tumbling("5 seconds", grace="1 second")
    counts = stream.group_by_key().windowed_by(windows, late_to="late").agg(n=F.count("*"), store="counts")
    counts.emit("final").to("final")
    counts.emit("every").to("every")


def sent(driver, records, value, form, rng=None):
    for number, (user, at) in enumerate(records):
        written = number if rng is None else rng.randrange(2 * BASE)
        row = {"user": user, "at": FORMS[form][2](at)} if not value else {"key": user, "value": {"at": at}}
        driver.pipe("clicks", row, timestamp=written)


def plain(rows):
    return sorted(str({name: found for name, found in row.items() if name not in ("_partition", "_offset")}) for row in rows)


def results(records, form="bigint", batching="each", tasks=1, partitions=1, rng=None, bytes=False):
    """What a topology gives whose records have these times in a column."""
    app = sk.Topology("events")
    columns, name, _ = FORMS[form]
    schema = f"user string, {columns}"
    options: Any = {"value_format": "json"} if bytes else {}
    counted(app.stream("clicks", schema=schema, key="user", timestamp=name, **options))
    with TopologyTestDriver(app, batching=batching, tasks=tasks, partitions=partitions) as driver:
        sent(driver, records, bytes, form, rng)
        driver.drain()
        return {topic: plain(driver.read(topic)) for topic in ("final", "every", "late")}


def written_at(records):
    """The same of a topic under whose records the times were written."""
    app = sk.Topology("events")
    counted(app.stream("clicks", schema="user string, at bigint", key="user"))
    with TopologyTestDriver(app) as driver:
        for user, at in records:
            driver.pipe("clicks", {"user": user, "at": at}, timestamp=at)
        driver.drain()
        return {topic: plain(driver.read(topic)) for topic in ("final", "every", "late")}


RECORDS = [
    (user, BASE + at) for user, at in (("a", 0), ("a", 2000), ("b", 6500), ("a", 4000), ("a", 6000), ("b", 11_000), ("b", 3000))
]


def test_a_date_is_its_midnight():
    """In UTC, as windows begin there."""
    app = sk.Topology("events", time_zone="Europe/Berlin")
    app.stream("days", schema="k string, day date", key="k", timestamp="day").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("days", {"k": "a", "day": dt.date(2026, 11, 25)}, timestamp=7)
        assert [row["_timestamp"] for row in driver.read("out")] == [dt.datetime(2026, 11, 25, tzinfo=UTC)]


@pytest.mark.parametrize("form", FORMS)
def test_the_column_is_the_event_time(form):
    """Windows, lateness and the time of results go by the column, as if the records had been written at those times."""
    found = results(RECORDS, form, rng=random.Random(1))
    expected = written_at(RECORDS)
    assert found["final"] == expected["final"]
    assert found["every"] == expected["every"]
    assert len(found["late"]) == len(expected["late"]) == 2


def test_bytes_are_decoded_for_their_time():
    """The time may be a column of values that are read by a format."""
    found, expected = results(RECORDS, bytes=True), written_at(RECORDS)
    assert (found["final"], found["every"]) == (expected["final"], expected["every"])


def test_no_time_is_an_error_that_names_the_record():
    """Null in the column, or a number beyond all times, ends the run; the message has the record's place and key."""
    for at in (None, 2**62, -(2**62)):
        app = sk.Topology("events")
        counted(app.stream("clicks", schema="user string, at bigint", key="user", timestamp="at"))
        with TopologyTestDriver(app) as driver:
            driver.pipe("clicks", {"user": "a", "at": BASE}, timestamp=5)
            with pytest.raises(
                EvaluationError, match=r"topic clicks, partition 0, offset 1, key user = 'b': its event time, column 'at'"
            ):
                driver.pipe("clicks", {"user": "b", "at": at}, timestamp=5)


@pytest.mark.parametrize(("batching", "is_first", "bytes"), combined(["each", "one", "all"], [True, False], [True, False]))
def test_a_record_without_a_time_may_be_left_out(batching, is_first, bytes):
    """It moves no time, is counted, and is in the dead letters under the time of its record; the others are as if it had not been."""
    app = sk.Topology("events", on_error=sk.dead_letter("broken"))
    options: Any = {"value_format": "json"} if bytes else {}
    stream = app.stream("clicks", schema="user string, at bigint", key="user", timestamp="at", max_jump="1 hour", **options)
    counted(stream)
    good = [("a", BASE), ("a", BASE + 7000), ("b", BASE + 500), ("a", BASE + 12_000)]
    nothing = [("b", None), ("a", 2**62)]
    with TopologyTestDriver(app, batching=batching) as driver:
        sent(driver, [*nothing, *good] if is_first else [good[0], *nothing, *good[1:]], bytes, "bigint")
        driver.drain()
        found = {topic: plain(driver.read(topic)) for topic in ("final", "every", "late")}
        letters = driver.read("broken")
        assert driver.metrics()["error"] == 2
    expected = written_at(good)
    assert (found["final"], found["every"]) == (expected["final"], expected["every"]) and len(found["late"]) == 1
    place = (0, 1) if is_first else (1, 2)
    assert [(row["topic"], row["offset"], int(row["timestamp"].timestamp() * 1000), row["is_whole"]) for row in letters] == [
        ("clicks", number, number, True) for number in place
    ]
    assert all("event time, column 'at'" in row["message"] for row in letters)


def test_a_value_that_does_not_decode_is_left_out_as_one_without_a_time():
    """The step that decodes refuses it, and it moves no time."""
    app = sk.Topology("events", on_error="skip")
    counted(app.stream("clicks", schema="user string, at bigint", key="user", timestamp="at", value_format="json"))
    with TopologyTestDriver(app, topics={"clicks": {"format": declare_format("bytes")}}) as driver:
        for value in (b"{", json.dumps({"at": BASE}).encode(), b"no", json.dumps({"at": BASE + 100}).encode()):
            driver.pipe("clicks", {"key": b"a", "value": value}, timestamp=4_000_000_000_000)
        driver.drain()
        assert [row["n"] for row in driver.read("final")] == [2] and driver.metrics()["error"] == 2


def test_a_deletion_has_the_time_under_which_it_was_written():
    """Its columns are null, except those of the key, which may say its time."""
    app = sk.Topology("events")
    table = app.table("names", schema="user string, at bigint", key="user", timestamp="at")
    table.to_stream().to("out")
    app.table("slots", schema="at bigint, v int", key="at", timestamp="at").to_stream().to("slots_out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("names", {"user": "a", "at": BASE}, timestamp=1)
        driver.delete("names", {"user": "a"}, timestamp=BASE + 5)
        driver.pipe("slots", {"at": BASE + 1, "v": 1}, timestamp=1)
        driver.delete("slots", {"at": BASE + 1}, timestamp=2)
        times = [int(row["_timestamp"].timestamp() * 1000) - BASE for name in ("out", "slots_out") for row in driver.read(name)]
        assert times == [0, 5, 1, 1]


def test_a_processor_and_columns_see_the_time():
    """`record.timestamp` and `_timestamp` are the event time, and so is that of what is written."""
    app = sk.Topology("events")
    stream = app.stream("clicks", schema="user string, at bigint", key="user", timestamp="at")
    stream.process(lambda record, context: context.forward({"n": record.timestamp}), "n bigint").to("seen")
    stream.select("user", t="_timestamp").to("columns")
    with TopologyTestDriver(app) as driver:
        driver.pipe("clicks", {"user": "a", "at": BASE}, timestamp=7)
        (seen,), (columns,) = driver.read("seen"), driver.read("columns")
        assert seen["n"] == BASE and columns["t"] == columns["_timestamp"] == seen["_timestamp"]


def test_a_start_goes_on():
    """The times of partitions outlive crashes and restarts."""
    app = sk.Topology("events")
    counted(app.stream("clicks", schema="user string, at bigint", key="user", timestamp="at", max_jump="1 minute"))
    with TopologyTestDriver(app) as driver:
        sent(driver, [("a", BASE), ("a", BASE + 7000)], False, "bigint")
        driver.restart(tasks=3)
        sent(driver, [("a", BASE + 500), ("b", BASE + 999_000)], False, "bigint")
        driver.crash()
        driver.restore()
        sent(driver, [("a", BASE + 12_000)], False, "bigint")
        assert [row["n"] for row in driver.read("final")] == [1, 1]
        assert driver.metrics()["late"] == 1 and driver.metrics()["ahead"] == 1


def test_what_cannot_be_a_time_is_refused():
    """The error names the column, what was found and what is expected, and the line."""
    for schema, name, found in (
        ("k string, at string", "at", "is of type string"),
        ("k string, at int", "at", "is of type int"),
        ("k string, at double", "at", "is of type double"),
        ("k string, v int", "at", "has no such column; it has k string, v int"),
        ("k string, v struct<at: bigint>", "v.when", "without a field 'when'"),
    ):
        app = sk.Topology("events")
        app.stream("in", schema=schema, key="k", timestamp=name).to("out")
        with pytest.raises(TopologyError, match=found) as error:
            compile(app)
        assert "test_event_time.py" in str(error.value)
    with pytest.raises(TopologyError, match="expected the name of a column"):
        sk.Topology("events").stream("in", timestamp=7)  # type: ignore[arg-type]


def test_a_topic_has_one_order():
    """A topic that is read as a stream and as a table has the same event time in both."""
    app = sk.Topology("events")
    app.stream("in", schema="k string, at bigint", key="k", timestamp="at").to("out")
    app.table("in", schema="k string, at bigint", key="k", store="t")
    with pytest.raises(TopologyError, match="expected the same timestamp= of both"):
        compile(app)


SIDES = ("in", "others", "names")
COLUMNS = ("k", "v", "_timestamp")
WINDOWS = {
    "tumbling": sk.tumbling("5 ms", grace="2 ms"),
    "session": sk.session("3 ms", grace="2 ms"),
    "sliding": sk.sliding("4 ms", grace="2 ms"),
}


def everything(app, max_jump, **time):
    """Windows of all kinds, joins of streams and tables, a table that is read as a stream, too, one with history, a processor."""
    stream = app.stream("in", max_jump=max_jump, **time)
    other, names = app.stream("others", **time), app.table("names", **time)
    for name, window in WINDOWS.items():
        grouped = stream.group_by("k").windowed_by(window, late_to=f"{name}_late")
        counts = grouped.agg(v=F.count("*"), last=F.last("v"), store=name)
        counts.emit("every").to(f"{name}_every")
        if name != "sliding":
            counts.emit("final").to(f"{name}_final")
    pairs = stream.select("k", "v").join(other.select("k", w="v"), within=sk.within("5 ms", grace="2 ms"), how="outer")
    pairs.to("pairs")
    stream.select("k", "v").join(names.select(name="v"), how="left").to("met")
    app.stream("names", **time).group_by_key().agg(v=F.max("_timestamp"), store="renamed").emit("every").to("renamed")
    app.table("others", store="history", versioned="20 ms", **time) if max_jump is None else None


OUTPUTS = (
    "pairs",
    "met",
    "renamed",
    *(f"{name}_{mode}" for name in WINDOWS for mode in ("every", "late")),
    "tumbling_final",
    "session_final",
)


def told(rows, chance, max_jump, form, tasks=1, records_max=None):
    """What comes of rows, whose `ts` is the time under which they are written, or in a column, and some in the bytes of a value."""
    app = sk.Topology("times")
    time = {} if form is None else {"timestamp": "at"}
    if form == "bytes":
        time |= {"value_format": "json", "schema": "k string, v int, at bigint", "key": "k"}
    everything(app, max_jump, **time)
    with fresh_log() as log:
        for topic in SIDES:
            if form == "bytes":
                log.create_topic(topic, format="json", partitions=1 if topic == "others" else 2)
            else:
                log.create_topic(
                    topic, schema=f"k string, v int, at {form or 'bigint'}", key="k", partitions=1 if topic == "others" else 2
                )
        for topic in SIDES:
            own = [row for row in rows if row["topic"] == topic]
            while own:
                size = chance.randrange(1, 6)
                send(log, topic, own[:size], form, chance)
                own = own[size:]
        execute(log, compile(app, log), Run(tasks=tasks, records_max=records_max))
        return {name: sorted(map(str, shown(log, name))) for name in OUTPUTS}


def shown(log, name):
    """The rows of a topic, by key in order, without the column of the time and what depends on the partition."""
    rows = [{n: v for n, v in row.items() if n not in ("at", "_partition", "_offset")} for row in log.read(name).to_pylist()]
    seen: Counter[str] = Counter()
    found = []
    for row in rows:
        found.append((row["k"], seen[row["k"]], row))
        seen[row["k"]] += 1
    return found


def send(log, topic, rows, form, chance):
    with log.producer() as producer:
        for row in rows:
            value = {"k": row["k"], "v": row["v"], "at": row["ts"]}
            written = row["ts"] if form is None else chance.randrange(10_000)
            if form == "timestamp":
                value["at"] = dt.datetime.fromtimestamp(row["ts"] / 1000, UTC)
            producer.send(topic, {"key": row["k"], "value": value} if form == "bytes" else value, timestamp_ms=written)
        producer.flush()


def made(chance):
    """Records with ties, late ones and jumps of time."""
    rows, now = [], 100
    for number in range(40 if TAKES_ALL else 26):
        now += chance.choice([0, 0, 1, 2, 5, 5, 12])
        late = chance.choice([0, 0, 0, 1, 4, 9])
        far = chance.choice([0] * 20 + [3000])
        rows.append({"topic": chance.choice(SIDES), "k": chance.choice("abc"), "v": number, "ts": max(0, now - late) + far})
    return rows


@pytest.mark.parametrize(("form", "max_jump"), in_turn(["bytes", "timestamp", "bigint"], ["20 ms", None]))
def test_a_column_and_the_log_give_the_same(form, max_jump):
    """Any operators give the same whether times are those of the log or a column's, for any tasks and any cut."""
    chance = random.Random(f"{form} {max_jump}")
    rows = made(chance)
    if form == "bytes":  # other partitions hold the keys of such a topic: one partition each
        rows = [{**row, "k": "a"} for row in rows]
    expected = told(rows, chance, max_jump, None)
    assert all(expected[name] for name in ("pairs", "met", "renamed", "tumbling_every"))
    ways = ((1, None), (2, chance.randrange(1, 9))) if TAKES_ALL else [(2, chance.randrange(8, 13))]
    for tasks, records_max in ways:
        assert told(rows, chance, max_jump, form, tasks, records_max) == expected


@pytest.mark.spark
def test_spark_gives_the_same():
    """Readers and driver take the times from the same place in both engines."""
    app = sk.Topology("events")
    counted(app.stream("clicks", schema="user string, at bigint", key="user", timestamp="at"))
    with TopologyTestDriver(app, batching="all") as driver:
        sent(driver, RECORDS, False, "bigint", random.Random(3))
        driver.drain()
        driver.run_on_spark()
