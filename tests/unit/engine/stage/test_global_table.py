"""What a process keeps of a global table: one version and what came since, and what it finds there."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.stage import global_table
from streamkit.engine.stage.global_table import GlobalTableRows, KeyedRows
from streamkit.log.opening import open_log
from streamkit.log.slab.slab import read_frame
from streamkit.plan.operators.global_join import GlobalJoin
from tests.kit.sampling import TAKES_ALL, first

KEYS = [f"k{number:05d}" for number in range(60)]


@pytest.fixture
def log():
    """A log in memory, whose clock a test moves."""
    with open_log(":memory:") as opened:
        opened.create_topic(
            "t", "k string, v string", key="k", partitions=3, config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
        )
        global_table._kept.clear()
        yield opened


@pytest.fixture
def program(log):
    """One whose global table has steps of all kinds: a filter, another name and type of a column."""
    app = sk.Topology("looking-up")
    table = app.global_table("t").filter("v != 'x'").select("k", w=F.upper("v"))
    log.create_topic("in", "k string", key="k", partitions=1)
    app.stream("in").join(table, on="k", how="left").to("out")
    return sk.compile(app, log)


def join_of(program):
    (join,) = (one for one in program.operators if isinstance(one, GlobalJoin))
    return join


def read(log, program, extents, application="a"):
    join = join_of(program)
    return GlobalTableRows.read(log.storage, program.inputs[join.table_input], extents, join.table, join.table_key, application)


def found(table):
    """What each key finds."""
    rows, places = table.match([pa.array(KEYS)])
    values = rows["w"].to_pylist()
    return {key: values[place] for key, place in zip(KEYS, places.tolist(), strict=True) if place >= 0}


def now(log):
    places = log.catalog.manifest.cut([log.topic("t").id], {}).extents
    return tuple(sorted(places, key=lambda one: (one.partition, one.base_offset)))


@pytest.mark.parametrize("seed", first(1, range(4)))
def test_it_is_the_topic_as_of_the_plan_whatever_was_read_before(log, program, seed, monkeypatch):
    """After any changes, merges and compactions, for the newest plan and for older ones, each key finds what a whole read has."""
    monkeypatch.setattr(global_table, "CHANGES_MIN", 4)
    monkeypatch.setattr(global_table, "SUPERSEDED_MAX", 8)
    chance, rows = random.Random(seed), {}
    plans: list[Any] = []
    for _ in range(60 if TAKES_ALL else 25):
        with log.producer() as producer:
            for key in chance.sample(KEYS, chance.choice([0, 1, 3, 40])):
                value = chance.choice(["x", "y", "z", None])
                producer.delete("t", {"k": key}) if value is None else producer.send("t", {"k": key, "v": value})
                rows[key] = value
        if chance.random() < 0.15:
            chance.choice([log.maintain, lambda: log.compact("t")])()
            plans.clear()  # what they name may be gone
        plans.append((now(log), {key: value.upper() for key, value in rows.items() if value not in (None, "x")}))
        for extents, expected in [plans[-1], *chance.sample(plans, chance.randrange(2)), plans[-1]]:
            assert found(read(log, program, extents)) == expected


def test_a_change_reads_what_is_new_alone(log, program, monkeypatch):
    """Of a topic that grows only the new frames are read, once for all tasks; an older plan neither finds nor loses what is kept."""
    frames = Mock(wraps=read_frame)
    monkeypatch.setattr(global_table, "read_frame", frames)
    earlier = ()
    for number in range(20):
        with log.producer() as producer:
            producer.send("t", {"k": KEYS[number], "v": "y"})
        for _ in range(3):
            assert len(found(read(log, program, now(log)))) == number + 1
        assert frames.call_count == number + 1
        earlier = earlier or now(log)
    assert len(found(read(log, program, earlier))) == 1 and frames.call_count == 21
    assert len(found(read(log, program, now(log)))) == 20 and frames.call_count == 21
    assert len(found(read(log, program, now(log), "another"))) == 20 and frames.call_count == 41


def test_one_version_stays_in_memory(log, program):
    """Twelve versions of a table of 5 MB take as much as one; there were eight of them."""
    with log.producer() as producer:
        producer.send_batch(
            "t", pa.table({"k": [f"key{n:07d}" for n in range(50_000)], "v": [f"{n:0100d}" for n in range(50_000)]})
        )
    before = pa.total_allocated_bytes()
    read(log, program, now(log))
    one = pa.total_allocated_bytes() - before
    for number in range(12):
        with log.producer() as producer:
            producer.send("t", {"k": KEYS[0], "v": f"{number}"})
        assert found(read(log, program, now(log))) == {KEYS[0]: f"{number}"}
    assert one > 5_000_000
    assert pa.total_allocated_bytes() - before < 1.2 * one


def test_keys_that_are_one_value_in_two_texts_are_read_whole(log):
    """A key in JSON may be written in two ways: which row is found must not depend on what was read before."""
    log.create_topic("documents", "key binary, value binary", key="key", partitions=1, config={"cleanup.policy": "compact"})
    app = sk.Topology("looking-up")
    table = app.global_table("documents", value_format="json", key_format="json", schema="id int, v string", key="id")
    app.stream("in", schema="id int", key="id").join(table, on="id", how="left").to("out")
    log.create_topic("in", "id int", key="id", partitions=1)
    program = sk.compile(app, log)
    join = join_of(program)

    def looked_up(application):
        extents = log.catalog.manifest.cut([log.topic("documents").id], {}).extents
        source = program.inputs[join.table_input]
        rows, places = GlobalTableRows.read(log.storage, source, extents, join.table, join.table_key, application).match(
            [pa.array([1], pa.int32())]
        )
        return None if places[0] < 0 else rows["v"][int(places[0])].as_py()

    for number, key in enumerate([b'{"id": 1}', b'{"id":1}', b'{"id": 1}', b'{"id":1 }']):
        with log.producer() as producer:
            producer.send("documents", {"key": key, "value": f'{{"v": "{number}"}}'.encode()})
        assert looked_up("kept") == looked_up(f"fresh-{number}")


@pytest.mark.parametrize("keys", [pa.array([3, 7, -1, 2**40]), pa.array(["a", "", "\0", "b" * 50])])
def test_few_keys_are_found_as_many_are(keys):
    """More rows than there are keys, which Arrow looks up, find what fewer rows find by the index; null finds what the index finds."""
    rows = KeyedRows.of(pa.record_batch({"k": keys}), ("k",))
    others = pa.array([5, 8], pa.int64()) if pa.types.is_integer(keys.type) else pa.array(["A", "bb"])
    wanted = pa.concat_arrays([keys.take(pa.array([2, 2, 0, 3, 1])), others])
    assert rows.find([wanted]).tolist() == [2, 2, 0, 3, 1, -1, -1]
    assert [place for row in range(len(wanted)) for place in rows.find([wanted.slice(row, 1)]).tolist()] == [
        2,
        2,
        0,
        3,
        1,
        -1,
        -1,
    ]
    with_null = pa.concat_arrays([wanted, pa.nulls(1, keys.type)])
    assert rows.find([with_null]).tolist() == [2, 2, 0, 3, 1, -1, -1, -1]
    assert rows.find([wanted.dictionary_encode()]).tolist() == [2, 2, 0, 3, 1, -1, -1]
