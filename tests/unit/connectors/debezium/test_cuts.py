"""What a record becomes depends on it and on the topic's columns alone: bad records among good ones, however they are cut into polls."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.debezium import DebeziumSource
from streamkit.errors import StreamKitError
from tests.kit.sampling import TAKES_ALL

SEEDS = range(300 if TAKES_ALL else 2)
VALUES = ([1, 2], [1, 1.5], [1, "x"], ["x"], [True, 1], [{"a": 1}, [1]], [1.0, 2], [2**63 - 1, 2**70])  # without schemas
KINDS: dict[str, Sequence[Any]] = {
    "int32": (1, "bad"),
    "int64": (1 << 40,),
    "string": ("a",),
    "boolean": (True, "bad"),
    "double": (1.5,),
}
ZONED = "io.debezium.time.ZonedTimestamp"
NEAR, FINE, FAR = "2020-01-01T00:00:00Z", "2020-02-29T12:00:00.123456789+02:00", "9999-12-31T23:59:59Z"
TIMES: dict[str, tuple[str, Sequence[Any]]] = {
    "io.debezium.time.Date": ("int32", (1, 2_000_000)),
    "io.debezium.time.Timestamp": ("int64", (1_000, 1 << 47)),
    "io.debezium.time.MicroTimestamp": ("int64", (2_000, 1 << 57)),
    "io.debezium.time.NanoTimestamp": ("int64", (2_000_001, 1 << 62)),
    "org.apache.kafka.connect.data.Timestamp": ("int64", (3_000, 1 << 47)),
    ZONED: ("string", (NEAR, FINE, FAR, "0001-01-01T00:00:00.1234567Z", "2300-01-01T00:00:00.123456789Z", "bad")),
}
TRANSFORMS = (
    {"type": "expr", "select": "*, v AS same"},
    {"type": "expr", "where": "v IS NULL OR m > 0"},
    {"type": "expr", "where": "w IS NOT NULL"},
    {"type": "ReplaceField$Value", "exclude": "m"},
    {"type": "ReplaceField$Value", "exclude": "v,x"},
    {"type": "InsertField$Value", "static.field": "s", "static.value": "1"},
    {"type": "ValueToKey", "fields": "id"},
)
Record = tuple[Any, Any]
STRANGE: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e300, 10**30, "", "x", "\ud800", "NaN", "AA==", [], [None], [[]], {}, {"": 1}, {"\ud800": 1}),
    *({"schema": None, "payload": None}, 2**63, "int32", "struct", "array", "map", "bytes", "_offset", "a" * 300),
    *("org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal", "io.debezium.time.ZonedTimestamp"),
)


def plain(chance, values):
    """A change without schema, with values of several types, a key that may be null or not there, or no envelope at all."""
    if chance.random() < 0.05:
        return {"id": 1}, chance.choice([{"op": "c"}, 5, "text", {}])
    key = {"id": chance.randint(1, 4) if chance.random() < 0.95 else None}
    if chance.random() < 0.1:
        return {**key, "w": 1}, {"op": "c", "after": {**key, "v": "__debezium_unavailable_value"}}
    row = {**key, "v": chance.choice([*values, *values, None, "y"])} | ({"w": 1} if chance.random() < 0.2 else {})
    row |= {"m": chance.randint(0, 1)} | ({"x": chance.choice([1, None])} if chance.random() < 0.1 else {})
    if chance.random() < 0.3:
        row = dict(chance.sample([*row.items(), ("y", chance.choice([1, None]))], len(row) + 1))
    if chance.random() < 0.25:
        del row["v"]  # which transforms use
    return other_key(chance, key), change(chance, key, row)


def with_schema(chance, _):
    """A change with the schema of one of several versions of a table, deletions too; times of several types in one column."""
    kinds = {"id": chance.choice(["int32", "int32", "int32", "int64"]), "v": chance.choice([*KINDS])} | (
        {"w": "string"} if chance.random() < 0.3 else {}
    )
    kinds["at"] = chance.choice(["", *TIMES, ZONED, ZONED])
    key = {"id": chance.randint(1, 4) if chance.random() < 0.95 else None}
    row = key | {name: chance.choice([*KINDS[kind], None]) for name, kind in kinds.items() if name not in ("id", "at")}
    if kinds["at"]:
        row["at"] = chance.choice(TIMES[kinds["at"]][1])
    else:
        del kinds["at"]
    fields = [
        {"field": name, "type": TIMES[kind][0], "name": kind, "optional": True}
        if kind in TIMES
        else {"field": name, "type": kind, "optional": name != "id" or chance.random() < 0.1}
        for name, kind in kinds.items()
    ]
    schema = {
        "type": "struct",
        "fields": [{"field": name, "type": "struct", "fields": fields, "optional": True} for name in ("before", "after")],
    }
    of_key = {"type": "struct", "fields": fields[:1]}
    found = other_key(chance, key)
    return found if found != key else {"schema": of_key, "payload": key}, {
        "schema": schema,
        "payload": change(chance, key, row),
    }


def strange(chance, values):
    """A record with or without schema in which something is another value, has another name, or is not there."""
    key, value = chance.choice([plain, with_schema])(chance, values)
    if key is not None and chance.random() < 0.3:
        key = altered(chance, key)
    return key, altered(chance, value)


def altered(chance, found):
    """A copy with another value somewhere: of each level, down to a depth by chance."""
    inner = list(found.items()) if isinstance(found, dict) else list(enumerate(found)) if isinstance(found, list) else []
    if not inner or chance.random() < 0.2:
        return chance.choice(STRANGE)
    at, value = chance.choice(inner)
    if isinstance(found, list):
        return [*found[:at], altered(chance, value), *found[at + 1 :]]
    left = {name: one for name, one in found.items() if name != at}
    if chance.random() < 0.2:
        return (
            left if chance.random() < 0.5 else {**left, chance.choice(["", "\ud800", "_offset", "ID", "a.b", "optional"]): value}
        )
    return {**found, at: altered(chance, value)}


def other_key(chance, key):
    """A record's key, or none, or one of other columns, in front or alone."""
    return chance.choices([key, None, {**key, "k": 1}, {"w": 1}, {**key, "w": None}], [82, 8, 4, 3, 3])[0]


def change(chance, key, row):
    is_deletion = chance.random() < 0.3
    return {"op": "d", "before": key, "after": None} if is_deletion else {"op": "c", "before": None, "after": row}


def outcome(records: Sequence[Record], cuts: Sequence[int], **settings: Any) -> tuple[Any, ...]:
    """The rows, the key, the columns and the dead letters that records become."""
    with sk.open_log(":memory:") as log:
        for name in ("raw", "bad"):
            log.create_topic(name, format="bytes", partitions=1)
        for start, end in pairwise(cuts):
            with log.producer() as producer:
                for number, (key, value) in enumerate(records[start:end], start):
                    record = {"key": None if key is None else json.dumps(key).encode(), "value": json.dumps(value).encode()}
                    producer.send("raw", record, timestamp_ms=1_000 * number)
            errors = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
            config = {
                "source.topic": "raw",
                "topic": "rows",
                "topic.partitions": 1,
                "truncate.mode": "skip",
                **errors,
                **settings,
            }
            run([DebeziumSource("in", config)], log, once=True)
        names = [*log.topic("rows").schema.names, "_deleted"] if "rows" in log.topics() else []
        rows = log.read("rows").to_pylist() if names else []
        columns = [str(column) for column in log.topic("rows").schema] if names else []
        if "transforms" in settings:  # which see the columns of records that came together
            columns.sort()
        bad = [(row["value"], row["_timestamp"]) for row in log.read("bad").to_pylist()]
        key = log.topic("rows").key if names else ()
    return [{name: row.get(name) or None for name in sorted(names)} for row in rows], (key, columns), bad


def stopped(records: Sequence[Record], cuts: Sequence[int]) -> tuple[Any, ...]:
    """Which record stops a task, and the columns that the topic has then."""
    failed = None
    with sk.open_log(":memory:") as log:
        log.create_topic("raw", format="bytes", partitions=1)
        for start, end in pairwise(cuts):
            with log.producer() as producer:
                for key, value in records[start:end]:
                    producer.send("raw", {"key": json.dumps(key).encode(), "value": json.dumps(value).encode()})
            try:
                run([DebeziumSource("in", {"source.topic": "raw", "topic": "rows", "truncate.mode": "skip"})], log, once=True)
            except StreamKitError as error:
                failed = re.search(r"offset (\d+)", str(error))
                break
        columns = [str(column) for column in log.topic("rows").schema] if "rows" in log.topics() else []
    return failed and failed[1], columns


@pytest.mark.parametrize("kinds", [(plain,), (plain, with_schema)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_record_that_stops_the_task(seed, kinds):
    """It is the same one in any polls, and the topic has the columns of the records before it, and no others."""
    chance = random.Random(seed)
    values = chance.choice(VALUES)
    records = [chance.choice(kinds)(chance, values) for _ in range(8)]
    assert stopped(records, [0, len(records)]) == stopped(records, range(len(records) + 1))


@pytest.mark.parametrize("kinds", [(plain,), (plain, with_schema), (plain, with_schema, strange)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_bad_record_takes_none_with_it(seed, kinds):
    """Polls of one record, one of all, and some between make the same rows, columns and dead letters, in one order."""
    chance = random.Random(seed)
    values = chance.choice(VALUES)
    records = [chance.choice(kinds)(chance, values) for _ in range(chance.choice([4, 8]))]
    settings = {"key": "id"} if chance.random() < 0.3 else {}
    if chance.random() < 0.5:
        transform = chance.choice(TRANSFORMS)
        settings |= {"transforms": "t"} | {f"transforms.t.{name}": value for name, value in transform.items()}
    alone = outcome(records, range(len(records) + 1), **settings)
    for cuts in ([0, len(records)], sorted({0, len(records), chance.randrange(len(records)), chance.randrange(len(records))})):
        assert outcome(records, cuts, **settings) == alone


def typed(number, kind, value):
    """A row whose column `at` has this type by its schema."""
    fields = [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "at", "type": TIMES[kind][0], "name": kind, "optional": True},
    ]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields, "optional": True}]}
    return {"id": number}, {"schema": schema, "payload": {"op": "c", "after": {"id": number, "at": value}}}


def row(key, **values):
    return key, {"op": "c", "after": values}


def zoned(number, value):
    """A row with a time as text in a column, in a struct and in an array, by its schema."""
    time = {"type": "string", "name": ZONED, "optional": True}
    inner = {"type": "struct", "fields": [{**time, "field": "at"}], "optional": True}
    fields = [
        {"field": "id", "type": "int64", "optional": False},
        {**time, "field": "at"},
        {**inner, "field": "inner"},
        {"type": "array", "items": time, "optional": True, "field": "all"},
    ]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields, "optional": True}]}
    row = {"id": number, "at": value, "inner": {"at": value}, "all": [NEAR, value]}
    return {"id": number}, {"schema": schema, "payload": {"op": "c", "after": row}}


DATE, TIME = "io.debezium.time.Date", "io.debezium.time.MicroTimestamp"
WHERE = {"transforms": "t", "transforms.t.type": "expr", "transforms.t.where": "n IS NULL OR n > 0"}
WITHOUT_M = {"transforms": "t", "transforms.t.type": "ReplaceField$Value", "transforms.t.exclude": "m"}
CASES: dict[str, tuple[list[Record], dict[str, str], tuple[str, ...], list[int]]] = {
    "a column is missing": (
        [row({"id": 1}, id=1, n=1, m=0), row({"id": 2}, id=2, m=0), row({"id": 3}, id=3, n=5, m=0)], WHERE, ("id",), [1],
    ),
    "the first lacks a column": ([row({"id": 2}, id=2), row({"id": 1}, id=1, n=1)], WHERE, ("id",), [0]),
    "a null in front of a value": ([row({"id": 1}, id=1, n=None, a=1), row({"id": 2}, id=2, n=1)], {}, ("id",), []),
    "a column between those of another kind": (
        [row({"id": 1}, id=1, v=1.5), row({"id": 2}, id=2, v=1, n=None, c=1), row({"id": 3}, id=3, n=1)], {}, ("id",), [],
    ),
    "a date behind a time": ([typed(1, TIME, 1_000), typed(2, DATE, 1)], {}, ("id",), []),
    "a time behind a date": ([typed(1, DATE, 1), typed(2, TIME, 1_000), typed(3, DATE, 2)], {}, ("id",), []),
    "a refused record has another key": (
        [row({"id": None, "zz": None}, id=2, n=1), row({"id": 1}, id=1, n=1), row({"id": 1, "zz": 1}, id=1, n=7)], {}, ("id",), [0, 2],
    ),
    "a filtered record has another key": (
        [row({"w": 1}, id=1, w=1, n=0), row({"id": 1}, id=1, n=1), row({"w": 2}, id=2, w=2, n=2)], WHERE, ("id",), [2],
    ),
    "another key behind a transform": (
        [row({"id": 1}, id=1, n=1, m=0), row({"id": 1, "zz": None}, id=1, n=2, m=0), row({"id": 2}, id=2, n=2, m=0)],
        WITHOUT_M, ("id",), [1],
    ),
    "a refused record has a new column": ([row({"id": 1}, id=1), row({"id": None}, id=None, new=1)], {}, ("id",), [1]),
    "a far time beside nanoseconds": ([zoned(1, FAR), zoned(2, FINE), zoned(3, NEAR)], {}, ("id",), []),
    "a bad time beside both": ([zoned(1, FAR), zoned(2, FINE), zoned(3, "bad")], {}, ("id",), [2]),
    "so it has behind a transform": ([row({"id": 1}, id=1, m=0), row({"id": None}, id=None, new=1, m=0)], WITHOUT_M, ("id",), [1]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_rule_for_all_cuts_and_starts(name):
    """Each of these became one thing in one poll, and another in several or behind a start."""
    records, settings, key, refused = CASES[name]
    alone = outcome(records, range(len(records) + 1), **settings)
    assert outcome(records, [0, len(records)], **settings) == alone
    rows, columns, bad = alone
    assert columns[0] == key and "name='new'" not in str(columns)
    times = [dt.datetime.fromtimestamp(number, dt.timezone.utc) for number in range(len(records))]
    assert sorted(bad) == sorted((json.dumps(records[number][1]).encode(), times[number]) for number in refused)
    dropped = sum(one == {"op": "c", "after": {"id": 1, "w": 1, "n": 0}} for _, one in records)
    assert len(rows) == len(records) - len(refused) - dropped
