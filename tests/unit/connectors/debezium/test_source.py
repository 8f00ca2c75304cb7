"""Debezium's envelopes as table changes: the contract, what a real Debezium wrote, keys, types, and records that are refused."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import confluent_kafka as kafka
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.debezium import DebeziumSource
from streamkit.connectors.debezium.avro_connect_schema import connect_schema
from streamkit.connectors.debezium.changes import PolledChanges
from streamkit.connectors.debezium.connect_type import connect_type
from streamkit.connectors.debezium.unavailable_value import UnavailableValue
from streamkit.errors import ConfigError, OffsetOutOfRangeError, SchemaError
from streamkit.formats.registry import Registry as Client
from streamkit.formats.wire import header
from tests.kit.sampling import TAKES_ALL
from tests.unit.connectors.contract import SourceContract
from tests.unit.connectors.debezium.recording import AVRO, FILE, MODES, TABLES, record, schema_id

UTC = dt.timezone.utc
INT8 = {"fields": [{"field": "after", "type": "struct", "fields": [{"field": "id", "type": "int8"}]}]}


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log" if TAKES_ALL else ":memory:") as log:
        yield log


@pytest.fixture(scope="module")
def recorded():
    """What Debezium 3.6.1 wrote; `python -m tests.unit.connectors.debezium.recording` asks it again."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def fill(log, topic, records):
    """Records of JSON as texts, or of Avro as bytes, into a topic of bytes."""
    if topic not in log.topics():
        log.create_topic(topic, format="bytes", partitions=1)
    with log.producer() as producer:
        for one in records:
            key, value = (text.encode() if isinstance(text, str) else text for text in (one["key"], one["value"]))
            producer.send(topic, {"key": key, "value": value, **({"_deleted": True} if value is None else {})})


def source(**settings):
    return DebeziumSource("in", {"source.topic": "raw", "topic": "rows"}, **settings)


def bring(log, records, **settings):
    fill(log, "raw", records)
    run([source(**settings)], log, once=True)


def found(log):
    names = [*log.topic("rows").schema.names, "_deleted"]
    return [tuple(row[name] for name in names) for row in log.read("rows", columns=names).to_pylist()]


def by_key(log):
    """What happened to each key, in its order: the key is the first column."""
    changes: dict[object, list[object]] = {}
    for key, *values, is_deleted in found(log):
        changes.setdefault(key, []).append(None if is_deleted else tuple(values))
    return changes


def envelope(op, before=None, after=None, key=None, ts_ms=5):
    return {
        "key": None if key is None else json.dumps(key),
        "value": json.dumps({"op": op, "before": before, "after": after, "source": {"ts_ms": ts_ms}}),
    }


class TestContract(SourceContract):
    """A topic of the log with envelopes."""

    def source(self, **settings):
        return DebeziumSource("in", {"source.topic": "raw", "topic": "numbers", **settings})

    @pytest.fixture(autouse=True)
    def _log(self, log):
        self.log = log

    def add(self, first, count):
        rows = [{"n": n, "text": f"text {n}"} for n in range(first, first + count)]
        fill(self.log, "raw", [envelope("c", after=row, key={"n": row["n"]}) for row in rows])

    def make_again(self):
        log: Any = self.log
        log.delete_topic("raw")
        return True

    def fill_other(self, other):
        self.log = other
        self.add(0, 4)

    def expected(self, first, count):
        return [(n, f"text {n}") for n in range(first, first + count)]

    def found(self, log):
        return [(row["n"], row["text"]) for row in log.read("numbers").to_pylist()]


def check_people(log, recorded, mode, **settings):
    """Rows of a snapshot, insertions, updates, a change of key and a deletion, as Debezium says them."""
    bring(log, recorded[mode]["public.people"], **settings)
    numbers = (
        [Decimal("10.50"), Decimal("-3.00"), Decimal("0.00"), Decimal("1.00")]
        if mode != "plain"
        else ["BBo=", "/tQ=", "AA==", "ZA=="]
    )
    ada, bob, cleo, last = numbers
    assert log.topic("rows").key == ("id",)
    assert by_key(log) == {
        1: [("Ada", ada), ("Ada L.", ada)], 2: [("Bob", bob), None], 20: [("Bob", bob)], 3: [("Cleo", cleo), None], 99: [("last", last)],
    }  # fmt: skip


def check_whole(log, recorded, mode, **settings):
    """The same under REPLICA IDENTITY FULL, behind which the table was truncated."""
    with pytest.raises(ConfigError, match=r"topic raw, partition 0, offset 5: TRUNCATE emptied the table.*truncate\.mode=skip"):
        bring(log, recorded[mode]["public.whole"], **settings)
    run([source(truncate_mode="skip", **settings)], log, once=True)
    assert by_key(log) == {1: [("a",), ("c",)], 2: [("b",), None]}


def check_kinds(log, recorded, mode="wrapped", **settings):
    """Each type of Connect and of Debezium is a column of its own kind."""
    bring(log, recorded[mode]["public.kinds"], **settings)
    row, empty = sorted(found(log))
    names = log.topic("rows").schema.names
    assert dict(zip(names, row, strict=False)) == {
        "id": 1, "b": True, "s": -2, "f": 1.5, "d": 0.1, "n": Decimal("1234.5678"), "anything": Decimal("12.5"), "t": "ä", "raw": b"\0\xff",
        "day": dt.date(2020, 2, 29), "at": dt.datetime(2020, 1, 1, 12, 0, 0, 1), "instant": dt.datetime(2020, 1, 1, 10, 0, 0, 5, UTC),
        "clock": "13:14:15.000016", "span": 93_600_000_000, "id2": "6b9e1c1c-3c3a-4c3e-9d4e-0123456789ab", "doc": '{"a": [1, 2.5]}',
        "tags": ["x", None], "ms": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    }  # fmt: skip
    assert empty == (2, *[None] * (len(names) - 1), False)
    types = {column.name: column.type for column in log.topic("rows").schema}
    assert (types["n"], types["anything"], types["s"], types["f"]) == ("decimal(20,4)", "decimal(38,18)", "smallint", "float")


@pytest.fixture
def in_avro(recorded, registry):
    """What Debezium wrote as Avro, with the ids that its schemas have in the registry here; and the settings that read it."""
    return readable(recorded, registry), {"value_format": "avro", "schema_registry_url": registry.url}


def readable(found, registry):
    """The records of Avro as bytes, their schemas registered."""
    client = Client({"schema.registry.url": registry.url})
    ids = {int(one): client.id_of(f"debezium-{one}", "AVRO", text, True) for one, text in found["schemas"].items()}

    def moved(text):
        if text is None:
            return None
        record = base64.b64decode(text)
        return header(ids[schema_id(record)]) + record[5:]

    tables = {
        name: [one | {part: moved(one[part]) for part in ("key", "value")} for one in records]
        for name, records in found[AVRO].items()
    }
    return {AVRO: tables}


@pytest.mark.parametrize("mode", MODES)
def test_people(log, recorded, mode):
    """What Debezium writes of a table's life is that table, with schemas and without."""
    check_people(log, recorded, mode)


@pytest.mark.parametrize("mode", MODES)
def test_whole_rows_and_truncation(log, recorded, mode):
    """A truncation stops the task, unless it is to be skipped."""
    check_whole(log, recorded, mode)


def test_kinds(log, recorded):
    """Types come from the schema in the record."""
    check_kinds(log, recorded)


def test_messages_are_no_rows(log, recorded, caplog):
    """A message of an application is said, and is no row."""
    caplog.set_level("INFO")
    bring(log, recorded["plain"]["message"])
    assert "rows" not in log.topics()
    assert "topic raw has a message of an application" in caplog.text


@pytest.mark.foreign("registry")
def test_avro(in_avro, tmp_path):
    """Envelopes as Avro are the same rows of the same types as those as JSON with schemas."""
    found, settings = in_avro
    for number, check in enumerate((check_people, check_whole, check_kinds)):
        with sk.open_log(tmp_path / str(number)) as log:
            check(log, found, AVRO, **settings)


@pytest.mark.foreign("registry")
def test_avro_that_is_refused(log, in_avro):
    """Other bytes, an unknown schema, a value cut short or too long is refused with its place; or it is a dead letter."""
    found, settings = in_avro
    good = found[AVRO]["public.people"][0]
    value = good["value"]
    for bad, message in (
        (b"{}", "expected a zero byte, a schema id"),
        (header(999_999) + value[5:], "does not have schema id 999999"),
        (value[:-3], r"schema id \d+: the value is not of that Avro schema"),
        (value + b"x", r"schema id \d+: the value is not of that Avro schema"),
        (good["key"], "expected Debezium's envelope"),
    ):
        if "raw" in log.topics():
            log.delete_topic("raw")
        fill(log, "raw", [{"key": good["key"], "value": bad}])
        with pytest.raises(SchemaError, match=rf"topic raw, partition 0, offset 0: .*{message}"):
            run([DebeziumSource(f"in-{len(bad)}", {"source.topic": "raw", "topic": "rows"}, **settings)], log, once=True)
    fill(log, "raw", [good])
    run([source(errors_tolerance="all", errors_deadletterqueue_topic_name="bad", **settings)], log, once=True)
    assert list(by_key(log)) == [1]
    assert len(log.read("bad").to_pylist()) == 1


@pytest.mark.foreign("registry")
def test_avro_with_keys_of_json(log, in_avro):
    """Keys may be of another format than values."""
    found, settings = in_avro
    row = found[AVRO]["public.people"][0] | {"key": '{"id": 1}'}
    bring(log, [row], key_format="json", **settings)
    assert log.topic("rows").key == ("id",)
    assert by_key(log) == {1: [("Ada", Decimal("10.50"))]}


def test_avro_types():
    """Avro's own logical types, maps, records and enums are columns of their kind; what Connect has no type of is refused."""

    def read(kind, value):
        types = connect_type(connect_schema(json.dumps(kind)))
        return types.read([value, None]).to_pylist()

    def kind(physical, logical):
        return {"type": physical, "logicalType": logical}

    assert read(kind("int", "date"), 1) == [dt.date(1970, 1, 2), None]
    assert read(kind("int", "time-millis"), 1) == ["00:00:00.001", None]
    assert read(kind("long", "timestamp-millis"), 1) == [dt.datetime(1970, 1, 1, 0, 0, 0, 1000, UTC), None]
    assert read(kind("long", "timestamp-micros"), 1) == [dt.datetime(1970, 1, 1, 0, 0, 0, 1, UTC), None]
    assert read(kind("long", "local-timestamp-micros"), 1) == [dt.datetime(1970, 1, 1, 0, 0, 0, 1), None]
    assert read(kind("bytes", "decimal") | {"precision": 4, "scale": 2}, b"\xff\x00") == [Decimal("-2.56"), None]
    any_precision = {"precision": 64, "scale": 2, "connect.parameters": {"scale": "2"}}
    assert connect_type(connect_schema(json.dumps(kind("bytes", "decimal") | any_precision))).arrow == pa.decimal128(38, 2)
    assert read({"type": "enum", "name": "e", "symbols": ["a"]}, "a") == ["a", None]
    assert read({"type": "map", "values": "long"}, {"x": 1}) == [[("x", 1)], None]
    point = {"type": "record", "name": "point", "fields": [{"name": "x", "type": ["null", "double"]}]}
    assert read({"type": "array", "items": point}, [{"x": 1.5}, {"x": None}]) == [[{"x": 1.5}, {"x": None}], None]
    assert connect_type(connect_schema(json.dumps({"type": "int", "connect.type": "int8"}))).arrow == pa.int8()
    itself = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    for schema, message in (
        (itself, "node contains itself"),
        (["int", "string"], "a union of int, string .*KafkaSource with value.format=avro"),
        ("null", "null alone"),
    ):
        with pytest.raises(SchemaError, match=message):
            connect_schema(json.dumps(schema))


@pytest.mark.skipif(not TAKES_ALL, reason="starts a broker, PostgreSQL and Kafka Connect: make torture")
@pytest.mark.foreign("registry")
def test_debezium_itself(tmp_path, registry):
    """A Debezium that runs now writes what the recorded one wrote."""
    now = record()
    if now is None:
        pytest.skip("Debezium cannot be had here")
    settings = {"value_format": "avro", "schema_registry_url": registry.url}
    for number, check in enumerate(
        [*(lambda log, mode=mode: check_people(log, now, mode) for mode in MODES),
         *(lambda log, mode=mode: check_whole(log, now, mode) for mode in MODES),
         lambda log: check_kinds(log, now),
         *(lambda log, check=check: check(log, readable(now, registry), AVRO, **settings) for check in (check_people, check_whole, check_kinds))]
    ):  # fmt: skip
        with sk.open_log(tmp_path / str(number)) as log:
            check(log)
    assert {name for mode in MODES for name in now[mode]} == {*(f"public.{table}" for table in TABLES), "message"}


def test_columns_that_come(log):
    """A column that later envelopes have is added; a number that gets wider schemas widens it."""

    def wrapped(row, **types):
        fields = [{"field": name, "type": kind, "optional": True} for name, kind in types.items()]
        schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
        return {
            "key": json.dumps({"id": row["id"]}),
            "value": json.dumps({"schema": schema, "payload": {"op": "c", "before": None, "after": row}}),
        }

    first = wrapped({"id": 1, "age": 1}, id="int32", age="int16")
    bring(log, [first, wrapped({"id": 2, "age": 1 << 40, "name": "x"}, id="int32", age="int64", name="string")])
    assert str(log.topic("rows").schema) == "id int NOT NULL, age bigint, name string"
    assert sorted(found(log)) == [(1, 1, None, False), (2, 1 << 40, "x", False)]


@pytest.mark.parametrize("is_together", [True, False])
def test_types_that_values_say(log, is_together):
    """Without a schema the first value says a column's type, and one of another type is refused, however the records are cut into polls."""
    for row in (
        {"id": 1, "n": 1},
        {"id": 2, "n": None},
        {"id": 3, "n": 1.5},
        {"id": 4, "n": "x"},
        {"id": 5, "n": 2, "more": 1},
    ):
        fill(log, "raw", [envelope("c", after=row, key={"id": row["id"]})])
        if not is_together:
            run([source(errors_tolerance="all")], log, once=True)
    run([source(errors_tolerance="all")], log, once=True)
    assert str(log.topic("rows").schema) == "id bigint NOT NULL, n bigint, more bigint"
    assert sorted(found(log)) == [(1, 1, None, False), (2, None, None, False), (5, 2, 1, False)]


def test_rows_without_their_key_go_together(log):
    """Rows whose schema lacks the key's columns have those of the key, and are made a table at once, not one by one."""
    key_schema = {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}
    row_schema = {"type": "struct", "field": "after", "fields": [{"field": "name", "type": "string"}]}
    fill(
        log,
        "raw",
        [
            {
                "key": json.dumps({"schema": key_schema, "payload": {"id": n}}),
                "value": json.dumps({"schema": {"fields": [row_schema]}, "payload": {"op": "c", "after": {"name": f"n{n}"}}}),
            }
            for n in range(20)
        ],
    )
    one = source()
    one.use(log)
    one.open(dict.fromkeys(one.splits()))
    polled = one.poll(1.0)
    one.close()
    assert polled is not None
    changes = polled.tables["rows"]
    assert isinstance(changes, PolledChanges)
    (rows,) = changes.read(0, changes.count).tables
    assert rows.select(["id", "name"]).to_pylist() == [{"id": n, "name": f"n{n}"} for n in range(20)]
    assert rows.schema.field("id").type == pa.int32() and rows["id"].num_chunks == 1


def test_records_without_a_key(log):
    """Rows without a key come; a deletion needs one, which the setting may name."""
    bring(log, [envelope("c", after={"id": 1, "v": "a"})])
    assert log.topic("rows").key == ()
    with pytest.raises(SchemaError, match=r"topic raw, partition 0, offset 1: found a deletion .* without a key"):
        bring(log, [envelope("d", before={"id": 1, "v": "a"})])
    log.delete_topic("rows")
    run([DebeziumSource("other", {"source.topic": "raw", "topic": "rows", "key": "id"})], log, once=True)
    assert by_key(log) == {1: [("a",), None]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "which is no JSON"),
        ('{"id": 1}', "found an object with id; expected Debezium's envelope.*KafkaSource"),
        ('{"op": "x"}', "found op='x'; expected one of c, r, u, d, t, m"),
        ('{"op": "u", "after": null}', "expected the row after the change"),
        (
            '{"op": "u", "after": {"id": 1, "v": "__debezium_unavailable_value"}}',
            "leaves out the large value of v.*REPLICA IDENTITY FULL",
        ),
        (
            json.dumps({"schema": INT8, "payload": {"op": "c", "after": {"id": 300}}}),
            "column 'id': 300: found a value that does not fit in int8",
        ),
        (json.dumps({"schema": INT8, "payload": {"op": "c", "after": {"id": 1.5}}}), "found 1.5, expected a whole number"),
        ('{"op": "c", "after": {"id": 1, "v": 1, "v": 2}}', "found the name 'v' twice"),
        ('{"op": "c", "after": {"id": 1, "v": 1e400}}', "found 1e400, which is beyond the greatest double"),
        ('{"op": "c", "after": {"id": 1, "v": NaN}}', "found NaN, which is no number of JSON"),
        ('{"op": "c", "after": "{\\"id\\": 1, \\"id\\": 2}"}', "found the name 'id' twice"),
    ],
)
def test_records_that_are_refused(log, value, message):
    """A record that is no change of a row is named with its place; or it is a dead letter, and the others come."""
    good = envelope("c", after={"id": 7}, key={"id": 7})
    key = None if "int8" in value else '{"id": 1}'  # the row's is another one there
    fill(log, "raw", [good, {"key": key, "value": value}, good])
    with pytest.raises(SchemaError, match=rf"topic raw, partition 0, offset 1: .*{message}"):
        run([source()], log, once=True)
    run([source(errors_tolerance="all", errors_deadletterqueue_topic_name="bad")], log, once=True)
    assert by_key(log) == {7: [(), ()]}
    assert letters(log) == [(key, value)]


def letters(log):
    """The keys and the values of the dead letters."""
    return [(row["key"] and row["key"].decode(), row["value"].decode()) for row in log.read("bad").to_pylist()]


@pytest.mark.parametrize(
    "transforms", [{}, {"transforms": "t", "transforms.t.type": "expr", "transforms.t.select": "*, v + 1 AS w"}]
)
def test_a_dead_letter_is_the_record(log, transforms):
    """It has the key and the value as they were, wherever the record failed; a deletion too, whose row is nothing."""
    good = envelope("c", after={"id": 1, "v": 1}, key={"id": 1})
    bad = [
        envelope("u", after={"id": 2, "v": "text"}, key={"id": 2}),  # does not fit the topic
        envelope("d", key={"id": "x"}),
        envelope("d", key={"id": None}),
        envelope("c", after={"id": 3, "v": 1}, key={"id": 4}),
    ]
    fill(log, "raw", [good, *bad, good])
    fill(log, "bad", [])
    config = {"source.topic": "raw", "topic": "rows", "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
    run([DebeziumSource("in", {**config, **transforms})], log, once=True)
    assert letters(log) == [(one["key"], one["value"]) for one in bad]
    places = [
        pair["value"] for row in log.read("bad", ["_headers"]).to_pylist() for pair in row["_headers"] if ".offset" in pair["key"]
    ]
    assert places == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    "transforms", [{}, {"transforms": "t", "transforms.t.type": "expr", "transforms.t.select": "*, v + 1 AS w"}]
)
@pytest.mark.parametrize("far_ms", [2**62, -(2**62)])
def test_a_dead_letter_has_the_time_of_the_record(log, caplog, transforms, far_ms):
    """That of the change if the envelope says it, else that of the record, wherever it failed; one that no topic takes is in a header."""
    bad = [
        ({"key": '{"id": 2}', "value": "{"}, 1_000),
        ({"key": '{"id": 2}', "value": '{"op": "zz", "source": {"ts_ms": 5}}'}, 2_000),
        (envelope("c", after={"id": 2, "v": "text"}, key={"id": 2}, ts_ms=7_000), 7_000),  # does not fit the topic
        (envelope("d", before={"v": 1}, ts_ms=8_000), 8_000),
        (envelope("d", before={"v": 1}, ts_ms=far_ms), None),
    ]
    good = envelope("c", after={"id": 1, "v": 1}, key={"id": 1}, ts_ms=9_000)
    for name in ("raw", "bad"):
        log.create_topic(name, format="bytes", partitions=1)
    with log.producer() as producer:
        for number, one in enumerate([good, *(one for one, _ in bad)]):
            record = {name: text and text.encode() for name, text in one.items()}
            producer.send("raw", record, timestamp_ms=1_000 * number)
    logged = {"errors.log.enable": "true", "errors.log.include.messages": "true"}
    errors = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
    config = {"source.topic": "raw", "topic": "rows", **errors, **logged}
    run([DebeziumSource("in", {**config, **transforms})], log, once=True)
    found = log.read("bad", ["value", "_timestamp", "_headers"]).to_pylist()
    assert [row["value"].decode() for row in found] == [one["value"] for one, _ in bad]
    assert [row["_timestamp"].timestamp() * 1_000 for row in found[:-1]] == [time_ms for _, time_ms in bad[:-1]]
    assert [pair["key"] for pair in found[-1]["_headers"]][-1] == "__connect.errors.timestamp"
    assert "timestamp=1970-01-01 00:00:01+00:00" in caplog.text


def with_schema(row, *fields):
    """A creation whose row has these fields, as the JSON converter writes it."""
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    payload = {"op": "c", "before": None, "after": row}
    return {"key": json.dumps({"id": row["id"]}), "value": json.dumps({"schema": schema, "payload": payload})}


ID = {"field": "id", "type": "int32", "optional": False}
MUST = {"field": "v", "type": "int32", "optional": False}
ITEM, TEXT = {"type": "int32", "optional": False}, {"type": "string", "optional": False}
MAY = {"field": "v", "type": "string", "optional": True}


@pytest.mark.parametrize(
    ("row", "field", "expected"),
    [
        ({"v": 1}, {**MUST, "default": 5}, 1),
        ({"v": None}, {**MUST, "default": 5}, 5),
        ({}, {**MUST, "default": 5}, 5),
        ({"v": None}, {**MAY, "default": "d"}, None),
        ({}, {**MAY, "default": "d"}, "d"),
        ({}, MAY, None),
        (
            {},
            {"field": "v", "type": "int32", "name": "io.debezium.time.Date", "default": 1, "optional": False},
            dt.date(1970, 1, 2),
        ),
        ({"v": {}}, {"field": "v", "type": "struct", "optional": True, "fields": [{**MUST, "default": 7}]}, {"v": 7}),
        ({"v": None}, {"field": "v", "type": "struct", "optional": True, "fields": [MUST]}, None),
        ({"v": [1, None]}, {"field": "v", "type": "array", "items": {**ITEM, "default": 7}}, [1, 7]),
        ({"v": [None]}, {"field": "v", "type": "array", "items": {**ITEM, "optional": True, "default": 7}}, [None]),
        ({"v": {"a": None}}, {"field": "v", "type": "map", "keys": TEXT, "values": {**ITEM, "default": 7}}, {"a": 7}),
    ],
)
def test_defaults_of_a_schema(log, row, field, expected):
    """A field without a value has its schema's default; a null that the schema allows stays one."""
    bring(log, [with_schema({"id": 1, **row}, ID, field)])
    (found_row,) = log.decode("rows", log.read("rows"))
    assert found_row["v"] == expected


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"v": None}, MUST),
        ({}, MUST),
        ({"v": {"v": None}}, {"field": "v", "type": "struct", "optional": True, "fields": [MUST]}),
    ],
)
def test_no_value_where_there_has_to_be_one(log, row, field):
    """A null in a field that its schema calls optional=false is refused, or a dead letter."""
    records = [with_schema({"id": 1, **row}, ID, field), with_schema({"id": 2, "v": None}, ID, {**field, "optional": True})]
    with pytest.raises(SchemaError, match=r"offset 0: .*column 'v' is (null|missing), and its schema says optional=false"):
        bring(log, records)
    run([source(errors_tolerance="all")], log, once=True)
    assert log.read("rows")["id"].to_pylist() == [2]


MADE: dict[str, tuple[Any, Any]] = {  # a schema and a value of it
    "int32": ({"type": "int32"}, 1),
    "double": ({"type": "double"}, 1.5),
    "boolean": ({"type": "boolean"}, True),
    "string": ({"type": "string"}, "x"),
    "bytes": ({"type": "bytes"}, "AQ=="),
    "Date": ({"type": "int32", "name": "io.debezium.time.Date"}, 1),
    "Time": ({"type": "int32", "name": "io.debezium.time.Time"}, 1),
    "MicroTimestamp": ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, 1),
    "ZonedTimestamp": ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "2020-01-01T00:00:00Z"),
    "Json": ({"type": "string", "name": "io.debezium.data.Json"}, "{}"),
    "Decimal": (
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "0", "connect.decimal.precision": "9"},
        },
        "AQ==",
    ),
    "array": ({"type": "array", "items": {"type": "int32", "optional": True}}, [None]),
    "map": ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int32", "optional": True}}, {"a": None}),
    "struct": ({"type": "struct", "fields": [{"field": "f", "type": "int32", "optional": True}]}, {"f": None}),
}
HOLDERS: dict[str, Any] = {  # a type that has another within, its value with one of that
    "array": (lambda inner: {"type": "array", "items": inner}, lambda value: [value]),
    "map": (lambda inner: {"type": "map", "keys": TEXT, "values": inner}, lambda value: {"a": value}),
    "struct": (lambda inner: {"type": "struct", "fields": [{**inner, "field": "g"}]}, lambda value: {"g": value}),
    "array of arrays": (
        lambda inner: {"type": "array", "items": {"type": "array", "items": inner}},
        lambda value: [[], [value]],
    ),
    "map of structs": (
        lambda inner: {"type": "map", "keys": TEXT, "values": {"type": "struct", "fields": [{**inner, "field": "g"}]}},
        lambda value: {"a": {"g": value}},
    ),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", MADE)
def test_a_null_within_another_value(name, holder):
    """Whatever holds it: a null stays one where the schema allows it, and is refused where it says optional=false."""
    (inner, sound), (schema, value) = MADE[name], HOLDERS[holder]
    for is_optional in (False, True):
        kind = connect_type(schema({**inner, "optional": is_optional}))
        (read,) = kind.read([value(sound)]).to_pylist()
        if is_optional:
            assert kind.read([value(None), value(sound), None]).to_pylist()[1:] == [read, None]
        else:
            with pytest.raises(SchemaError, match="says optional=false; expected a value"):
                kind.read([value(sound), value(None)])


FAR = [
    ({"type": "int32", "name": "io.debezium.time.Date"}, 2_932_897),
    ({"type": "int64", "name": "io.debezium.time.Timestamp"}, 253_402_300_800_000),
    ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, -(2**62)),
    ({"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, 2**52),
]


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize(("inner", "value"), FAR, ids=lambda one: str(one)[-20:])
def test_a_time_beyond_those_of_python_within_another_value(inner, value, holder):
    """Whatever holds it: a date behind the year 9999 is taken as in a column, and so are a null, an empty map and one behind it."""
    schema, around = HOLDERS[holder]
    kind = connect_type(schema({**inner, "optional": True}))
    empty: Any = {} if holder.startswith("map") else None
    found = kind.read([around(value), None, empty, around(0)])
    (wanted,) = connect_type(inner).read([value])

    while pa.types.is_nested(found.type):
        found = (
            found.values.field("value")
            if pa.types.is_map(found.type)
            else found.flatten()[0]
            if pa.types.is_struct(found.type)
            else found.flatten()
        )
    assert (
        found.drop_null()[0] == wanted
        and found.drop_null()[1].cast(pa.int32() if pa.types.is_date(found.type) else pa.int64()).as_py() == 0
    )


@pytest.mark.parametrize(
    ("op", "row"),
    [
        ("c", {"after": {"id": 1, "v": 5}}),
        ("c", {"after": {"id": None, "v": 5}}),
        ("c", {"after": {"id": True, "v": 5}}),
        ("d", {"before": {"id": 1}}),
    ],
)
@pytest.mark.parametrize("key", [2, None])
def test_a_key_that_is_not_the_rows(log, op, row, key):
    """It is refused: the row would be under one key, and its deletion under the other; null is another value than any."""
    of_row = (row.get("after") or row["before"])["id"]
    if of_row is None and key is None:
        return
    record = envelope(op, **row, key={"id": key})
    with pytest.raises(SchemaError, match=f"the record's key has id={key}, and the row has id={of_row}; expected the same"):
        bring(log, [envelope("c", after={"id": 2, "v": 1}, key={"id": 2}), record])


@pytest.mark.parametrize("payload", [{"id": None}, {"w": 1}])
def test_a_null_in_a_key_that_has_to_have_a_value(log, payload):
    """The schema of a key is as good as a row's: a null is refused where it says optional=false, a deletion's too."""
    schema = {"type": "struct", "fields": [ID]}
    for value in ({"op": "c", "after": {"id": 1}}, {"op": "d", "before": None}):
        bad = {"key": json.dumps({"schema": schema, "payload": payload}), "value": json.dumps(value)}
        with pytest.raises(SchemaError, match=r"column 'id' is (null|missing), and its schema says optional=false"):
            bring(log, [bad])
    by_default = {"key": json.dumps({"schema": {**schema, "fields": [{**ID, "default": 1}]}, "payload": payload})}
    run([source(errors_tolerance="all")], log, once=True)
    fill(log, "raw", [by_default | {"value": json.dumps({"op": "c", "after": {"id": 1, "v": "a"}})}])
    run([source(errors_tolerance="all")], log, once=True)
    assert [row["id"] for row in log.read("rows").to_pylist()] == [1]


def test_a_fraction_behind_whole_numbers(log):
    """Without schemas the first rows say the types; the error says how to have a column of both, and with that no order matters."""
    fractions = [envelope("c", after={"id": n, "price": price}, key={"id": n}) for n, price in enumerate((1, 1.5, 2))]
    bring(log, fractions[:1])
    with pytest.raises(SchemaError, match=r"found 1\.5 .*created with topic\.schema='id bigint NOT NULL, price double'"):
        bring(log, fractions[1:])
    for name, order in (("up", fractions), ("down", fractions[::-1])):
        for one in order:
            fill(log, f"raw_{name}", [one])
            config = {
                "source.topic": f"raw_{name}",
                "topic": name,
                "topic.schema": "id bigint NOT NULL, price double",
                "key": "id",
            }
            run([DebeziumSource(name, config)], log, once=True)
        assert sorted(log.read(name)["price"].to_pylist()) == [1.0, 1.5, 2.0]


def test_records_that_retention_has_removed(log):
    """A position whose records are gone is an error, not a gap."""
    bring(log, [envelope("c", after={"id": 1}, key={"id": 1})])
    fill(log, "raw", [envelope("c", after={"id": n}, key={"id": n}) for n in (2, 3)])
    log.delete_records("raw", before=2)
    with pytest.raises(OffsetOutOfRangeError, match="raw"):
        run([source()], log, once=True)


def test_settings_that_do_not_go_together():
    """Records come from Kafka or from the log, and rows go elsewhere."""
    for config, message in (
        ({}, "needs kafka.topic or source.topic"),
        ({"kafka.topic": "a"}, "needs bootstrap.servers"),
        ({"source.topic": "a"}, r"would write into a, which it reads; expected another topic"),
        ({"source.topic": "a", "topic": "b", "value.format": "csv"}, "value.format='csv'; expected json or avro"),
        ({"source.topic": "a", "topic": "b", "key.format": "string"}, "key.format='string'; expected json or avro"),
        ({"source.topic": "a", "topic": "b", "value.format": "avro"}, "without schema.registry.url"),
        ({"source.topic": "a", "topic": "b", "schema.registry.url": "http://x"}, "expected both avro and schema.registry.url"),
    ):
        with pytest.raises(ConfigError, match=message):
            DebeziumSource("in", config)


@pytest.mark.foreign("kafka")
def test_from_kafka(broker, log, recorded):
    """Envelopes of a topic of Kafka come as rows, into as many partitions, each key's in its order."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic("db.public.people", 2, 1)])["db.public.people"].result(30)
    producer = kafka.Producer({"bootstrap.servers": broker.address, "linger.ms": 1})
    for one in recorded["wrapped"]["public.people"]:
        producer.produce("db.public.people", key=one["key"], value=one["value"])
    assert producer.flush(30) == 0
    for _ in range(2):
        run(
            [DebeziumSource("in", bootstrap_servers=broker.address, kafka_topic="db.public.people", topic="rows")], log, once=True
        )
    assert log.topic("rows").partitions == 2
    assert {key: len(changes) for key, changes in by_key(log).items()} == {1: 2, 2: 2, 20: 1, 3: 2, 99: 1}


def test_rows_that_nobody_changes_stay(log):
    """The topic of rows with a key is compacted and has no retention; that of rows without one keeps all."""
    bring(log, [envelope("c", after={"id": 1, "v": "a"}, key={"id": 1})])
    topic = log.topic("rows")
    assert (topic.is_compacted, dict(topic.config)["retention.ms"]) == (True, "-1")


def test_columns_with_names_of_our_own(log):
    """A row with a column that would vanish is refused, by its name."""
    with pytest.raises(SchemaError, match="the row has the column '_timestamp', a name that StreamKit's own columns have"):
        bring(log, [envelope("c", after={"id": 1, "_timestamp": 5}, key={"id": 1})])


PLACEHOLDER = "__debezium_unavailable_value"
SPELLED = [
    PLACEHOLDER,
    [PLACEHOLDER],
    {PLACEHOLDER: PLACEHOLDER},
    base64.b64encode(PLACEHOLDER.encode()).decode(),
    [base64.b64encode(PLACEHOLDER.encode()).decode()],
    list(PLACEHOLDER.encode()),
    [float(byte) for byte in PLACEHOLDER.encode()],
    [str(uuid.UUID(bytes=hashlib.md5(PLACEHOLDER.encode()).digest(), version=3))],
]
AROUND = [lambda one: one, lambda one: [one], lambda one: {"a": one}, lambda one: [{"a": [one]}], lambda one: {"a": {"b": one}}]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("spelled", SPELLED, ids=range(len(SPELLED)))
def test_the_placeholder_of_large_values(spelled, around):
    """It is found in every type and at any depth, and nothing else is."""
    unavailable = UnavailableValue(PLACEHOLDER)
    assert unavailable.columns({"id": 1, "v": around(spelled), "w": [PLACEHOLDER + "x", 5, {"a": list(b"__de")}, None]}) == ["v"]


def test_large_values_that_an_update_leaves_out(log):
    """Such an update is refused, and nothing of it is in the topic."""
    values = [
        envelope("c", after={"id": 1, "v": None}, key={"id": 1}),
        envelope("u", after={"id": 1, "w": 5, "v": [{"a": [PLACEHOLDER]}]}, key={"id": 1}),
    ]
    with pytest.raises(SchemaError, match=r"leaves out the large value of v, .*REPLICA IDENTITY FULL"):
        bring(log, values)
    run([source(errors_tolerance="all")], log, once=True)
    assert "w" not in log.topic("rows").schema and log.read("rows").num_rows == 1


MONGO = {
    "type": "struct",
    "fields": [
        {"field": name, "type": "string", "optional": True, "name": "io.debezium.data.Json"} for name in ("before", "after")
    ],
}


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_documents_of_mongodb(log, is_wrapped):
    """A row is a text of extended JSON: its fields are columns, without the marks of types; a deletion has the record's key."""
    documents = [
        '{"_id": {"$oid": "65a"}, "a": {"$numberLong": "9007199254740993"}, "n": {"x": [1, {"$numberInt": "2"}]}, "f": {"$numberDouble": "NaN"}}',
        '{"_id": {"$oid": "65a"}, "a": 3, "d": {"$numberDecimal": "1.50"}}',
    ]
    records = [envelope(op, after=after, key={"id": "7"}) for op, after in zip("cud", [*documents, None], strict=True)]
    if is_wrapped:
        for one in records:
            one["value"] = json.dumps({"schema": MONGO, "payload": json.loads(one["value"])})
            one["key"] = json.dumps(
                {"schema": {"type": "struct", "fields": [{"field": "id", "type": "string"}]}, "payload": {"id": "7"}}
            )
    bring(log, records)
    rows = log.read("rows").select(["id", "_id", "a", "n", "d"]).to_pylist()
    assert rows[0] == {"id": "7", "_id": "65a", "a": 9007199254740993, "n": '{"x": [1, 2]}', "d": None}
    assert rows[1] == {"id": "7", "_id": "65a", "a": 3, "n": None, "d": "1.50"}
    assert log.read("rows")["_deleted"].to_pylist() == [False, False, True]


@pytest.mark.parametrize("after", ["", "[1]", "x", '"x"', "{"])
def test_texts_that_are_no_documents(log, after):
    """They are refused with their place."""
    with pytest.raises(SchemaError, match=r"topic raw, partition 0, offset 0: .*as an object"):
        bring(log, [envelope("c", after=after, key={"id": "7"})])


TYPED = [
    ("int32", None, 1.5, None), ("int64", None, 1.0, None), ("int16", None, True, None), ("int8", None, -129, None),
    ("int64", "io.debezium.time.MicroTimestamp", 0.5, None), ("int64", "io.debezium.time.Timestamp", 1 << 62, None),
    ("int32", "io.debezium.time.Date", 1.5, None), ("boolean", None, 1, None), ("string", None, 5, None),
    ("float", None, 1e39, None), ("float", None, -3.5e38, None), ("double", None, "1e400", None), ("double", None, "x", None),
    ("float", None, "Infinity", math.inf), ("double", None, "-Infinity", -math.inf), ("float", None, 1.5, 1.5),
    ("int64", "io.debezium.time.MicroTime", 86_400_000_000, "24:00:00"), ("int32", "io.debezium.time.Time", 86_400_000, "24:00:00"),
    ("int64", "io.debezium.time.NanoTime", 86_400_000_000_000, "24:00:00"),
    ("int64", "io.debezium.time.NanoTime", 47_655_000_016_001, "13:14:15.000016001"),
    ("int64", "io.debezium.time.MicroTime", -1, "-00:00:00.000001"),
    ("int64", "io.debezium.time.MicroTime", 3_020_399_000_000, "838:59:59.000000"),
    ("int32", "io.debezium.time.Time", 2**31, None), ("int32", "org.apache.kafka.connect.data.Time", -(2**31) - 1, None),
    ("int32", "io.debezium.time.Time", 2**31 - 1, "596:31:23.647"),
    ("int64", "io.debezium.time.MicroTime", 3_020_400_000_000, None), ("int32", "io.debezium.time.Time", 0.5, None),
    ("int64", "io.debezium.time.NanoTimestamp", 1_704_067_200_000_000_999, dt.datetime(2024, 1, 1)),
    ("string", "io.debezium.time.ZonedTimestamp", "2300-01-01T00:00:00.123456789Z", dt.datetime(2300, 1, 1, 0, 0, 0, 123456, UTC)),
    ("string", "io.debezium.time.ZonedTimestamp", "1969-12-31T23:59:59.1234567Z", dt.datetime(1969, 12, 31, 23, 59, 59, 123456, UTC)),
    ("string", "io.debezium.time.ZonedTimestamp", "9999-12-31T23:59:59.9999999+00:00", dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
    ("string", "io.debezium.time.ZonedTimestamp", "2300-01-01T00:00:00.1234567890Z", None),
]  # fmt: skip


@pytest.mark.parametrize("around", [lambda one: one, lambda one: [one]], ids=["plain", "in an array"])
@pytest.mark.parametrize(("physical", "logical", "value", "expected"), TYPED)
def test_values_are_as_their_schema_says_or_refused(physical, logical, value, expected, around):
    """No value is cut, becomes infinite, or a text that nobody wrote; None: it is refused."""
    schema = {"type": physical, **({"name": logical} if logical else {})}
    kind = connect_type(schema if around(0) == 0 else {"type": "array", "items": schema})
    if expected is None:
        with pytest.raises(SchemaError, match="found a value that does not fit in"):
            kind.read([around(value)])
    else:
        assert kind.read([around(value), None]).to_pylist() == [around(expected), None]


INFINITE = [
    ("int32", "io.debezium.time.Date", 2**31 - 1), ("int32", "io.debezium.time.Date", -(2**31)),
    ("int64", "io.debezium.time.MicroTimestamp", 9223372036825200000), ("int64", "io.debezium.time.MicroTimestamp", -9223372036832400000),
    ("int64", "io.debezium.time.Timestamp", 9223372036825200), ("string", "io.debezium.time.ZonedTimestamp", "-infinity"),
]  # fmt: skip


@pytest.mark.parametrize(("physical", "logical", "value"), INFINITE)
def test_infinite_dates_and_times(log, physical, logical, value):
    """As PostgreSQL's Debezium writes them: refused, with the setting that makes them null; others beside them are read."""
    schema = {"field": "at", "type": physical, "name": logical, "optional": True}
    lists = {"field": "all", "type": "array", "items": {**schema}, "optional": True}
    row = {"type": "struct", "fields": [{"field": "id", "type": "int32"}, schema, lists], "field": "after"}
    sound = 1 if physical != "string" else "2020-01-01T00:00:00Z"
    values = [{"id": 1, "at": value, "all": [sound, value]}, {"id": 2, "at": sound, "all": None}]
    records = [
        {
            "key": json.dumps({"id": one["id"]}),
            "value": json.dumps({"schema": {"fields": [row]}, "payload": {"op": "c", "after": one}}),
        }
        for one in values
    ]
    with pytest.raises(SchemaError, match=r"offset 0: column '(at|all)': .* infinite time; .*infinity\.handling=null"):
        bring(log, records)
    run([source(infinity_handling="null")], log, once=True)
    first, second = sorted(log.read("rows").select(["id", "at", "all"]).to_pylist(), key=lambda one: one["id"])
    assert first["at"] is None and first["all"][1] is None and first["all"][0] == second["at"] is not None


DECIMAL = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "20"},
}
VARIABLE = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
}


def of_bytes(number):
    return base64.b64encode(number.to_bytes(12, "big", signed=True)).decode()


def numbered(id, schema, payload):
    """A record of Connect's JSON converter whose column `n` has this schema, and this text of JSON."""
    fields = [{"field": "id", "type": "int32"}, {"field": "n", "optional": True, **schema}]
    whole = {
        "type": "struct",
        "fields": [{"field": "after", "type": "struct", "fields": fields}, {"field": "op", "type": "string"}],
    }
    value = f'{{"schema":{json.dumps(whole)},"payload":{{"op":"c","after":{{"id":{id},"n":{payload}}},"source":{{"ts_ms":1}}}}}}'
    return {"key": json.dumps({"schema": {"type": "struct", "fields": fields[:1]}, "payload": {"id": id}}), "value": value}


@pytest.mark.parametrize(
    ("schema", "payload", "type", "value"),
    [
        (DECIMAL, json.dumps(of_bytes(-1250)), "decimal(20,2)", Decimal("-12.50")),
        (DECIMAL, "-12.50", "decimal(20,2)", Decimal("-12.50")),  # decimal.format=NUMERIC of the converter
        (DECIMAL, "123456789012345678.91", "decimal(20,2)", Decimal("123456789012345678.91")),
        ({**DECIMAL, "parameters": {"scale": "2", "connect.decimal.precision": "64"}}, "1.10", "string", "1.10"),
        (VARIABLE, json.dumps({"scale": 3, "value": of_bytes(1250)}), "decimal(38,18)", Decimal("1.25")),
        (VARIABLE, json.dumps({"scale": -2, "value": of_bytes(7)}), "decimal(38,18)", Decimal(700)),
        ({"type": "double"}, "12.50", "double", 12.5),
        ({"type": "double"}, '"-Infinity"', "double", float("-inf")),
        ({"type": "string"}, '"12.50"', "string", "12.50"),
        (
            {"type": "array", "items": DECIMAL},
            f'["{of_bytes(5)}", 1.10]',
            "array<decimal(20,2)>",
            [Decimal("0.05"), Decimal("1.10")],
        ),
    ],
)
def test_decimals_of_every_mode(log, schema, payload, type, value):
    """What `decimal.handling.mode` and the converter made of a number is of the type that the record's schema says, digit by digit."""
    bring(log, [numbered(1, schema, payload), numbered(2, schema, "null")])
    assert log.topic("rows").schema["n"].type == type
    assert found(log) == [(1, value, False), (2, None, False)]


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        (DECIMAL, "1.234"),
        (DECIMAL, json.dumps(of_bytes(10**21))),
        (DECIMAL, '"12.50"'),
        (DECIMAL, '""'),
        (VARIABLE, json.dumps({"scale": 20, "value": of_bytes(7)})),
        (VARIABLE, json.dumps({"scale": 400_000_000, "value": of_bytes(7)})),
        (VARIABLE, json.dumps({"scale": -400_000_000, "value": of_bytes(7)})),
        (VARIABLE, json.dumps({"scale": 19, "value": 1})),
        (DECIMAL, "1e-400000000"),
        (VARIABLE, json.dumps({"scale": 0, "value": 1.5})),
        (VARIABLE, json.dumps({"scale": 0, "value": ""})),
        (VARIABLE, json.dumps({"scale": True, "value": of_bytes(7)})),
        (VARIABLE, json.dumps({"scale": 0, "value": None})),
        (VARIABLE, json.dumps({"scale": 0, "value": of_bytes(10**25)})),
    ],
)
def test_decimals_that_lose_digits_are_refused(log, schema, payload):
    """A number that its type does not hold names topic, offset and column."""
    with pytest.raises(SchemaError, match="topic raw, partition 0, offset 0: column 'n'"):
        bring(log, [numbered(1, schema, payload)])


MODES_OF_DECIMALS = [(DECIMAL, f'"{of_bytes(1250)}"'), ({"type": "double"}, "12.5"), ({"type": "string"}, '"12.50"')]


@pytest.mark.parametrize(
    ("before", "after"), [(one, other) for one in MODES_OF_DECIMALS for other in MODES_OF_DECIMALS if one is not other]
)
def test_another_mode_later_is_refused(log, before, after):
    """A topic keeps its type: who changes the mode is told the column and both types, in one poll and after a start; nothing is converted."""
    records = [numbered(1, *before), numbered(2, *after)]
    bring(log, records[:1])
    with pytest.raises(SchemaError, match=r"offset 1.*column 'n': found .*, expected .*no conversion without loss"):
        bring(log, records[1:])
