"""Promises of schema evolution: which changes are allowed, and that rows of every version read under the newest."""

from __future__ import annotations

import datetime as dt
import decimal
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.clock import HandClock
from streamkit.data_type import ARROW_TYPES, to_arrow
from streamkit.errors import SchemaError
from streamkit.log.consume.reader import Reader
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.log.produce import outbox
from streamkit.log.rows import conversion
from streamkit.log.slab.slab import read_frame
from streamkit.log.topic.evolution import check_evolution, is_wider
from streamkit.log.topic.topic import declare_topic
from streamkit.schema import Schema, SchemaColumn
from tests.kit.sampling import examples

pytestmark = pytest.mark.usefixtures("slabs_in_files")

TOPIC = declare_topic("t", "k int, n int, x float NOT NULL, at timestamp", key="k", timestamp="at")
BASE = "k int, n int, x float NOT NULL, at timestamp"
WIDER = {
    ("tinyint", "smallint"), ("tinyint", "int"), ("tinyint", "bigint"), ("smallint", "int"), ("smallint", "bigint"), ("int", "bigint"),
    ("float", "double"), ("date", "timestamp_ntz"),
    ("decimal(10,2)", "decimal(12,2)"), ("decimal(10,2)", "decimal(12,4)"), ("decimal(10,2)", "decimal(38,2)"),
    ("decimal(12,2)", "decimal(38,2)"), ("decimal(12,4)", "decimal(38,4)"), ("decimal(10,2)", "decimal(38,4)"),
}  # fmt: skip
TYPES = (*ARROW_TYPES, "decimal(10,2)", "decimal(12,2)", "decimal(12,4)", "decimal(38,2)", "decimal(38,4)", "decimal(12,1)")


@pytest.mark.parametrize("narrow", TYPES)
def test_wider_types_are_those_of_the_rule(narrow):
    """Each type widens into those that hold all its values by Delta Lake's rule, and into no other."""
    allowed = {wide for wide in TYPES if is_wider(to_arrow(wide), to_arrow(narrow))}

    expected = {wide for source, wide in WIDER if source == narrow}
    if narrow == "decimal(12,1)":
        expected = {"decimal(38,2)", "decimal(38,4)"}
    if narrow == "decimal(12,2)":
        expected |= {"decimal(38,4)"}
    assert allowed == expected


@pytest.mark.parametrize(
    "schema",
    [
        BASE,
        f"{BASE}, note string",
        f"first string, {BASE}",
        "k int, a int, n int, x float NOT NULL, b int, at timestamp",
        "k int, n bigint, x double NOT NULL, at timestamp",
    ],
)
def test_allowed_changes_pass(schema):
    """Columns that may be null can be added anywhere, and types can get wider."""
    check_evolution(TOPIC, Schema.parse(schema))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("k int, x float NOT NULL, at timestamp", "the column 'n' is missing"),
        ("k int, N int, x float NOT NULL, at timestamp", "the column 'n' is missing"),
        ("n int, k int, x float NOT NULL, at timestamp", "change their order"),
        (f"{BASE}, note string NOT NULL", "the new column 'note' is NOT NULL"),
        ("k int, n int NOT NULL, x float NOT NULL, at timestamp", "the column 'n' becomes NOT NULL"),
        ("k int, n int, x float, at timestamp", "the column 'x' stops being NOT NULL"),
        ("k int, n smallint, x float NOT NULL, at timestamp", "the column 'n' is int, and smallint is not wider"),
        ("k int, n string, x float NOT NULL, at timestamp", "the column 'n' is int, and string is not wider"),
        ("k bigint, n int, x float NOT NULL, at timestamp", "'k' is a key column, which keeps its type int"),
        ("k int, n int, x float NOT NULL, at timestamp_ntz", "'at' is the timestamp column, which keeps its type timestamp"),
    ],
)
def test_other_changes_are_refused_with_both_schemas(schema, reason):
    """A change that older rows could not be read under is refused; the message has the reason, the rule and both schemas."""
    with pytest.raises(SchemaError, match=reason) as refusal:
        check_evolution(replace(TOPIC, version=3), Schema.parse(schema))

    assert f"version 3: {BASE}" in str(refusal.value)
    assert f"asked for: {schema}" in str(refusal.value)


STEPS = {
    "tinyint": st.integers(-128, 127), "smallint": st.integers(-(2**15), 2**15 - 1), "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1), "float": st.floats(width=32), "double": st.floats(),
    "date": st.dates(), "timestamp_ntz": st.datetimes(), "string": st.text(st.characters(exclude_categories=["Cs"])),
    "boolean": st.booleans(), "binary": st.binary(),
    "decimal(5,1)": st.decimals(-9999, 9999, places=1), "decimal(9,3)": st.decimals(-999999, 999999, places=3),
    "decimal(38,10)": st.decimals(-(10**20), 10**20, places=10),
}  # fmt: skip


def next_types(name):
    return [name, *(wide for wide in STEPS if is_wider(to_arrow(wide), to_arrow(name)))]


@st.composite
def histories(draw):
    """Schemas of which each may follow the one before, and some rows written under each."""
    columns = [SchemaColumn("k", "string")]
    history: list[tuple[Schema, list[dict[str, object]]]] = []
    for version in range(draw(st.integers(1, 4))):
        if history:
            columns = [
                replace(one, type=draw(st.sampled_from(next_types(one.type)))) if one.name != "k" else one for one in columns
            ]
        for number in range(draw(st.integers(0, 2))):
            place = draw(st.integers(0, len(columns)))
            columns.insert(place, SchemaColumn(f"c{version}_{number}", draw(st.sampled_from(sorted(STEPS)))))
        row = st.fixed_dictionaries({one.name: st.none() | STEPS[one.type] for one in columns})
        history.append((Schema(tuple(columns)), draw(st.lists(row, max_size=3))))
    return history


def as_type(value, type_name):
    """A Python value as it would be of a wider type."""
    if type_name == "timestamp_ntz" and type(value) is dt.date:
        return dt.datetime(value.year, value.month, value.day)
    return value


@examples(60)
@given(histories(), st.sampled_from(["none", "lz4"]))
@example(
    [(Schema.parse("k string, d date"), [{"k": "a", "d": dt.date(1, 1, 1)}]), (Schema.parse("k string, d timestamp_ntz"), [])],
    "none",
)
@example(
    [
        (Schema.parse("k string"), [{"k": "a"}] * 6),
        (Schema.parse("n decimal(9,3), k string"), [{"n": decimal.Decimal("1.5"), "k": "a"}]),
    ],
    "none",
)
def test_rows_of_every_version_read_under_the_newest(history, compression):
    """Whatever versions a topic went through, its rows read as they were written, null in columns that came later."""
    log = open_log(":memory:", HandClock(1))
    log.create_topic("t", history[0][0], key="k", partitions=1, config={"compression.type": compression})
    for schema, rows in history:
        log.alter_topic("t", schema=schema)
        with log.producer() as producer:
            producer.send_batch("t", rows or schema.arrow.empty_table())

    newest = history[-1][0]
    written = [{one.name: as_type(row.get(one.name), one.type) for one in newest} for _, rows in history for row in rows]
    read = log.read("t")
    assert read.schema.names[: len(newest)] == list(newest.names)
    assert read.schema.types[: len(newest)] == newest.arrow.types
    assert comparable(read.select(newest.names).to_pylist()) == comparable(written)
    assert [part["schema"] for part in log.describe("t")["schemas"]] == distinct(str(schema) for schema, _ in history)


def comparable(rows):
    """The rows with NaN equal to itself."""
    return [{name: "NaN" if value != value else value for name, value in row.items()} for row in rows]


def distinct(items):
    """The items without those that equal the one before."""
    items = list(items)
    return [item for number, item in enumerate(items) if not number or item != items[number - 1]]


@pytest.fixture
def log():
    found = open_log(":memory:", HandClock(1))
    found.create_topic("t", "k string, n int", key="k", partitions=1)
    return found


def send(log: Log, *rows):
    with log.producer() as producer:
        producer.send_batch("t", list(rows))


def test_a_reader_that_is_open_leaves_new_columns_alone(log):
    """A reader made before the change gives the columns that it knows."""
    with log.producer() as old:
        old.send("t", {"k": "a", "n": 1})
        old.flush()
        stale = log.topic("t")
        log.alter_topic("t", schema="k string, n int, note string")
        send(log, {"k": "b", "n": 2, "note": "new"})
    assert [
        read_frame(log.storage, extent, ["n"], stale)["n"].to_pylist() for extent in log.catalog.manifest.extents(stale.id, 0)
    ] == [
        [1],
        [2],
    ]
    assert [batch["n"].to_pylist() for batch in Reader(log.storage, log.catalog, stale).batches()] == [[1], [2]]


def test_a_reader_that_is_open_refuses_wider_types(log):
    """A reader made before a type got wider says so, instead of cutting values or calling the file damaged."""
    send(log, {"k": "a", "n": 1})
    stale = log.topic("t")
    log.alter_topic("t", schema="k string, n bigint")
    send(log, {"k": "b", "n": 2**40})

    batches = Reader(log.storage, log.catalog, stale).batches()
    assert next(batches)["n"].to_pylist() == [1]
    with pytest.raises(
        SchemaError, match=r"at offset 1 of partition 0 the column 'n' is bigint, and here it is known as int: .*newer version"
    ):
        next(batches)
    assert log.read("t")["n"].to_pylist() == [1, 2**40]


def test_a_producer_that_is_open_does_no_harm(log):
    """A producer goes on under the schema it knows; its rows read under the new one, beside those of others."""
    with log.producer() as old:
        old.send("t", {"k": "a", "n": 1})
        log.alter_topic("t", partitions=2, schema="note string, k string, n bigint")
        send(log, {"note": "x", "k": "b", "n": 2**40})
        old.send("t", {"k": "c", "n": 3})
        old.flush()
        with pytest.raises(SchemaError, match="unknown column 'note'"):
            old.send("t", {"note": "y", "k": "d", "n": 4})

    read = log.read("t")
    rows = sorted(zip(read["k"].to_pylist(), read["n"].to_pylist(), read["note"].to_pylist()))
    assert rows == [("a", 1, None), ("b", 2**40, "x"), ("c", 3, None)]


def test_rows_of_two_versions_leave_in_one_commit(log):
    """A producer that learns of a new schema while rows of the old one wait commits both, in order, each with the offset it was told."""
    with log.producer("p") as producer:
        old = [producer.send("t", {"k": "a", "n": 0}), producer.send_batch("t", [{"k": "a", "n": 1}], sequence=7)]
        log.alter_topic("t", partitions=2, schema="note string, k string, n bigint")
        producer._readers.clear()  # as a commit does when five minutes have passed, while the next draft gathers
        new = [producer.send("t", {"note": "x", "k": "a", "n": 2**40}), producer.delete("t", {"k": "b"})]
        new += [producer.send_batch("t", [{"note": None, "k": "a", "n": 3, "_headers": [("h", b"v")]}], sequence=8)]
        producer.flush()
        again = [producer.send_batch("t", [{"note": None, "k": "a", "n": number}], sequence=number) for number in (7, 8)]

    rows = {(row["_partition"], row["_offset"]): (row["note"], row["n"]) for row in log.read("t").to_pylist()}
    places = [(partition, first) for receipt in old + new for partition, (first, _) in receipt.offsets.items()]
    assert [rows[place] for place in places] == [(None, 0), (None, 1), ("x", 2**40), (None, None), (None, 3)]
    assert len(rows) == 5 and len(log.storage.list("slabs")) == 1
    assert [receipt.offsets for receipt in again] == [old[1].offsets, new[2].offsets]


def test_what_gathers_while_an_older_commit_leaves_may_be_of_two_versions(log, monkeypatch):
    """A type that gets wider while threads send loses none of their rows, however often the producer looks."""
    monkeypatch.setattr(outbox, "METADATA_MAX_AGE_SECONDS", 0.0)
    log.create_topic("w", "id tinyint, s string", partitions=1)
    receipts, is_over = [], threading.Event()

    def send_on(producer):
        while not is_over.is_set():
            receipts.append(producer.send("w", {"id": 1, "s": "x"}))

    with log.producer(linger_ms=1) as producer:
        threads = [threading.Thread(target=send_on, args=(producer,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for kind in ("smallint", "int", "bigint"):
            time.sleep(0.05)
            log.alter_topic("w", schema=f"id {kind}, s string")
        is_over.set()
        for thread in threads:
            thread.join(60)
    assert [receipt.error for receipt in receipts if receipt.error is not None] == []
    assert log.end_offsets("w") == {0: len(receipts)}


@pytest.mark.parametrize("sent", ["row", "batch"])
def test_rows_by_an_older_declaration_may_follow_those_by_a_newer_one(log, sent):
    """A thread that had the topic in hand before its type got wider, and adds its row after another thread's."""
    log.create_topic("w", "id tinyint", partitions=1)
    with log.producer() as producer:
        send = producer.send if sent == "row" else lambda topic, row: producer.send_batch(topic, [row])
        send("w", {"id": 1})
        older = dict(producer._readers)
        log.alter_topic("w", schema="id smallint")
        producer.refresh("w")
        send("w", {"id": 300})
        producer._readers.update(older)
        send("w", {"id": 2})
    assert log.read("w")["id"].to_pylist() == [1, 300, 2]


def test_a_date_too_far_for_the_wider_type_is_an_error(log, monkeypatch):
    """A date that no timestamp can hold, where one was taken before they were refused, is named when it is read, not turned into another."""
    monkeypatch.setattr(conversion, "DAYS_MAX", 1 << 31)
    log.create_topic("dates", "d date", partitions=1)
    with log.producer() as producer:
        producer.send_batch("dates", pa.table({"d": pa.array([2**31 - 1], pa.int32()).view(pa.date32())}))
    log.alter_topic("dates", schema="d timestamp_ntz")

    with pytest.raises(SchemaError, match=r"date32.* does not fit in timestamp"):
        log.read("dates")
