"""Joins of tables by a foreign key, against an interpreter that knows the rules of one record, by cut, tasks and emission."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import product
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.plan.operators import foreign_key_join
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL, chosen, first, in_turn

LEFT, RIGHT = "k string, f string, v int", "id string, w int"
LEFT_KEYS = ["a", "aa", "b", "", "\0", "a\0b", "é", "z"]
RIGHT_KEYS = ["x", "xx", "", "x\0", "y"]
ROWS = 90 if TAKES_ALL else 28
ALONE = "alone"  # stands for the right side of a left join that has no row
CUTS = [
    {"batching": "one" if TAKES_ALL else 2},
    {"batching": "all", "tasks": 7},
    {"batching": 3, "tasks": 2},
    {"batching": 5, "tasks": 3},
]
WAYS = [
    (how, store, CUTS[cut])
    for how, store, cut in chosen(
        [*product(("inner", "left"), (None, "joined"), range(len(CUTS)))], lambda way: {(way[0], way[1]), way[2]}
    )
]


class Interpreter:
    """The rules of Kafka Streams 4.3, one record after the other; `results` are those of each left key: (f, v, w, time)."""

    def __init__(self, how):
        self.how, self.left, self.right = how, {}, {}
        self.results = defaultdict(list)
        self.order = []

    def take(self, topic, row, time):
        deleted = row["_deleted"]
        if topic == "right":
            self._take_right(row["id"], None if deleted else (row["w"], time), time)
        else:
            self._take_left(row["k"], None if deleted else (row["f"], row["v"], time), time)

    def _take_right(self, key, new, time):
        self.right[key] = new
        for left_key in sorted((k for k, one in self.left.items() if one and one[0] == key), key=str.encode):
            self._give(left_key, new, time)

    def _take_left(self, key, new, time):
        old, self.left[key] = self.left.get(key), new
        match = self.right.get(new[0]) if new and new[0] is not None else None
        was = self.right.get(old[0]) if old and old[0] is not None else None
        later = max([time, *([match[1]] if match else [])])
        if self.how == "left":
            if old or new:
                self._give(key, match, later)
        elif match:
            self._give(key, match, later)
        elif old and old[0] is not None and not (new and new[0] == old[0]):
            is_told_there = not new or new[0] is None
            self._give(key, None, max(time, was[1]) if is_told_there and was else time)

    def _give(self, key, match, time):
        row = self.left[key]
        is_there = row is not None and (match is not None or self.how == "left")
        self.results[key].append((row[0], row[1], match[0] if match else ALONE, time) if is_there else (None, None, None, time))
        self.order.append(key)

    def final(self):
        """What the joined table holds, by its definition."""
        held = {}
        for key, row in self.left.items():
            match = self.right.get(row[0]) if row and row[0] is not None else None
            if row and (match or self.how == "left"):
                held[key] = (row[0], row[1], match[0] if match else ALONE)
        return held


def random_rows(seed, count=ROWS):
    """Changes of both tables, some of which delete, in the order of their times."""
    rng, rows = random.Random(seed), []
    for number in range(count):
        time, deleted = 1000 + 10 * number, rng.random() < 0.2
        if rng.random() < 0.6:
            row = {"k": rng.choice(LEFT_KEYS), "f": rng.choice([*RIGHT_KEYS, None]), "v": number, "_deleted": deleted}
            rows.append(("left", row | {"f": None, "v": None} if deleted else row, time))
        else:
            row = {"id": rng.choice(RIGHT_KEYS), "w": number, "_deleted": deleted}
            rows.append(("right", row | {"w": None} if deleted else row, time))
    return rows


def interpreted(how, rows):
    interpreter = Interpreter(how)
    for topic, row, time in rows:
        interpreter.take(topic, row, time)
    return interpreter


def joined_app(how, store=None):
    app = sk.Topology("joined")
    left = app.table("left", schema=LEFT, key="k")
    right = app.table("right", schema=RIGHT, key="id").with_columns(found=F.lit(True))
    return app, left.join(right, on={"f": "id"}, how=how, store=store)


def pipe(driver, rows):
    for topic, row, time in rows:
        driver.pipe(topic, row | {"_timestamp": moment(time)})


def result_of(row):
    if row.get("_deleted"):
        return (None, None, None)
    return (row["f"], row["v"], row["w"] if row["found"] else ALONE)


def time_of(row):
    return round(row["_timestamp"].timestamp() * 1000)


@pytest.mark.parametrize(("how", "store", "options"), WAYS)
def test_every_record_gives_what_the_rules_say(how, store, options):
    """
    Each change gives the same results, with their times, however the input is cut and however many tasks there are.

    The newest rows and the store are the join of what both tables hold, whatever came before.
    """
    rows = random_rows(len(repr(options)))
    expected = interpreted(how, rows)
    app, table = joined_app(how, store)
    table.emit("every").to("changes")
    table.to("newest")
    with TopologyTestDriver(app, **options) as driver:
        pipe(driver, rows)
        found = defaultdict(list)
        for row in driver.read("changes"):
            found[row["k"]].append((*result_of(row), time_of(row)))
        assert found == expected.results
        assert {key: result_of(row) for key, row in driver.newest("newest").items()} == expected.final()
        if store:
            assert {row["k"]: result_of(row) for row in driver.store(store).to_arrow().to_pylist()} == expected.final()


def test_the_results_of_one_change_stand_in_the_byte_order_of_the_left_keys():
    """A change of the right table goes to all rows that name it, in the order of their keys' bytes."""
    app, table = joined_app("left")
    table.emit("every").to("changes", partitions=1)
    rows = random_rows(8)
    with TopologyTestDriver(app, batching="all") as driver:
        pipe(driver, rows)
        assert [row["k"] for row in driver.read("changes")] == interpreted("left", rows).order


def test_what_names_a_key_survives_a_crash():
    """The rows that name a key come back from the changelog, also if there are other tasks than before."""
    rows = random_rows(9)
    app, _ = joined_app("inner", store="joined")
    with TopologyTestDriver(app, tasks=2, batching=1 if TAKES_ALL else 4) as driver:
        pipe(driver, rows[: ROWS // 2])
        driver.crash()
        driver.restore(tasks=3)
        pipe(driver, rows[ROWS // 2 :])
        found = {row["k"]: result_of(row) for row in driver.store("joined").to_arrow().to_pylist()}
        assert found == interpreted("inner", rows).final()


@pytest.mark.parametrize(("how", "first", "last"), [("inner", [], 900), ("left", [500], 700)])
def test_a_right_row_older_than_the_left_one_gives_its_own_time(how, first, last):
    """A result has the later time of both rows if the left row changed, the right row's own if that changed; a left join's deletion its own."""
    app, table = joined_app(how)
    table.emit("every").to("changes")
    with TopologyTestDriver(app) as driver:
        driver.pipe("left", {"k": "a", "f": "x", "v": 1}, timestamp=500)
        driver.pipe("right", {"id": "x", "w": 1}, timestamp=100)
        driver.pipe("right", {"id": "x", "w": 2}, timestamp=900)
        driver.pipe("left", {"k": "a", "f": "x", "v": 2}, timestamp=600)
        driver.delete("left", {"k": "a"}, timestamp=700)
        assert [time_of(row) for row in driver.read("changes")] == [*first, 100, 900, 900, last]


def test_rows_without_a_foreign_key_are_counted_by_an_inner_join():
    """An inner join has no result for them, and says how many there were."""
    app, table = joined_app("inner")
    table.emit("every").to("changes")
    with TopologyTestDriver(app) as driver:
        driver.pipe("left", {"k": "a", "f": None, "v": 1})
        assert driver.read("changes") == []
        assert driver.metrics()["null_key"] == 1


@pytest.mark.parametrize("batching", ["one", "all"])
def test_only_rows_that_name_a_key_wait_for_it(batching):
    """A left join keeps the rows that name a key now, once each, and none of a row that names none, is gone, or names another."""
    app, _ = joined_app("left", store="joined")
    changes = [("a", None), ("b", "x"), ("c", "x"), ("d", "x"), ("b", None), ("c", "y"), ("e", None), ("e", "x")]
    with TopologyTestDriver(app, batching=batching) as driver:
        driver.pipe("left", [{"k": key, "f": named, "v": 1} for key, named in changes])
        driver.delete("left", {"k": "d"})
        waiting = driver.store("joined-subscriptions").to_arrow().to_pylist()
        assert sorted((row["k"], row["f"]) for row in waiting) == [("c", "y"), ("e", "x")]


@pytest.mark.parametrize("options", first(1, CUTS[:3][::-1]), ids=repr)
def test_a_table_may_name_its_own_rows(options):
    """Rows of one table that name others of it: one record changes both sides, and the last state is the join of what it holds."""
    app = sk.Topology("staff")
    staff = app.table("staff", schema="id string, boss string, name string", key="id")
    staff.join(staff.select("id", boss_name=F.col("name")), on={"boss": "id"}, how="left", store="joined")
    rng = random.Random(1)
    held: dict[str, Any] = {}
    with TopologyTestDriver(app, **options) as driver:
        for number in range(60 if TAKES_ALL else 24):
            key = rng.choice("abcde")
            row: dict[str, Any] = {
                "id": key,
                "boss": rng.choice(["a", "b", "c", "d", "e", None]),
                "name": f"{key}{number}",
                "_deleted": False,
            }
            row = row if rng.random() < 0.8 else {"id": key, "boss": None, "name": None, "_deleted": True}
            held[key] = None if row["_deleted"] else row
            driver.pipe("staff", row | {"_timestamp": moment(1000 + number)})
        found = {row["id"]: (row["name"], row["boss_name"]) for row in driver.store("joined").to_arrow().to_pylist()}
    named = {key: row["name"] for key, row in held.items() if row}
    assert found == {key: (row["name"], named.get(row["boss"])) for key, row in held.items() if row}


@pytest.mark.parametrize("options", first(1, CUTS[1:]), ids=repr)
def test_joins_follow_joins_and_aggregates(options):
    """A result is a table: it is joined by another foreign key, and filtered; the right side may be the results of an aggregation."""
    app = sk.Topology("shop")
    orders = app.table("orders", schema="number int, customer string, cents bigint", key="number")
    customers = app.table("customers", schema="customer_id string, city string", key="customer_id")
    visits = app.stream("visits", schema="place string, n int", key="place").group_by("place").agg(visits=F.sum("n"))
    of_customers = orders.with_columns(who=F.lower("customer")).join(customers, on={"who": "customer_id"})
    of_customers.filter("cents > 10").join(visits, on={"city": "place"}, how="left", store="shown")
    rng = random.Random(2)
    held: dict[int, Any] = {}
    people: dict[str, str | None] = {}
    counted: dict[str, int] = defaultdict(int)
    with TopologyTestDriver(app, **options) as driver:
        for number in range(ROWS):
            time, kind = moment(1000 + number), rng.randrange(3)
            row: dict[str, Any]
            if kind == 0:
                row = {"number": rng.randrange(8), "customer": rng.choice(["Ann", "BOB", "cy", None]), "cents": rng.randrange(30)}
                held[row["number"]] = row
                driver.pipe("orders", row | {"_timestamp": time})
            elif kind == 1:
                row = {"customer_id": rng.choice(["ann", "bob", "cy"]), "city": rng.choice(["Rome", "Bonn", None])}
                people[row["customer_id"]] = row["city"]
                driver.pipe("customers", row | {"_timestamp": time})
            else:
                row = {"place": rng.choice(["Rome", "Bonn", "Oslo"]), "n": rng.randrange(5)}
                counted[row["place"]] += row["n"]
                driver.pipe("visits", row | {"_timestamp": time})
        found = {row["number"]: (row["city"], row["visits"]) for row in driver.store("shown").to_arrow().to_pylist()}
    expected: dict[int, Any] = {}
    for number, row in held.items():
        who = row["customer"] and row["customer"].lower()
        if who in people and row["cents"] > 10:
            expected[number] = (people[who], counted.get(str(people[who])))
    assert found == expected


@pytest.mark.parametrize(("store", "expected"), [(None, ["a", "b", "a"]), ("joined", ["a"])])
def test_a_filter_behind_it_knows_old_rows_only_of_a_store(store, expected):
    """As in Kafka Streams: without a store each result that the filter drops is a deletion, with one only those of rows shown."""
    app, table = joined_app("inner", store)
    table.filter("w > 10").emit("every").to("changes", partitions=1)
    with TopologyTestDriver(app) as driver:
        driver.pipe("right", {"id": "x", "w": 20}, timestamp=1)
        driver.pipe("left", {"k": "a", "f": "x", "v": 1}, timestamp=2)
        assert len(driver.read("changes")) == 1
        driver.pipe("right", {"id": "y", "w": 1}, timestamp=3)
        driver.pipe("left", {"k": "a", "f": "y", "v": 1}, timestamp=4)
        driver.pipe("left", {"k": "b", "f": "y", "v": 1}, timestamp=5)
        driver.pipe("left", {"k": "a", "f": "y", "v": 2}, timestamp=6)
        rows = driver.read("changes")
    assert [row["k"] for row in rows] == expected
    assert all(row["_deleted"] for row in rows)


def filtered_app(how):
    """A join whose right table keeps the rows of which `w` is even."""
    app = sk.Topology("filtered")
    even = app.table("right", schema=RIGHT, key="id").filter("w % 2 = 0").with_columns(found=F.lit(True))
    app.table("left", schema=LEFT, key="k").join(even, on={"f": "id"}, how=how).emit("every").to("changes", partitions=1)
    return app


def right_rows(driver, values, since):
    """Change the right row `x`, a millisecond apart; None deletes it."""
    for number, value in enumerate(values):
        change = {"id": "x", "w": value, "_deleted": value is None}
        driver.pipe("right", change, timestamp=since + number)


FILTERED = [("inner", [(7, None)]), ("left", [(1, ALONE), (7, ALONE)])]


@pytest.mark.parametrize(("how", "deletions", "options"), [(*one, options) for one, options in in_turn(FILTERED, CUTS)])
def test_a_right_row_that_a_filter_never_kept_is_not_deleted(how, deletions, options):
    """Only rows that the filter kept can go: what it drops before, and once more behind a deletion, gives no result."""
    app = filtered_app(how)
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("left", {"k": "a", "f": "x", "v": 1}, timestamp=1)
        right_rows(driver, [1, 3, None, 4, 6, 5, 7, None], 2)
        found = {(time_of(row), result_of(row)[2]) for row in driver.read("changes")}
    assert found == {(5, 4), (6, 6), *deletions}


@pytest.mark.parametrize(("how", "deletions"), FILTERED)
def test_what_a_filter_kept_is_known_behind_a_start_that_did_not_ask(how, deletions, monkeypatch):
    """The rows that the right table keeps say it, so an application that ran without asking them goes on with its stores as they are."""
    app = filtered_app(how)
    with TopologyTestDriver(app, tasks=2) as driver:
        with monkeypatch.context() as before:
            before.setattr(foreign_key_join, "deletes_nothing", lambda table, building: False)
            driver.restart()
            driver.pipe("left", {"k": "a", "f": "x", "v": 1}, timestamp=1)
            right_rows(driver, [4, 6], 5)
        driver.crash()
        driver.restore(tasks=3)
        right_rows(driver, [5, 7, None], 7)
        found = {(time_of(row), result_of(row)[2]) for row in driver.read("changes")}
    assert found == {(5, 4), (6, 6), *deletions}


def test_a_join_below_it_deletes_no_row_that_a_filter_never_kept():
    """As in Kafka Streams: a foreign-key join asks the joins of its right table for what they replace, so a filter there drops in silence."""
    app = sk.Topology("below")
    even = app.table("even", schema=RIGHT, key="id").filter("w % 2 = 0").select("id", n=F.col("w"))
    both = app.table("right", schema=RIGHT, key="id").join(even)
    app.table("left", schema=LEFT, key="k").join(both, on={"f": "id"}).emit("every").to("changes", partitions=1)
    with TopologyTestDriver(app) as driver:
        driver.pipe("left", {"k": "a", "f": "x", "v": 1}, timestamp=1)
        driver.pipe("right", {"id": "x", "w": 0}, timestamp=2)
        for number, value in enumerate([1, 3, 4, 5, 7]):
            driver.pipe("even", {"id": "x", "w": value}, timestamp=3 + number)
        found = [(time_of(row), row["n"]) for row in driver.read("changes")]
    assert found == [(5, 4), (6, None)]


def test_one_record_that_changes_both_tables_gives_one_result_of_each_row():
    """In a table that names its own rows: those that name the record first, then its own, each as of that record."""
    app = sk.Topology("staff")
    staff = app.table("staff", schema="id string, boss string, name string", key="id")
    bosses = staff.select("id", boss_name=F.col("name"))
    staff.join(bosses, on={"boss": "id"}).emit("every").to("changes", partitions=1)
    with TopologyTestDriver(app) as driver:
        driver.pipe("staff", {"id": "a", "boss": "a", "name": "a1"}, timestamp=1)
        driver.pipe("staff", {"id": "b", "boss": "a", "name": "b1"}, timestamp=2)
        driver.pipe("staff", {"id": "a", "boss": "b", "name": "a2"}, timestamp=3)
        driver.delete("staff", {"id": "b"}, timestamp=4)
        found = [(row["id"], row["name"], row["boss_name"]) for row in driver.read("changes")]
    assert found == [
        ("a", "a1", "a1"),
        ("b", "b1", "a1"),
        ("b", "b1", "a2"),
        ("a", "a2", "b1"),
        ("a", None, None),
        ("b", None, None),
    ]


def test_keys_of_several_columns_and_wider_types():
    """A foreign key may have several columns, one of them in the left key, and narrower types than the right key."""
    app = sk.Topology("parts")
    parts = app.table("parts", schema="country string, part int, maker int", key=["country", "part"])
    makers = app.table("makers", schema="maker_id bigint, land string, name string", key=["maker_id", "land"])
    parts.join(makers, on={"maker": "maker_id", "country": "land"}, how="left", store="made")
    with TopologyTestDriver(app, tasks=3) as driver:
        driver.pipe("parts", [{"country": "DE", "part": n, "maker": n % 2} for n in range(4)], timestamp=1)
        driver.pipe("parts", {"country": "FR", "part": 1, "maker": 1}, timestamp=2)
        driver.pipe("makers", {"maker_id": 1, "land": "DE", "name": "one"}, timestamp=3)
        driver.pipe("parts", {"country": "DE", "part": 1, "maker": 7}, timestamp=4)
        driver.pipe("makers", {"maker_id": 7, "land": "DE", "name": "seven"}, timestamp=5)
        driver.delete("parts", {"country": "DE", "part": 2}, timestamp=6)
        rows = driver.store("made").to_arrow().to_pylist()
    found = {(row["country"], row["part"]): (row["maker"], row["name"]) for row in rows}
    assert found == {
        ("DE", 0): (0, None),
        ("DE", 1): (7, "seven"),
        ("DE", 3): (1, "one"),
        ("FR", 1): (1, None),
    }


def windows(app):
    stream = app.stream("s", schema="id string, x int", key="id")
    return stream.group_by_key().windowed_by(sk.tumbling("1 s", grace="0 s")).count()


def refused(join):
    app = sk.Topology("refused")
    left = app.table("left", schema="k string, f string, n int", key="k")
    right = app.table("right", schema="id string, w int", key="id")
    join(left, right, app).to("out")
    with pytest.raises(TopologyError) as error:
        TopologyTestDriver(app)
    return str(error.value)


def test_what_cannot_be_joined_is_refused_with_words():
    """Types that do not fit, outer joins, parts of the right key, missing columns and windows are errors that say what to do."""
    assert "expected inner or left" in refused(lambda left, right, app: left.join(right, on={"f": "id"}, how="outer"))
    assert "expected the same type: cast one" in refused(lambda left, right, app: left.join(right, on={"n": "id"}))
    assert "names the whole key of the right table, here ['id']" in refused(
        lambda left, right, app: left.join(right, on={"f": "w"})
    )
    assert "there is no column 'g' in the left table" in refused(lambda left, right, app: left.join(right, on={"g": "id"}))
    assert "keys have no windows" in refused(lambda left, right, app: left.join(windows(app), on={"f": "id"}))
