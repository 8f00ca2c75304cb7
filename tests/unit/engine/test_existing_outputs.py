"""Topics that exist take what fits them: narrower columns are widened, nullable ones that nobody writes are null, all else is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.log.dead_letter import SCHEMA as LETTERS
from streamkit.testing import TopologyTestDriver

NARROW = "k int, b tinyint, s smallint, i int, f float, d decimal(5,2), day date, text string, old_b boolean, tags array<int>"
WIDE = {
    "k": "bigint", "b": "int", "s": "bigint", "i": "bigint", "f": "double", "d": "decimal(20,4)", "day": "timestamp_ntz",
}  # fmt: skip
ROW = {
    "k": 1, "b": -128, "s": -32768, "i": -(1 << 31), "f": 0.1, "d": Decimal("-1.25"), "day": dt.date(2024, 2, 29), "text": "x",
    "old_b": True, "tags": [1, None],
}  # fmt: skip
UTC = dt.timezone.utc


def wide_schema(schema, more="more string, amount decimal(38,0), parts struct<a:int>"):
    """The columns backwards, in wider types, and some more."""
    columns = [column.rsplit(" ", 1) for column in reversed(schema.split(", "))]
    return ", ".join([*(f"{name} {WIDE.get(name, kind)}" for name, kind in columns), more])


def test_a_stream_goes_into_wider_columns():
    """Each narrower kind is widened without loss, nulls too; the columns of the topic that nobody writes are null."""
    app = sk.Topology("app")
    app.stream("in", schema=NARROW, key="k").to("out")

    with TopologyTestDriver(app, topics={"out": {"schema": wide_schema(NARROW), "key": "k"}}) as driver:
        driver.pipe("in", [ROW, {**dict.fromkeys(ROW), "k": 2}])
        first, second = driver.read(
            "out", *wide_schema(NARROW).replace(", ", " ").split()[:1], *[*ROW], "more", "amount", "parts"
        )

    assert first["f"] == pytest.approx(0.1, rel=1e-7)
    assert first["day"] == dt.datetime(2024, 2, 29)
    assert first["d"] == Decimal("-1.2500")
    assert {name: first[name] for name in ("k", "b", "s", "i", "text", "old_b", "tags")} == {
        name: ROW[name] for name in ("k", "b", "s", "i", "text", "old_b", "tags")
    }
    assert {first[name] for name in ("more", "amount", "parts")} == {None}
    assert second["k"] == 2 and {value for name, value in second.items() if name != "k" and not name.startswith("_")} == {None}


def test_rows_go_to_the_partition_of_the_wider_key():
    """A row stands where a producer of the topic would put its key, so that newest rows and deletions meet."""
    app = sk.Topology("app")
    app.table("in", schema="k int, v int", key="k").to("out")
    keys = range(40)

    with TopologyTestDriver(app, topics={"out": {"schema": "k bigint, v bigint, w int", "key": "k", "partitions": 4}}) as driver:
        with driver.log.producer() as producer:
            producer.send_batch("out", [{"k": key, "v": -1, "w": 7} for key in keys])
        driver.pipe("in", [{"k": key, "v": key} for key in keys])
        for key in range(0, 40, 2):
            driver.delete("in", {"k": key})
        places: dict[int, set[int]] = {}
        for partition in range(4):
            with driver.log.consumer() as consumer:
                consumer.assign([("out", partition)])
                consumer.seek_to_beginning()
                rows = consumer.poll(timeout=1)
                for row in [] if rows is None else rows.to_pylist():
                    places.setdefault(row["k"], set()).add(partition)
        newest = driver.newest("out")

    assert all(len(found) == 1 for found in places.values()) and set(places) == set(keys)
    assert sorted(row["v"] for row in newest.values()) == [*range(1, 40, 2)]


def test_windows_late_rows_and_dead_letters_go_into_topics_with_more_columns():
    """What an aggregation, `late_to` and `dead_letter` write is filled in the same way."""
    app = sk.Topology("app", on_error=sk.dead_letter("letters"))
    hour = sk.tumbling("1 hour", grace="0 s")
    (
        app.stream("in", schema="k int, v int", key="k")
        .with_columns(v=F.lit(10) % F.col("v"))
        .group_by_key()
        .windowed_by(hour, late_to="late")
        .agg(n=F.sum(F.col("v").cast("int")), store="hours")
        .emit("final")
        .to("out")
    )
    letters = ", ".join(f"{column.name} {column.type}{'' if column.nullable else ' not null'}" for column in LETTERS)
    topics = {
        "late": {"schema": "more int, k bigint, v bigint, window_start timestamp, window_end timestamp", "key": "k"},
        "letters": {"schema": f"{letters.replace('line int', 'line bigint')}, more int"},
    }
    with TopologyTestDriver(app, topics=topics) as driver:
        driver.pipe("in", [{"k": 1, "v": 3}], timestamp=dt.datetime(2024, 1, 1, tzinfo=UTC))
        driver.pipe("in", [{"k": 1, "v": 3}, {"k": 1, "v": 0}], timestamp=dt.datetime(2024, 1, 2, tzinfo=UTC))
        driver.pipe("in", [{"k": 1, "v": 4}], timestamp=dt.datetime(2024, 1, 1, tzinfo=UTC))
        late, dead, final = driver.read("late"), driver.read("letters"), driver.read("out")

    assert [(row["k"], row["v"], row["more"]) for row in late] == [(1, 2, None)]
    assert [row["more"] for row in dead] == [None]
    assert len(final) >= 1


REFUSED = {
    "a column more that may not be null": (
        "k int, v int, w int not null",
        "its column 'w' is NOT NULL, and the written rows do not have it",
    ),
    "a narrower column": ("k int, v smallint", "its column 'v' is smallint, and int cannot become that without loss"),
    "another kind": ("k int, v string", "its column 'v' is string, and int cannot become"),
    "a float for an int": ("k int, v double", "its column 'v' is double, and int cannot become"),
    "a column too few": ("k int", "it has no column 'v'"),
    "nulls where none may be": ("k int, v int not null", "its column 'v' is NOT NULL, and what is written may be null"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_by_column(case):
    """The error says which column does not fit and why, what would, and where the topology writes it."""
    schema, reason = REFUSED[case]
    app = sk.Topology("app")
    app.stream("in", schema="k int, v int", key="k").to("out")

    with pytest.raises(TopologyError) as raised:
        TopologyTestDriver(app, topics={"out": {"schema": schema, "key": "k"}})

    assert reason in str(raised.value) and "expected a topic with the written columns" in str(raised.value)
    assert "test_existing_outputs.py" in str(raised.value)


def test_a_time_column_has_to_be_written():
    """The event time of a row of such a topic is in the column, so a topology that has no such column is refused."""
    app = sk.Topology("app")
    app.stream("in", schema="k int, v int", key="k").to("out")

    with pytest.raises(TopologyError, match="its event time is the column 'at', and the written rows do not have it"):
        TopologyTestDriver(app, topics={"out": {"schema": "k int, v int, at timestamp", "key": "k", "timestamp": "at"}})
