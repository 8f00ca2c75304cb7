"""Aggregates that depend on the order of the records, or grow with them: what Spark gives for the same rows in one order."""

from __future__ import annotations

import math
import random
import statistics

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import EvaluationError, TopologyError
from streamkit.expressions.aggregates import collection
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import first

SCHEMA = "k string, v double, i int, s string"
AGGREGATES = {
    "first": F.first("s"), "first_known": F.first("s", ignorenulls=True), "last": F.last("s"), "last_known": F.last("s", True),
    "any": F.any_value("i"), "most": F.max_by("s", "i"), "least": F.min_by("s", "i"),
    "of_most": F.max_by("v", F.struct("i", "s")), "of_least": F.min_by("v", F.struct("i", "s")),
    "texts": F.collect_list("s"), "distinct": F.collect_set("s"), "kinds": F.count_distinct("s"), "pairs": F.count_distinct("s", "i"),
    "var_samp": F.variance("v"), "var_pop": F.var_pop("v"), "std_samp": F.stddev("v"), "std_pop": F.stddev_pop("v"),
}  # fmt: skip


EMPTY = {"k": "a", "v": None, "i": None, "s": None}


def rows_of(seed, count=40):
    chance = random.Random(seed)

    def maybe(value):
        return None if chance.random() < 0.2 else value

    texts, numbers = ("x", "yé", "", "zz"), range(-3, 4)
    return [
        {"k": chance.choice("ab"), "v": maybe(1e9 + chance.random()), "i": maybe(chance.choice(numbers)), "s": maybe(chance.choice(texts))}
        for _ in range(count)
    ]  # fmt: skip


def by_hand(rows):
    """What the aggregates are, in plain Python."""
    texts = [row["s"] for row in rows]
    known = [text for text in texts if text is not None]
    numbered = [(row["i"], place, row["s"]) for place, row in enumerate(rows) if row["i"] is not None]
    paired = [
        (tuple((row[name] is not None, row[name]) for name in ("i", "s")), place, row["v"]) for place, row in enumerate(rows)
    ]
    values = [row["v"] for row in rows if row["v"] is not None]
    variances = {
        "var_samp": statistics.variance(values), "var_pop": statistics.pvariance(values),
        "std_samp": statistics.stdev(values), "std_pop": statistics.pstdev(values),
    }  # fmt: skip
    return variances, {
        "first": texts[0], "first_known": known[0], "last": texts[-1], "last_known": known[-1], "any": rows[0]["i"],
        "most": max(numbered)[2], "least": min(numbered, key=lambda one: (one[0], -one[1]))[2],
        "of_most": max(paired)[2], "of_least": min(paired, key=lambda one: (one[0], -one[1]))[2],
        "texts": known, "distinct": list(dict.fromkeys(known)), "kinds": len(set(known)),
        "pairs": len({(row["s"], row["i"]) for row in rows if row["s"] is not None and row["i"] is not None}),
    }  # fmt: skip


def results(rows, mode, batching="all", tasks=1, aggregates=AGGREGATES):
    app = sk.Topology("ordered")
    app.stream("in", schema=SCHEMA, key="k").group_by_key().agg(**aggregates, store="found").emit(mode).to("out")
    with TopologyTestDriver(app, batching=batching, tasks=tasks) as driver:
        piped = [{**row, "_timestamp": moment(at)} for at, row in enumerate(rows)]
        for begin in range(0, len(piped), 3):
            driver.pipe("in", piped[begin : begin + 3])
        emitted = driver.read("out", "k", *aggregates)
        found = driver.store("found").to_arrow().to_pylist()
        return {row["k"]: row for row in found}, emitted


@pytest.mark.parametrize(
    ("mode", "batching", "tasks"),
    first(2, [("latest", 7, 3), ("every", 5, 2), ("latest", "all", 1), ("every", "all", 2), ("every", 5, 1)]),
)
def test_values_are_those_of_the_records_in_order(mode, batching, tasks):
    """Each aggregate is what plain Python makes of the records in order, whatever the cut, the tasks and the emission."""
    rows = rows_of(16)
    found, _ = results(rows, mode, batching, tasks)

    for key in "ab":
        variances, others = by_hand([row for row in rows if row["k"] == key])
        assert {name: found[key][name] for name in others} == others
        for name, value in variances.items():
            assert math.isclose(found[key][name], value, rel_tol=1e-6), name


def test_every_record_gives_the_values_up_to_it():
    """`every` gives after each record what the records so far make, however they are cut."""
    rows = rows_of(17, count=12)
    whole, cut = results(rows, "every")[1], results(rows, "every", batching="one")[1]

    assert whole == cut
    for place, row in enumerate(rows):
        so_far = [other for other in rows[: place + 1] if other["k"] == row["k"]]
        assert whole[place]["texts"] == [one["s"] for one in so_far if one["s"] is not None]
        assert (whole[place]["first"], whole[place]["last"]) == (so_far[0]["s"], row["s"])


def test_nothing_to_aggregate_gives_null_or_nothing():
    """Over nulls alone values are null, lists empty, counts 0; one value has no sample variance, and those of a population are 0."""
    alone = {"k": "a", "v": 2.0, "i": None, "s": None}
    found, _ = results([alone], "latest")

    assert found["a"] == {
        "k": "a", "first": None, "first_known": None, "last": None, "last_known": None, "any": None, "most": None, "least": None,
        "of_most": 2.0, "of_least": 2.0,
        "texts": [], "distinct": [], "kinds": 0, "pairs": 0, "var_samp": None, "var_pop": 0.0, "std_samp": None, "std_pop": 0.0,
    }  # fmt: skip


def test_records_that_arrive_out_of_order_are_folded_in_order():
    """Two topics are read one after the other, and yet the records count in the order of time."""
    app = sk.Topology("ordered")
    one, other = (app.stream(topic, schema=SCHEMA, key="k") for topic in ("one", "other"))
    one.merge(other).group_by_key().agg(texts=F.collect_list("s"), last=F.last("s"), store="found")
    with TopologyTestDriver(app, batching="all", partitions=3) as driver:
        for at in range(6):
            driver.pipe("other" if at % 2 else "one", EMPTY | {"s": str(at)}, timestamp=at)
        assert driver.store("found").to_arrow().to_pylist() == [{"k": "a", "texts": list("012345"), "last": "5"}]


def test_a_collection_has_an_end(monkeypatch):
    """Beyond the bound an aggregate that grows is an error that says so; its state does not grow any more."""
    monkeypatch.setattr(collection, "ELEMENTS_MAX", 3)
    rows = [EMPTY | {"s": str(number % 5)} for number in range(10)]

    for name, aggregate, found in (("n", F.collect_list("s"), "elements"), ("n", F.count_distinct("s"), "values")):
        assert results(rows, "latest", aggregates={name: aggregate})[0]["a"][name] is None
        with pytest.raises(EvaluationError, match=rf"found more than 3 {found} for n = .*group by more columns"):
            results(rows, "every", aggregates={name: aggregate})
    assert results(rows[:3], "every", aggregates={"n": F.collect_set("s")})[0]["a"]["n"] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (F.first_value("s", F.col("i") > 1), "constant boolean"),
        (
            F.max(F.struct("i", F.array("s"))),
            "max.* of struct<.*> has no incremental state: values of array<string> have no order",
        ),
        (
            F.min_by("s", F.struct(F.array("s"))),
            "min_by.* by struct<.*> has no incremental state: values of array<string> have no order",
        ),
        (F.collect_set(F.array("s")), "has no incremental state"),
    ],
)
def test_what_has_no_state_is_refused(aggregate, message):
    """What cannot be kept as a state is refused when the topology is compiled."""
    with pytest.raises(TopologyError, match=message):
        results([], "latest", aggregates={"n": aggregate})
