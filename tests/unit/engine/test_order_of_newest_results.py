"""
The order of the newest results of one epoch: as long as it is short, that in which their groups changed last.

What every record gives tells what is right: the last result of each group in an epoch, in the order of these.
"""

from __future__ import annotations

import random

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.epoch.epoch import SHORT_EPOCH_RECORDS
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import seeds

LETTERS, EPOCHS = "zyxabc", 12


def rows_of_a_table(chance, ts):
    return [
        {"k": chance.choice(LETTERS[:4]), "_timestamp": ts, "_deleted": True}
        if chance.random() < 0.2
        else {"k": chance.choice(LETTERS[:4]), "g": chance.choice(LETTERS), "v": chance.randint(-3, 3), "_timestamp": ts}
        for _ in range(chance.choice([1, 1, 2, 7]))
    ]


def rows_of_texts(chance, ts):
    return [
        {"k": "one", "words": chance.choices(LETTERS, k=chance.randint(0, 5)), "_timestamp": ts + chance.randint(0, 30)}
        for _ in range(chance.choice([1, 1, 3]))
    ]


def table(app):
    return app.table("in", schema="k string, g string, v int", key="k", store="rows").group_by("g")


def words(app):
    texts = app.stream("in", schema="k string, words array<string>", key="k")
    return texts.flat_map(F.explode("words").alias("word")).group_by("word")


def met(app):
    """Each record meets those of its key that came before it; what they give is grouped by the column of the other side."""
    texts = app.stream("in", schema="k string, words array<string>", key="k")
    joined = texts.join(texts.select(word=F.get("words", 0)), within=sk.within("1 hour", grace="1 hour"), suffix="_met")
    return joined.group_by("word")


def added(state, row):
    return {"n": state["n"] + 1}


def taken(state, row):
    return {"n": state["n"] - 1}


WAYS = {
    "a table": (rows_of_a_table, lambda app: table(app).agg(n=F.count("*"), v=F.sum("v"))),
    "members": (rows_of_a_table, lambda app: table(app).agg(n=F.count("*"), v=F.max("v"))),
    "rows in order": (rows_of_a_table, lambda app: table(app).agg(n=F.count("*"), v=F.collect_list("v"))),
    "functions of a table": (rows_of_a_table, lambda app: table(app).aggregate({"n": 0}, added, taken, schema="n int")),
    "folded by readers": (rows_of_texts, lambda app: words(app).agg(n=F.count("*"))),
    "folded by kernels": (rows_of_texts, lambda app: met(app).agg(n=F.count("*"))),
    "ordered": (rows_of_texts, lambda app: words(app).agg(n=F.count("*"), all=F.collect_list("k"))),
    "functions": (rows_of_texts, lambda app: words(app).aggregate({"n": 0}, added, schema="n int")),
    "tumbling": (rows_of_texts, lambda app: words(app).windowed_by(sk.tumbling("20 ms", grace="1 hour")).agg(n=F.count("*"))),
    "hopping": (
        rows_of_texts,
        lambda app: words(app).windowed_by(sk.hopping("20 ms", "10 ms", grace="1 hour")).agg(n=F.count("*")),
    ),
    "hopping by pane": (
        rows_of_texts,
        lambda app: words(app).windowed_by(sk.hopping("40 ms", "2 ms", grace="1 hour")).agg(n=F.count("*")),
    ),
    "hopping of functions": (
        rows_of_texts,
        lambda app: (
            words(app).windowed_by(sk.hopping("20 ms", "10 ms", grace="1 hour")).aggregate({"n": 0}, added, schema="n int")
        ),
    ),
}


def topology(way, emissions=("latest",)):
    app = sk.Topology("app")
    results = WAYS[way][1](app)
    for emission in emissions:
        results.emit(emission).to(emission)
    return app


def epochs(way, app, topic, seed, tasks=1):
    """What each of some random epochs gives."""
    chance = random.Random(seed)
    given = [WAYS[way][0](chance, 1_000 + 10 * number) for number in range(EPOCHS)]
    with TopologyTestDriver(app, tasks=tasks) as driver:
        found = []
        for rows in given:
            driver.pipe("in", rows)
            found.append([{name: value for name, value in row.items() if name != "_offset"} for row in driver.read(topic)])
    return found


def last_of_each(results):
    """The last result of each group, in the order of these."""
    newest: dict[tuple[object, ...], dict[str, object]] = {}
    for row in results:
        group = tuple(row.get(name) for name in ("g", "word", "window_start"))
        newest.pop(group, None)
        newest[group] = row
    return list(newest.values())


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("way", WAYS)
def test_newest_results_follow_the_last_changes_of_their_groups(way, seed):
    """Whatever is folded, and wherever, an epoch gives the last result of each group in the order in which they came."""
    every = epochs(way, topology(way, ["every"]), "every", seed)
    newest = epochs(way, topology(way), "latest", seed)

    assert newest == [last_of_each(results) for results in every]


@pytest.mark.parametrize("way", WAYS)
def test_the_order_is_the_same_where_every_result_is_asked_for_too(way):
    """One aggregate may give both: newest results are then made of rows that are folded one by one."""
    both = topology(way, ["every", "latest"])

    assert epochs(way, both, "latest", 5) == [last_of_each(results) for results in epochs(way, both, "every", 5)]


@pytest.mark.parametrize("way", WAYS)
def test_who_takes_results_of_several_tasks_sees_the_same_order(way):
    """Groups of several tasks come to one group behind them in the order in which they changed."""
    app = sk.Topology("app")
    group = "g" if WAYS[way][0] is rows_of_a_table else "word"
    results = WAYS[way][1](app).emit("latest").select(seen=F.concat(F.col(group), F.col("n").cast("string")))
    results.group_by(all=F.lit(1)).agg(seen=F.collect_list("seen")).emit("latest").to("seen")
    alone = epochs(way, app, "seen", 9)

    assert epochs(way, app, "seen", 9, tasks=3) == alone and any(alone)


def test_a_row_that_moves_leaves_its_old_group_first():
    """So who reads the results one after another never finds the row in two groups."""
    with TopologyTestDriver(topology("a table"), batching="one") as driver:
        driver.pipe("in", [{"k": "one", "g": group, "v": 1, "_timestamp": 1} for group in "zam"])

        assert [(row["g"], row["n"]) for row in driver.read("latest")] == [("z", 1), ("z", 0), ("a", 1), ("a", 0), ("m", 1)]


@pytest.mark.parametrize("way", ["a table", "folded by readers", "functions"])
def test_a_long_epoch_gives_its_results_in_the_order_of_keys(way):
    """Of many records nobody keeps where they stood."""
    count = SHORT_EPOCH_RECORDS + 1
    groups = [LETTERS[number % len(LETTERS)] for number in range(count)]
    rows = [{"k": f"{number}", "g": group, "words": [group], "v": 1} for number, group in enumerate(groups)]
    names = ("k", "g", "v") if way == "a table" else ("k", "words")
    rows = [{name: row[name] for name in names} for row in rows]
    with TopologyTestDriver(topology(way)) as driver:
        driver.pipe("in", rows[:-1])
        short = [row.get("g") or row["word"] for row in driver.read("latest")]
        driver.pipe("in", rows)
        long = [row.get("g") or row["word"] for row in driver.read("latest")]

    assert sorted(short) == long == sorted(LETTERS) and short != long
