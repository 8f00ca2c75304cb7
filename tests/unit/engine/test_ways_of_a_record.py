"""
One record that reaches an operator by ways of different length: tables joined with what was made of them, grouped again, cut in any way.

A table follows from its rows alone in the end. So the table of each topology is computed again, from the newest rows.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.rows.place import extended_by, extended_by_turn
from streamkit.log.values.keys import key_parts
from streamkit.names import PATH
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import PARTS, seeds

SCHEMA = "id string, g string, v int"
BEGUN = st.integers(0, 300)
STEPS = st.binary(max_size=4) | st.sampled_from([b"", b"\0", b"\0\0", b"\0\xff", b"\xff", b"\0\0\0"])


def batch_of(paths):
    return pa.RecordBatch.from_pydict({PATH: pa.array(paths, pa.binary())})


@given(st.lists(st.tuples(BEGUN, STEPS, STEPS), min_size=2, max_size=8))
def test_paths_that_go_on_stay_in_order(rows):
    """However paths go on, one that stood before another still does, and each tells what it goes on from."""
    begun, own, other = ([row[place] for row in rows] for place in range(3))
    begun = extended_by_turn(batch_of([b""] * len(rows)), 7, np.array(begun)).to_pylist()
    once = extended_by(batch_of(begun), 8, *key_parts([pa.array(own, pa.binary())]))
    twice = extended_by(batch_of(once.to_pylist()), 9, *key_parts([pa.array(other, pa.binary())])).to_pylist()
    for a in range(len(rows)):
        assert once[a].as_py().startswith(begun[a]) and twice[a].startswith(once[a].as_py())
        for b in range(len(rows)):
            if begun[a] < begun[b]:
                assert once[a].as_py() < once[b].as_py() and twice[a] < twice[b]


def best_of_group(products):
    """The best product of each group, with its value, by a foreign key to the table itself."""
    best = products.group_by("g").agg(best=F.max_by("id", "v"))
    return best.join(products.select(worth="v"), on={"best": "id"}), "g", ("best", "worth")


def best_of_group_expected(rows):
    groups: dict[str, tuple[int, str]] = {}
    for id, (g, v) in rows.items():
        if g is not None and v is not None:
            groups[g] = max(groups.get(g, (v, id)), (v, id), key=lambda one: one[0])
    ties = Counter((g, v) for g, v in rows.values())
    return {g: (id, v) for g, (v, id) in groups.items() if ties[g, v] == 1}, {g for g, v in ties if ties[g, v] > 1}


def joined_with_its_groups(products):
    """Each product with how many are in its group, then grouped by that number."""
    sizes = products.group_by("g").count()
    return products.join(sizes, on={"g": "g"}).group_by(size="count").agg(total=F.sum("v")), "size", ("total",)


def joined_with_its_groups_expected(rows):
    sizes = Counter(g for g, _ in rows.values() if g is not None)
    totals: dict[int, list[int]] = {}
    for g, v in rows.values():
        if g is not None:
            totals.setdefault(sizes[g], []).append(v)
    return {
        size: (sum(v for v in values if v is not None) if any(v is not None for v in values) else None,)
        for size, values in totals.items()
    }, set()


def grouped_twice(products):
    """A table joined with itself by its key and with its groups, counted by two groupings one behind the other."""
    twice = products.select("g", "v").join(products.select(w="v"), how="left")
    sums = twice.group_by("g").agg(total=F.sum("v"), n=F.count("*"))
    return sums.group_by(n="n").agg(groups=F.count("*"), total=F.sum("total")), "n", ("groups", "total")


def grouped_twice_expected(rows):
    sums: dict[str, list[int]] = {}
    for g, v in rows.values():
        if g is not None:
            sums.setdefault(g, []).append(v)
    found: dict[int, tuple[int, list[int]]] = {}
    for values in sums.values():
        known = [v for v in values if v is not None]
        groups, totals = found.setdefault(len(values), (0, []))
        found[len(values)] = groups + 1, [*totals, *([sum(known)] if known else [])]
    return {n: (groups, sum(totals) if totals else None) for n, (groups, totals) in found.items()}, {
        0
    }  # groups that have become empty


KINDS = {
    "best of group": (best_of_group, best_of_group_expected),
    "joined with its groups": (joined_with_its_groups, joined_with_its_groups_expected),
    "grouped twice": (grouped_twice, grouped_twice_expected),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", PARTS)
def test_tables_made_of_themselves_are_right(kind, part):
    """After any changes and deletions, in any cut and with any number of tasks, the table is what its rows make, and its changes say so."""
    for seed in seeds(1):
        now, wanted = held_and_wanted(kind, seed)
        assert now == wanted, f"seed {seed}"


def held_and_wanted(kind, seed):
    """What the changes of a table leave, and what its rows make, but for groups of which the rows do not say it."""
    chosen = random.Random(f"{kind}{seed}")
    make, expected = KINDS[kind]
    app = sk.Topology("made")
    table, key, columns = make(app.table("products", schema=SCHEMA, key="id"))
    table.emit("every").to("changes")
    rows: dict[str, tuple[str, int]] = {}
    now: dict[object, tuple[object, ...]] = {}
    clock = count()
    batching: Any = chosen.choice(["one", "all", chosen.randint(2, 5)])
    with TopologyTestDriver(app, tasks=chosen.choice([1, 2, 3]), partitions=chosen.choice([1, 2]), batching=batching) as driver:
        for _ in range(chosen.randint(5, 40)):
            id = chosen.choice("abcde")
            if chosen.random() < 0.2:
                rows.pop(id, None)
                driver.delete("products", {"id": id}, timestamp=next(clock))
            else:
                rows[id] = chosen.choice(["x", "y", "z"]), chosen.choice([1, 2, 3, 4, 5, 6, 7])
                driver.pipe("products", {"id": id, "g": rows[id][0], "v": rows[id][1]}, timestamp=next(clock))
        for change in driver.read("changes"):
            now.pop(change[key], None)
            if not change.get("_deleted"):
                now[change[key]] = tuple(change[name] for name in columns)
    now = {
        name: values for name, values in now.items() if any(value not in (0, None) for value in values)
    }  # a group that is empty stays
    wanted, undecided = expected(rows)
    return tuple({name: value for name, value in one.items() if name not in undecided} for one in (now, wanted))


def test_a_merge_with_a_part_of_itself_keeps_its_order():
    """Rows that take a longer way stand behind the row that they come from, whatever the cut."""
    found = set()
    for batching in ("one", "all"):
        app = sk.Topology("merged")
        stream = app.stream("in", schema="k string, n int", key="k")
        parts = stream.with_columns(a=F.expr("array(0, n, 256)")).flat_map(F.explode("a").alias("e")).select(n="e")
        again = parts.with_columns(a=F.expr("array(n, 0)")).flat_map(F.explode("a").alias("e")).select(n="e")
        stream.merge(parts).merge(again).group_by_key().agg(all=F.collect_list("n")).emit("every").to("out")
        with TopologyTestDriver(app, batching=batching, tasks=2) as driver:
            driver.pipe("in", [{"k": "a", "n": number} for number in (1, 0, 255, 256, 65_536)], timestamp=0)
            found.add(str(driver.read("out", "k", "all")))
    assert len(found) == 1
