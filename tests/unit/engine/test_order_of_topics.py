"""A topic behind steps without state has its records in canonical order, with any number of tasks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.dsl.stream import Stream
from streamkit.log.log import Log

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
COUNT = 400
IN_TIME = {0, 1, 2, 4, 5, 6, 7, 8, 9}  # a record of three, ten and so on is late


def to_out(events: Stream) -> None:
    events.filter("n % 7 != 0").to("out")


def under_a_number(events: Stream) -> None:
    events.select_key(number=F.expr("cast(n % 50 as int)")).to("out", partitions=8)


def of_several_rows(events: Stream) -> None:
    events.flat_map_values(lambda row: [{"m": row["n"]}, {"m": -row["n"]}], "m bigint").to("out")


def to_topics_of_four_and_eight_partitions(events: Stream) -> None:
    events.to("out_of_four")
    events.to("out_of_eight", partitions=8)


def as_json_under_texts(events: Stream) -> None:
    events.to("out", value_format="json", key_format="string")


def as_json_under_numbers(events: Stream) -> None:
    events.select_key(number=F.col("n") % 50).to("out", value_format="ksql_json", key_format="kafka")


def without_a_key(events: Stream) -> None:
    events.without_key().to("out")


def moved_behind_a_group(events: Stream) -> None:
    """The counts get another key, and move by it."""
    counts = events.group_by_key().count(store="counts").to_stream()
    counts.select_key(F.col("count")).repartition().to("out")


def moved_to_two_topics(events: Stream) -> None:
    moved = events.select_key(number=F.col("n") % 50).repartition(8)
    moved.to("out_of_eight")
    moved.filter("n > 5").to("out_of_sixteen", partitions=16)


def beside_a_join(events: Stream) -> None:
    """The join and what looks at each record take the same rows by the same key."""
    newest = events.group_by_key().agg(last=F.max("n"), store="newest")
    events.join(newest, how="left").foreach(lambda row: None)
    events.to("out")


def beside_a_group(events: Stream) -> None:
    events.to("out")
    events.group_by_key().count(store="counts")


BUILDS = (
    to_out,
    under_a_number,
    of_several_rows,
    to_topics_of_four_and_eight_partitions,
    as_json_under_texts,
    as_json_under_numbers,
    without_a_key,
    moved_behind_a_group,
    moved_to_two_topics,
    beside_a_join,
    beside_a_group,
)


def filled(log: Log) -> None:
    """Records of many keys, some without one, a minute apart, some of them late."""
    log.create_topic("events", "id string, n bigint, at timestamp", key="id", timestamp="at", partitions=4)
    with log.producer() as producer:
        producer.send_batch(
            "events",
            [
                {
                    "id": None if n % 23 == 5 else f"k{n % 37}",
                    "n": n,
                    "at": START + dt.timedelta(minutes=n if n % 10 in IN_TIME else n - 3),
                }
                for n in range(COUNT)
            ],
        )


def partitions_of(log: Log) -> dict[tuple[str, int], list[Mapping[str, Any]]]:
    """What each partition of the topics of results has, in order."""
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for name in (name for name in log.topics() if name.startswith("out")):
        for row in sorted(log.read(name).to_pylist(), key=lambda row: row["_offset"]):
            found.setdefault((name, row["_partition"]), []).append(row)
    return found


def written(build: Callable[[Stream], None], tasks: int) -> dict[tuple[str, int], list[Mapping[str, Any]]]:
    """What an application of so many tasks writes in an epoch."""
    app = sk.Topology("app")
    build(app.stream("events"))
    with sk.open_log(":memory:") as log:
        filled(log)
        sk.run(app, log=log, engine="local", tasks=tasks, trigger="available_now").wait()
        return partitions_of(log)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_partitions_are_the_same_with_any_number_of_tasks(build: Callable[[Stream], None], tasks: int) -> None:
    """Each partition has the records that one task writes, in their order, also those without a key."""
    expected = written(build, 1)

    assert sum(map(len, expected.values())) >= COUNT * 6 // 7
    assert written(build, tasks) == expected


def test_a_topic_that_is_spread_by_a_part_of_its_key() -> None:
    """Its partitions have the order that one task gives them, too."""
    app = sk.Topology("app")
    app.stream("events").select_key(number=F.col("n") % 50, other=F.col("n") % 3).to("out")
    found = []
    for tasks in (1, 3):
        with sk.open_log(":memory:") as log:
            filled(log)
            columns = "number bigint, other bigint, id string, n bigint, at timestamp"
            log.create_topic("out", columns, key=["number", "other"], partition_by="other", partitions=3)
            sk.run(app, log=log, engine="local", tasks=tasks, trigger="available_now").wait()
            found.append(partitions_of(log))

    assert found[0] == found[1] and len(found[0]) > 1


def worked_on(events: Stream) -> None:
    events.repartition().map_values(lambda row: {"m": row["n"]}, "m bigint", name="work").to("out", partitions=1)


def test_a_function_behind_a_repartition_is_spread_over_the_tasks() -> None:
    """Where all that it gives goes to one partition, this has the rows of two tasks, one task's behind the other's."""
    ((_, alone),) = written(worked_on, 1).items()
    ((_, spread),) = written(worked_on, 2).items()

    assert [row["m"] for row in alone] != [row["m"] for row in spread]
    assert sorted(row["m"] for row in alone) == sorted(row["m"] for row in spread)


def test_a_topic_with_a_wider_key_has_the_same_partitions() -> None:
    """Keys of int go to a topic whose key is bigint, and travel by the partitions of that topic."""
    app = sk.Topology("app")
    app.stream("events").select_key(number=F.expr("cast(n % 50 as int)")).to("out")
    found = []
    for tasks in (1, 3):
        with sk.open_log(":memory:") as log:
            filled(log)
            log.create_topic("out", "number bigint, id string, n bigint, at timestamp", key="number", partitions=4)
            sk.run(app, log=log, engine="local", tasks=tasks, trigger="available_now").wait()
            found.append(partitions_of(log))

    assert found[0] == found[1] and len(found[0]) == 4


@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_rows_of_a_key_by_two_ways_come_from_one_task(tasks: int) -> None:
    """Where rows of a group and of a stream go to one topic, those of each key keep their order."""

    def build(events: Stream) -> None:
        rows = events.select(n=F.col("n")).repartition()
        rows.merge(events.group_by_key().agg(n=F.max("n"), store="largest").to_stream()).to("out")
        rows.to("out_of_both")
        events.group_by_key().agg(n=F.min("n"), store="least").to_stream().to("out_of_both")

    def of_keys(found: Mapping[tuple[str, int], list[Mapping[str, Any]]]) -> dict[tuple[str, str], list[int]]:
        order: dict[tuple[str, str], list[int]] = {}
        for (topic, _), records in found.items():
            for row in records:
                order.setdefault((topic, row["id"]), []).append(row["n"])
        return order

    assert of_keys(written(build, tasks)) == of_keys(written(build, 1))


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_windows_over_the_topic_find_no_record_late(tasks: int) -> None:
    """Who reads the topic by time finds records in the order in which they came, so no more of them are late than with one task."""
    parsed, windowed = sk.Topology("parsed"), sk.Topology("windowed")
    parsed.stream("events").filter("n % 10 != 3").to("out")
    hours = windowed.stream("out").group_by("id").windowed_by(sk.tumbling("1 hour", grace="0 seconds"))
    hours.count().emit("final").to("hours")
    with sk.open_log(":memory:") as log:
        filled(log)
        sk.run(parsed, log=log, engine="local", tasks=tasks, trigger="available_now").wait()
        sk.run(windowed, log=log, engine="local", tasks=2, drain=True).wait()

        assert sum(log.read("hours")["count"].to_pylist()) == sum(n % 10 != 3 and n % 23 != 5 for n in range(COUNT))


def test_spark_writes_the_same(spark: Any, tmp_path: Any) -> None:
    """Tasks of Spark write what one task of this process writes."""
    app = sk.Topology("app")
    to_topics_of_four_and_eight_partitions(app.stream("events"))
    with sk.open_log(tmp_path / "log") as log:
        filled(log)
        sk.run(app, spark, log, tasks=3, trigger="available_now").wait()

        assert partitions_of(log) == written(to_topics_of_four_and_eight_partitions, 1)
