"""Streams and tables that are written in a format: an opaque topic is made or checked, and read back it has the same rows."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, EvaluationError, TopologyError
from streamkit.testing import TopologyTestDriver

COLUMNS = "k string, n int, b bigint, x double, ok boolean, d decimal(10,2), at timestamp, day date, tags array<string>, s struct<a:int>"
ROWS = [
    {
        "k": "ä", "n": -1, "b": 1 << 40, "x": 0.5, "ok": True, "d": Decimal("-1.25"), "day": dt.date(2024, 2, 29), "tags": ["x", None],
        "at": dt.datetime(2024, 1, 1, 12, 30, 0, 123456, tzinfo=dt.timezone.utc), "s": {"a": 5},
    },
    {**dict.fromkeys(("n", "b", "x", "ok", "d", "at", "day", "tags", "s")), "k": "b"},
]  # fmt: skip
FLAT = "k string, n int, x double, at timestamp"


def columns(rows, names):
    return [{name: row[name] for name in names} for row in rows]


@pytest.mark.parametrize("format", ["json", "avro"])
def test_what_is_written_in_a_format_is_read_back(format):
    """All types and nulls come back from a topic that the topology made; the topic has the format, and of Avro a schema."""
    app = sk.Topology("app")
    app.stream("in", schema=COLUMNS, key="k").to("out", value_format=format)
    app.stream("out", value_format=format, schema=COLUMNS, key="k").to("back")
    names = [*ROWS[0]]

    with TopologyTestDriver(app, topics={"out": {"format": declared(format)}}) as driver:
        driver.pipe("in", ROWS)
        found = driver.read("back")

    assert columns(found, names) == columns(ROWS, names)


def declared(format):
    from streamkit.formats.avro_schema import avro_of
    from streamkit.formats.codec import declare_format
    from streamkit.schema import Schema

    return declare_format(format, avro_of(Schema.parse(COLUMNS)) if format == "avro" else None)


@pytest.mark.parametrize("format", ["json", "avro", "protobuf", "csv"])
def test_a_topic_of_the_format_is_made(tmp_path, format):
    """The start of an application makes the topic; Python reads its values as they are, and another topology as columns."""
    app = sk.Topology("app")
    app.stream("in").to("out", value_format=format)
    with sk.open_log(tmp_path) as log:
        log.create_topic("in", FLAT, key="k", partitions=2)
        with log.producer() as producer:
            producer.send_batch(
                "in", [{"k": "a", "n": 1, "x": 0.5, "at": ROWS[0]["at"]}, {"k": "b", "n": 2, "x": 1.5, "at": ROWS[0]["at"]}]
            )
        sk.run(app, log=log, engine="local", trigger="available_now").wait()
        topic = log.topic("out")
        assert topic.format is not None and topic.format.name == format
        assert sorted(log.read("out").column("key").to_pylist()) == [b"a", b"b"]
        assert {row["value"]["k"] for row in log.decode("out", log.read("out"))} == {"a", "b"} or format == "csv"

        other = sk.Topology("other")
        other.stream("out", value_format=format, schema=FLAT, key="k").to("back")
        sk.run(other, log=log, engine="local", trigger="available_now").wait()
        assert sorted((row["k"], row["n"], row["x"], row["at"]) for row in log.read("back").to_pylist()) == [
            ("a", 1, 0.5, ROWS[0]["at"]), ("b", 2, 1.5, ROWS[0]["at"]),
        ]  # fmt: skip


def test_a_table_is_kept_with_deletions():
    """A table's topic is compacted; a deletion has its key and no value, and so it is a deletion for who reads it."""
    app = sk.Topology("app")
    app.table("in", schema="k string, v int", key="k").to("out", value_format="json")
    with TopologyTestDriver(app, topics={"out": {"format": declared("json"), "config": {"cleanup.policy": "compact"}}}) as driver:
        driver.pipe("in", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
        driver.delete("in", {"k": "a"})
        rows = driver.log.read("out").to_pylist()

    assert [(row["key"], row["value"]) for row in rows] == [(b"a", b'{"k":"a","v":1}'), (b"b", b'{"k":"b","v":2}'), (b"a", None)]


def test_keys_are_text_or_json():
    """One column is its text, several are JSON; key_format says otherwise; a null key is no key."""
    app = sk.Topology("app")
    rows = app.stream("in", schema="k int, j string", key=["k", "j"])
    rows.to("several", value_format="json")
    rows.select_key("k").to("one", value_format="json")
    rows.select_key("k").to("asked", value_format="json", key_format="json")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": 1, "j": "x"}, {"k": None, "j": None}])
        keys = {name: driver.log.read(name).column("key").to_pylist() for name in ("several", "one", "asked")}

    assert {name: {key and key.decode() for key in found} for name, found in keys.items()} == {
        "several": {'{"k":1,"j":"x"}', None},
        "one": {"1", None},
        "asked": {'{"k":1}', None},
    }


@pytest.mark.parametrize("format", ["json", "avro", "protobuf", "string"])
@pytest.mark.parametrize("type", ["string", "bigint NOT NULL", "int"])
def test_keys_in_a_format_are_read_back(format, type):
    """Also where nothing says a schema of the keys: it is made of their columns, on both sides alike."""
    app = sk.Topology("app")
    app.stream("in", schema=f"k {type}, v int", key="k").to("out", value_format="json", key_format=format)
    app.stream("out", value_format="json", key_format=format, schema=f"k {type.split()[0]}, v int", key="k").to("back")
    keys = ["a", ""] if type == "string" else [7, -1]

    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": key, "v": 1} for key in keys])
        assert [row["k"] for row in driver.read("back")] == keys


@pytest.mark.parametrize("column", ["array<int>", "map<string,int>", "struct<a: int>"])
def test_nested_columns_are_refused_as_csv(column):
    """Before a run begins, in which the first row would fail."""
    app = sk.Topology("app")
    app.stream("in", schema=f"k string, c {column}", key="k").to("out", value_format="csv")
    with pytest.raises(TopologyError, match=r"'c' is .*, which CSV cannot hold"):
        sk.compile(app)


def test_one_text_is_the_value():
    """A format of one text or bytes takes the one column beside the key's."""
    app = sk.Topology("app")
    rows = app.stream("in", schema="k string, line string, content binary", key="k")
    rows.select("line").to("lines", value_format="string")
    rows.select("content").to("contents", value_format="bytes")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": "a", "line": "é", "content": b"\xff"}])
        assert driver.log.read("lines").to_pylist()[0]["value"] == "é".encode()
        assert driver.log.read("contents").to_pylist()[0]["value"] == b"\xff"


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "n", "type": ["null", "int"]}, {"name": "note", "type": "string", "default": "none"}],
}


def test_a_schema_decides_which_columns_are_written():
    """Values have the fields of `value_schema`, those that are not written their defaults; the key's columns may be left out."""
    app = sk.Topology("app")
    app.stream("in", schema="k string, n int", key="k").to("out", value_format="avro", value_schema=AVRO)
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": "a", "n": 3}])
        log = driver.log
        assert [row["value"] for row in log.decode("out", log.read("out"))] == [{"n": 3, "note": "none"}]


def test_a_record_that_does_not_fit_is_left_out():
    """A value that its format cannot hold makes the step fail, and `on_error` says what becomes of the record."""
    narrow = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    app = sk.Topology("app", on_error=sk.dead_letter("letters"))
    app.stream("in", schema="k string, n bigint", key="k").to("out", value_format="avro", value_schema=narrow)
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": "a", "n": 1}, {"k": "b", "n": 1 << 40}, {"k": "c", "n": None}, {"k": "d", "n": 2}])
        kept, letters = driver.log.read("out").to_pylist(), driver.read("letters")

    assert [row["key"] for row in kept] == [b"a", b"d"]
    assert [json.loads(row["key"])["k"] for row in letters] == ["b", "c"]
    assert "the value cannot be written: it does not fit the Avro schema R" in letters[0]["message"]


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another format": (
        {"format": "json"},
        {"value_format": "avro"},
        "its values are json, and what is written are values of avro",
    ),
    "columns to bytes": ({"format": "avro", "format_schema": AVRO}, {}, "expected to('out', value_format='avro')"),
    "columns": ({"schema": "k string, n int", "key": "k"}, {"value_format": "json"}, "it has the columns k string, n int"),
    "another schema": (
        {"format": "avro", "format_schema": AVRO},
        {"value_format": "avro", "value_schema": {**AVRO, "fields": AVRO["fields"][:1]}},
        "its values have another schema; expected no value_schema=, or the topic's",
    ),
    "columns that its schema needs": (
        {"format": "avro", "format_schema": {**AVRO, "fields": [*AVRO["fields"], {"name": "more", "type": "int"}]}},
        {"value_format": "avro"},
        "its schema has 'more', which is not written",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_topic_of_another_kind_is_refused(tmp_path, case):
    """The error says what the topic holds, what is written, and what to do, before anything runs."""
    topic, arguments, reason = REFUSED[case]
    app = sk.Topology("app")
    app.stream("in", schema="k string, n int", key="k").to("out", **arguments)
    with sk.open_log(tmp_path) as log:
        log.create_topic("in", "k string, n int", key="k")
        log.create_topic("out", **topic)
        with pytest.raises(TopologyError) as raised:
            sk.compile(app, log)

    assert reason in str(raised.value) and "'out' exists and does not fit" in str(raised.value)
    assert "test_written_formats.py" in str(raised.value)


def test_what_a_topic_says_of_its_schema_holds(tmp_path):
    """Without value_schema= values are written under the schema that the topic has."""
    app = sk.Topology("app")
    app.stream("in").to("out", value_format="avro")
    with sk.open_log(tmp_path) as log:
        log.create_topic("in", "k string, n int", key="k")
        log.create_topic("out", format="avro", format_schema=AVRO)
        with log.producer() as producer:
            producer.send_batch("in", [{"k": "a", "n": 1}])
        sk.run(app, log=log, engine="local", trigger="available_now").wait()
        assert {row["value"]["note"] for row in log.decode("out", log.read("out"))} == {"none"}


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no such format": ({"value_format": "jsn"}, ConfigError, "there is no format 'jsn'"),
    "settings alone": ({"key_format": "json"}, TopologyError, "were given without value_format="),
    "bytes of columns": ({"value_format": "bytes"}, TopologyError, "written as bytes, which is one column of binary"),
    "texts of columns": ({"value_format": "string"}, TopologyError, "which is one column of text"),
    "a foreign system": ({"value_format": "json"}, TopologyError, "expected it among the settings of the connector"),
    "other columns": (
        {"value_format": "avro", "value_schema": {"type": "record", "name": "R", "fields": []}}, TopologyError, "does not have 'n', 'x'",
    ),
    "keys of several columns": ({"value_format": "json", "key_format": "string"}, TopologyError, 'expected key_format="json"'),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_written_is_refused_at_build_time(case):
    """Formats that cannot hold the columns, or that stand in the wrong place, are refused at the user's line."""
    arguments, error, reason = WRONG[case]
    app = sk.Topology("app")
    key = ["k", "n"] if case == "keys of several columns" else "k"
    target = sk.kafka("out", bootstrap_servers="localhost:1") if case == "a foreign system" else "out"

    def build():
        app.stream("in", schema="k string, n int, x double", key=key).to(target, **arguments)
        sk.compile(app)

    with pytest.raises(error) as raised:
        build()
    assert reason in str(raised.value)


SCHEMAS = {
    "json": ('{{"type":"object","properties":{{{}}}}}', '"{}":{{"type":"{}"}}', {"int": "integer", "string": "string"}),
    "avro": ('{{"type":"record","name":"R","fields":[{}]}}', '{{"name":"{}","type":["null","{}"]}}', {}),
    "csv": ("{}", "{} {}", {}),
    "protobuf": ('syntax="proto3"; message M {{ {} }}', "optional {1} {0} = {2}; ", {"int": "int32"}),
}


def schema_of(format, columns):
    """A schema of a format, as a user writes it."""
    whole, field, types = SCHEMAS[format]
    fields = [field.format(name, types.get(type, type), number) for number, (name, type) in enumerate(columns.items(), 1)]
    return whole.format(("" if format == "protobuf" else ",").join(fields))


NAMED: dict[str, tuple[dict[str, str], str]] = {
    "another column": ({"k": "string", "n": "int"}, "its schema does not have 'flag', which is written"),
    "a column too many": ({"n": "int", "flag": "boolean", "z": "int"}, "its schema has 'z', which is not written"),
    "another type": (
        {"n": "int", "flag": "int"},
        "its schema has 'flag' as .*int, and boolean is written; expected a column of that type",
    ),
}


@pytest.mark.parametrize("format", SCHEMAS)
@pytest.mark.parametrize("case", NAMED)
def test_a_schema_that_values_contradict_is_refused(format, case):
    """When the topology compiles: of JSON it was ignored, and of Protobuf every record failed, or was left out in silence."""
    columns, reason = NAMED[case]
    if (format, case) == ("protobuf", "a column too many"):
        pytest.skip("fields of Protobuf need not be written")
    types = {"json": "integer", "avro": "int", "csv": "int", "protobuf": "int"}
    columns = {name: types[format] if type == "int" else type for name, type in columns.items()}
    app = sk.Topology("app")
    rows = app.stream("in", schema="k string, n int, flag boolean", key="k")
    rows.to(
        "out",
        value_format=format,
        value_schema=schema_of(format, {n: "bool" if (t, format) == ("boolean", "protobuf") else t for n, t in columns.items()}),
    )
    with pytest.raises(TopologyError, match=reason):
        sk.compile(app)


@pytest.mark.parametrize("format", SCHEMAS)
def test_a_schema_may_leave_out_the_key(format):
    """Values have the columns that it names, the key's bytes the others."""
    app = sk.Topology("app", on_error="skip")
    rows = app.stream("in", schema="k string, n int", key="k")
    rows.to("out", value_format=format, value_schema=schema_of(format, {"n": "int"}))
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": "a", "n": 3}])
        (row,) = driver.log.read("out").to_pylist()
        (decoded,) = driver.log.decode("out", driver.log.read("out"))
    assert (row["key"], decoded["value"]) == (b"a", {"n": 3})
    assert b"k" not in row["value"]


def test_protobuf_writes_no_other_value_for_a_null():
    """A null list, map, or field without presence is the failure of its record: it was read back as empty, or as zero."""
    proto = 'syntax="proto3"; message M { repeated int32 l = 1; map<string, int32> m = 2; int32 n = 3; optional int32 o = 4; }'
    app = sk.Topology("app", on_error=sk.dead_letter("letters"))
    rows = app.stream("in", schema="k string, l array<int>, m map<string, int>, n int, o int", key="k")
    rows.to("out", value_format="protobuf", value_schema=proto)
    good = {"k": "good", "l": [], "m": {}, "n": 0, "o": None}
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [good, *({**good, "k": name, name: None} for name in "lmn")])
        kept, letters = driver.log.read("out").to_pylist(), driver.read("letters")
    assert [row["key"] for row in kept] == [b"good"]
    assert [(json.loads(row["key"])["k"], "is null" in row["message"]) for row in letters] == [(one, True) for one in "lmn"]


def test_windows_are_written_in_a_format():
    """Results of windows have keys of JSON, with the bounds, and are read back as a table of windows."""
    app = sk.Topology("app")
    hour = sk.tumbling("1 hour", grace="0 s")
    counts = app.stream("in", schema="k string", key="k").group_by_key().windowed_by(hour).agg(n=F.count("*"))
    counts.emit("final").to("out", value_format="json")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a"}, timestamp="2024-01-01T00:10")
        driver.pipe("in", {"k": "b"}, timestamp="2024-01-01T02:10")
        (row,) = driver.log.read("out").to_pylist()

    assert json.loads(row["key"])["window_start"] == "2024-01-01T00:00:00Z"
    assert json.loads(row["value"])["n"] == 1


def test_a_failing_value_without_on_error_ends_the_run():
    """The error names the record."""
    narrow = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    app = sk.Topology("app")
    app.stream("in", schema="k string, n int", key="k").to("out", value_format="avro", value_schema=narrow)
    with TopologyTestDriver(app) as driver, pytest.raises(EvaluationError, match=r"offset 1.*the value cannot be written"):
        driver.pipe("in", [{"k": "a", "n": 1}, {"k": "b", "n": None}])


@pytest.mark.parametrize("type", ["struct<a:int>", "array<int>", "boolean"])
def test_a_key_of_the_format_kafka_is_one_plain_value(type):
    """A key that the format does not have is refused before anything runs, where it is written and where it is read."""
    log = sk.open_log(":memory:")
    log.create_topic("keyed", f"k {type}, v int", key="k", partitions=1)
    app = sk.Topology("writes")
    app.stream("keyed").to("out", value_format="json", key_format="kafka")
    with pytest.raises(
        TopologyError, match=r"the keys of 'out' cannot be written as kafka: .*; found k .*expected key_format=\"json\""
    ):
        sk.compile(app, log=log)
    with pytest.raises(TopologyError, match=r'the keys cannot be read as kafka: .*; found k .*expected key_format="json"'):
        sk.Topology("reads").stream("bytes", value_format="json", key_format="kafka", schema=f"k {type}, v int", key="k")
