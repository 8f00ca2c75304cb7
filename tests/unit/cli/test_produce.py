"""`streamkit produce`."""

from __future__ import annotations

import datetime as dt
import decimal
import fcntl
import io
import json
import signal
import struct
import termios
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamkit as sk
from streamkit.errors import ConfigError, FencedError, SchemaError
from tests.kit.waiting import WAIT_SECONDS, wait_until
from tests.unit.cli.command_process import CommandProcess

UTC = dt.timezone.utc
SCHEMA = "name string not null, n int, x double, ok boolean, day date, at timestamp, price decimal(10,2), data binary"
ROWS = [
    {
        "name": 'ann, "the\nfirst"', "n": 1, "x": 0.5, "ok": True, "day": dt.date(2013, 1, 1), "data": b"\x00\xff",
        "at": dt.datetime(2013, 1, 1, 12, tzinfo=UTC), "price": decimal.Decimal("1.25"),
    },
    {"name": "", "n": None, "x": None, "ok": None, "day": None, "at": None, "price": None, "data": None},
]  # fmt: skip
CSV = (
    "name,n,x,ok,day,at,price,data\n"
    '"ann, ""the\nfirst""",1,0.5,true,2013-01-01,2013-01-01T13:00:00+01:00,1.25,AP8=\n'
    '"",,,,,,,\n'
)  # fmt: skip
JSON = (
    '{"name": "ann, \\"the\\nfirst\\"", "n": 1, "x": 0.5, "ok": true, "day": "2013-01-01", "at": "2013-01-01 12:00:00", '
    '"price": "1.25", "data": "AP8="}\n\n'
    '{"name": "", "n": null, "x": null, "ok": null, "day": null, "at": null, "price": null, "data": null}'
)


@pytest.fixture
def topic(root):
    with sk.open_log(root) as log:
        log.create_topic("typed", SCHEMA, partitions=1)
        log.create_topic("plain", "name string, n int", key="name", partitions=2)


def read(root, topic, *columns):
    with sk.open_log(root) as log:
        return (
            log.read(topic, columns=columns or None)
            .sort_by("_offset")
            .select(columns or log.topic(topic).schema.names)
            .to_pylist()
        )


def parquet_of(rows):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "data"), [("f.csv", CSV), ("f.jsonl", JSON), ("f.parquet", None)], ids=["csv", "json", "parquet"]
)
def test_every_type_arrives(streamkit, root, topic, tmp_path, name, data):
    """Values of every type and nulls, from each format."""
    file = tmp_path / name
    file.write_bytes(parquet_of(ROWS) if data is None else data.encode())

    assert "2 records written to typed" in streamkit("produce", "typed", str(file))
    assert read(root, "typed") == ROWS


def test_json_says_what_was_written(streamkit, root, topic, tmp_path):
    """With --json the summary has records, seconds and offsets by partition."""
    (tmp_path / "f.csv").write_text("n,name\n1,a\n2,b\n3,c\n")
    summary = json.loads(streamkit("produce", "plain", str(tmp_path / "f.csv"), "--json"))

    assert (summary["topic"], summary["records"]) == ("plain", 3) and summary["seconds"] >= 0
    assert sum(following - first for first, following in summary["offsets"].values()) == 3


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("f.csv", 'name,n\n"a\nb",1\n\nc,2\nd,three\n', r"f.csv, line 6: column 'n': found 'three', expected int"),
        ("f.csv", "name,n\na,1\nb\n", r"f.csv, line 3: found 1 values, expected 2: name, n"),
        ("f.csv", "name,m\na,1\n", r"f.csv: topic plain: the data have no column 'n'"),
        ("f.json", '{"name": "a", "n": 1}\n\n{"name": "b", "n": "two"}\n', r"f.json, line 3: column 'n': found 'two'"),
        ("f.json", '{"name": "a", "n": 1}\n{"name": "b", "n": \n', r"f.json, line 2: found .*, which is no JSON"),
        ("f.json", '{"name": "a", "n": 1}\n[1]\n', r"f.json, line 2: found '\[1\]', expected an object"),
        ("f.json", '{"name": "a", "n": 1}\n{"name": "b", "m": 2}\n', r"the unknown column 'm'"),
        ("f.json", '{"name": "a", "n": 3000000000}\n', r"f.json, line 1: .*column 'n': found 3000000000"),
        ("f.parquet", parquet_of([{"name": "a", "n": 1}, {"name": "b", "n": 2**40}]), r"f.parquet, record 2: topic plain: column 'n'"),
        ("f.parquet", b"no", r"f.parquet cannot be read as Parquet"),
        ("f.txt", "a", r"--format csv\|json\|parquet"),
    ],
    ids=range(11),
)  # fmt: skip
def test_a_bad_record_is_named_by_its_line(streamkit, root, topic, tmp_path, name, data, reason):
    """A file with a record that does not fit is not written at all; the error has the line of the file."""
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(sk.StreamKitError, match=reason):
        streamkit("produce", "plain", str(tmp_path / name))
    assert read(root, "plain") == []
    with sk.open_log(root) as log:
        assert not [path for path in log.storage.list("slabs") if path not in referenced(log)]


def referenced(log):
    topics = log.catalog.topics.every()
    return {
        extent.path
        for topic in topics
        for part in range(topic.partitions)
        for extent in log.catalog.manifest.extents(topic.id, part)
    }


def test_a_bad_record_far_down_leaves_nothing(streamkit, root, topic, tmp_path, monkeypatch):
    """Also when earlier pieces of the file were staged already, nothing of it is visible or left on disk; the line is right."""
    monkeypatch.setattr("streamkit.connectors.files.record_file.BLOCK_BYTES", 1_000)
    lines = [json.dumps({"name": f"u{number}", "n": number}) for number in range(500)]
    (tmp_path / "f.json").write_text("\n".join([*lines, '{"name": "u", "n": true}']))
    with pytest.raises(sk.StreamKitError, match=r"line 501: column 'n': found True"):
        streamkit("produce", "plain", str(tmp_path / "f.json"))
    assert read(root, "plain") == []


def test_times_come_from_a_column_of_the_file(streamkit, root, topic, tmp_path):
    """--timestamp-column is the event time, as milliseconds or ISO 8601, and need not be a column of the topic."""
    (tmp_path / "f.csv").write_text("name,n,when\na,1,1000\nb,2,1970-01-01T00:00:02Z\nc,3,1970-01-01\n")
    streamkit("produce", "plain", str(tmp_path / "f.csv"), "--timestamp-column", "when")

    times = {row["n"]: row["_timestamp"] for row in read(root, "plain", "n", "_timestamp")}
    assert times == {n: dt.datetime(1970, 1, 1, 0, 0, second, tzinfo=UTC) for n, second in ((1, 1), (2, 2), (3, 0))}


def test_what_consume_prints_can_be_read(streamkit, root, topic, tmp_path):
    """Records, deletions and times go round through consume and produce, in JSON and CSV."""
    before = read(root, "customers", "name", "city", "_deleted", "_timestamp")
    for form in ("json", "csv"):
        (tmp_path / f"f.{form}").write_text(streamkit("consume", "customers", "--format", form))
        streamkit("produce", "customers", str(tmp_path / f"f.{form}"))

    assert read(root, "customers", "name", "city", "_deleted", "_timestamp") == before * 4


@pytest.mark.parametrize("form", ["json", "string", "bytes"])
def test_opaque_topics_take_json(streamkit, root, tmp_path, form):
    """Keys and values of an opaque topic are encoded in its format, and what consume prints of them can be read; CSV is refused."""
    value = {"json": {"a": [1, None]}, "string": "ä", "bytes": b"\x00\xff"}[form]
    with sk.open_log(root) as log:
        log.create_topic("opaque", format=form, partitions=1)
        with log.producer() as producer:
            producer.send("opaque", {"key": b"k" if form == "bytes" else "k", "value": value}, timestamp_ms=0)
    (tmp_path / "f.json").write_text(streamkit("consume", "opaque", "--format", "json"))
    streamkit("produce", "opaque", str(tmp_path / "f.json"))

    first, second = read(root, "opaque", "key", "value", "_timestamp")
    assert first == second
    (tmp_path / "f.csv").write_text("key,value\nk,v\n")
    with pytest.raises(sk.StreamKitError, match="expected JSON lines with key and value"):
        streamkit("produce", "opaque", str(tmp_path / "f.csv"))
    if form == "string":
        (tmp_path / "bad.json").write_text('{"key": "k", "value": "v"}\n{"key": "k", "value": 5}\n')
        with pytest.raises(sk.StreamKitError, match="line 2: column 'value': found 5"):
            streamkit("produce", "opaque", str(tmp_path / "bad.json"))


AVRO = {
    "type": "record", "name": "all", "fields": [
        {"name": "data", "type": "bytes"}, {"name": "id", "type": {"type": "fixed", "name": "two", "size": 2}}, {"name": "other", "type": ["null", "two"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "hour", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "many", "type": {"type": "map", "values": {"type": "array", "items": ["null", "bytes"]}}},
        {"name": "text", "type": ["int", "string"]},
    ],
}  # fmt: skip
AVRO_VALUE = {
    "data": b"\x00\xff", "id": b"ab", "other": b"cd", "price": decimal.Decimal("12345678901234567.89"),
    "at": dt.datetime(2026, 1, 1, 12, 0, 0, 5_000, tzinfo=UTC), "day": dt.date(2026, 1, 31), "hour": dt.time(12, 30, 0, 1),
    "key": uuid.UUID(int=7), "many": {"a": [None, b"\xff"]}, "text": "AP8=",
}  # fmt: skip


def sent_again(streamkit, root, topic, file):
    """The record of a topic as consume prints it; produce has written it a second time, and both are equal."""
    printed = streamkit("consume", topic, "--json")
    file.write_text(printed)
    streamkit("produce", topic, str(file))
    first, second = read(root, topic, "key", "value", "_timestamp")
    assert first == second
    return printed


def test_avro_goes_round(streamkit, root, tmp_path):
    """Bytes, decimals and times of Avro that consume prints in JSON are read back as what they were; what is none is refused with its line."""
    with sk.open_log(root) as log:
        log.create_topic("avro", format="avro", format_schema=AVRO, partitions=1)
        with log.producer() as producer:
            producer.send("avro", {"key": "k", "value": AVRO_VALUE}, timestamp_ms=0)
    printed = sent_again(streamkit, root, "avro", tmp_path / "f.json")
    record = json.loads(printed)
    for name, wrong in (
        ("data", "é"),
        ("price", "much"),
        ("at", "noon"),
        ("at", 1500.0),
        ("times", [1500.5]),
        ("day", 1.5),
        ("key", "7"),
    ):
        (tmp_path / "f.json").write_text(printed + json.dumps({**record, "value": {**record["value"], name: wrong}}))
        with pytest.raises(sk.StreamKitError, match=r"f.json, line 2: column 'value': found .*, expected a value of format avro"):
            streamkit("produce", "avro", str(tmp_path / "f.json"))


ALL_OF_PROTOBUF = """
syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "google/type/date.proto";
import "google/type/timeofday.proto"; import "confluent/type/decimal.proto"; import "confluent/meta.proto";
enum Color { RED = 0; BLUE = 1; }
message Inner { bytes data = 1; google.protobuf.Timestamp at = 2; }
message Row {
  bytes data = 1; google.protobuf.Timestamp at = 2; google.type.Date day = 3; google.type.TimeOfDay hour = 4;
  confluent.type.Decimal price = 5 [(confluent.field_meta) = { params: [{ key: "precision", value: "9" }, { key: "scale", value: "2" }] }];
  repeated google.protobuf.Timestamp times = 6; map<int32, bytes> by_number = 7; map<string, Inner> inner = 8; Inner one = 9;
  google.protobuf.BytesValue boxed = 10; google.protobuf.Int64Value large = 11; uint64 largest = 12; double far = 13; float near = 14;
  Color color = 15; map<bool, int64> by_truth = 16; repeated double fars = 17; repeated google.type.Date days = 18; string text = 19;
}
"""
NOON = dt.datetime(2026, 1, 1, 12, 0, 0, 5_001, tzinfo=UTC)
PROTOBUF_VALUE = {
    "data": b"\x00\xff", "at": NOON, "day": dt.date(2026, 1, 31), "hour": 36_000_123, "price": decimal.Decimal("2.25"), "times": [NOON],
    "by_number": {1: b"a", -2: b""}, "inner": {"x": {"data": b"q", "at": NOON}}, "one": {"data": b"\x00", "at": NOON}, "boxed": b"w",
    "large": 2**62, "largest": 2**64 - 1, "far": float("inf"), "near": float("-inf"), "color": "BLUE", "by_truth": {True: 1, False: 2},
    "fars": [1.5, float("inf")], "days": [dt.date(1, 1, 1), dt.date(9999, 12, 31)], "text": "AP8=",
}  # fmt: skip


def test_protobuf_goes_round(streamkit, root, tmp_path):
    """Bytes, times, numbers beyond JSON's and keys of maps that consume prints are read back as what they were; what is none is refused."""
    with sk.open_log(root) as log:
        log.create_topic(
            "all", format="protobuf", format_schema=ALL_OF_PROTOBUF, format_settings={"message": "Row"}, partitions=1
        )
        with log.producer() as producer:
            producer.send("all", {"key": "k", "value": PROTOBUF_VALUE}, timestamp_ms=0)
    record = json.loads(sent_again(streamkit, root, "all", tmp_path / "f.json"))
    for name, wrong in (
        ("data", "a"),
        ("at", "noon"),
        ("day", "x"),
        ("hour", "25:00"),
        ("largest", "x"),
        ("by_number", {"x": ""}),
        ("text", 5),
    ):
        (tmp_path / "f.json").write_text(json.dumps({**record, "value": {name: wrong}}))
        with pytest.raises(
            sk.StreamKitError,
            match=rf"line 1: column 'value': found .*, expected a value of format protobuf: the field '{name}': ",
        ):
            streamkit("produce", "all", str(tmp_path / "f.json"))


AVRO_TIMES = {
    "type": "record", "name": "times",
    "fields": [
        {"name": name.replace("-", "_"), "type": {"type": "long", "logicalType": name}}
        for name in ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
    ] + [
        {"name": "time_millis", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "time_micros", "type": {"type": "long", "logicalType": "time-micros"}},
    ],
}  # fmt: skip
PROTOBUF_TIME = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Row { google.protobuf.Timestamp at = 1; }'


@pytest.mark.parametrize(("form", "schema"), [("avro", AVRO_TIMES), ("protobuf", PROTOBUF_TIME)])
def test_a_number_is_a_time_in_milliseconds(streamkit, root, tmp_path, form, schema):
    """In each format, whatever the unit of its times: as in topics with columns."""
    moments = [field["name"] for field in schema["fields"] if "stamp" in field["name"]] if form == "avro" else ["at"]
    clocks = ["time_millis", "time_micros"] if form == "avro" else []
    with sk.open_log(root) as log:
        log.create_topic("times", format=form, format_schema=schema, partitions=1)
    (tmp_path / "f.json").write_text(
        json.dumps({"key": "k", "value": dict.fromkeys(moments, 1_767_225_600_123) | dict.fromkeys(clocks, 3_600_123)})
    )
    streamkit("produce", "times", str(tmp_path / "f.json"))
    printed = json.loads(streamkit("consume", "times", "--json"))["value"]
    found = {name: text.rstrip("Z").rstrip("0") for name, text in printed.items()}
    assert found == dict.fromkeys(moments, "2026-01-01T00:00:00.123") | dict.fromkeys(clocks, "01:00:00.123")


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_what_is_no_number_goes_round(streamkit, root, tmp_path, form):
    """NaN and infinities are texts in JSON, and numbers again where the schema has a number."""
    avro = {"type": "record", "name": "row", "fields": [{"name": name, "type": name} for name in ("double", "float", "string")]}
    protobuf = 'syntax = "proto3"; message Row { double double = 1; float float = 2; string string = 3; }'
    with sk.open_log(root) as log:
        log.create_topic("all", format=form, format_schema=avro if form == "avro" else protobuf, partitions=1)
    for value in ("NaN", "Infinity", "-Infinity"):
        (tmp_path / "f.json").write_text(json.dumps({"key": "k", "value": {"double": value, "float": value, "string": value}}))
        streamkit("produce", "all", str(tmp_path / "f.json"))
    printed = [json.loads(line)["value"] for line in streamkit("consume", "all", "--json").splitlines()]
    assert [set(one.values()) for one in printed] == [{"NaN"}, {"Infinity"}, {"-Infinity"}]


PROTO = 'syntax = "proto3"; message Row { int64 k = 1; string v = 2; }'
JSON_SCHEMA = {"type": "object", "properties": {"k": {"type": "integer"}, "v": {"type": "string"}}}
SCHEMAS: dict[str, Any] = {"csv": "k BIGINT, v STRING", "delimited": "k BIGINT, v STRING", "protobuf": PROTO, "json": JSON_SCHEMA}


@pytest.mark.parametrize("form", SCHEMAS)
def test_values_of_columns_go_round(streamkit, root, tmp_path, form):
    """In each format whose schema is none of Avro, what consume prints is read back; of one with columns a value without them is refused with its line."""
    value = {"k": 1, "v": "a,b"}
    with sk.open_log(root) as log:
        log.create_topic("rows", format=form, format_schema=SCHEMAS[form], partitions=1)
        with log.producer() as producer:
            producer.send("rows", {"key": "k", "value": value}, timestamp_ms=0)
    printed = sent_again(streamkit, root, "rows", tmp_path / "f.json")
    for wrong in ("1,a", [1], 5) if form in ("csv", "protobuf") else ():
        (tmp_path / "f.json").write_text(printed + json.dumps({"key": "k", "value": wrong}))
        with pytest.raises(
            sk.StreamKitError, match=rf"f.json, line 2: column 'value': found .*, expected a value of format {form}"
        ):
            streamkit("produce", "rows", str(tmp_path / "f.json"))


def test_null_has_a_spelling(streamkit, root, topic, tmp_path):
    """Empty is null in CSV, unless --null says what is; quoted it is a text."""
    (tmp_path / "f.csv").write_text('name,n\nNA,NA\n"NA",1\n,2\n')
    streamkit("produce", "plain", str(tmp_path / "f.csv"), "--null", "NA")

    assert sorted((row["n"] or 0, row["name"]) for row in read(root, "plain")) == [(0, None), (1, "NA"), (2, "")]


def test_values_have_other_spellings(streamkit, root, topic, tmp_path):
    """Encoding, delimiter, decimal commas, formats and several texts for null are options, as they are settings of a FileSource."""
    data = "name;n;x;ok;day;at;price;data\nBöß;1;1.234,5;true;31.01.2026;31.01.2026 12:30;1,25;AP8=\n;NULL;NA;;;NA;;\n"
    (tmp_path / "f.csv").write_bytes(data.encode("cp1252"))
    options = ["--encoding", "cp1252", "--delimiter", ";", "--decimal-comma", "--null", "NULL", "--null", "NA", "--null", ""]
    formats = ["--date-format", "dd.MM.yyyy", "--timestamp-format", "dd.MM.yyyy HH:mm"]
    with sk.open_log(root) as log:
        log.create_topic("named", SCHEMA.replace(" not null", ""), partitions=1)
    streamkit("produce", "named", str(tmp_path / "f.csv"), *options, *formats)
    first, second = read(root, "named")
    at = dt.datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
    assert (first["name"], first["x"], first["day"], first["at"]) == ("Böß", 1234.5, dt.date(2026, 1, 31), at)
    assert set(second.values()) == {None}


def test_other_spellings_name_the_line(streamkit, root, topic, tmp_path):
    """A value that does not fit, in another encoding too, and of JSON; a format that cannot be; nothing is written."""
    (tmp_path / "f.csv").write_bytes("name;n\nBöß;1\nx;2,5\n".encode("utf-16"))
    (tmp_path / "f.json").write_text(JSON)
    options = ("--encoding", "utf-16", "--delimiter", ";")
    with pytest.raises(SchemaError, match=r"f\.csv, line 3: column 'n': found '2,5', expected int"):
        streamkit("produce", "plain", str(tmp_path / "f.csv"), *options)
    with pytest.raises(
        SchemaError, match=r"f\.json, line 1: column 'day': found '2013-01-01', expected date, written as dd\.MM\.yyyy"
    ):
        streamkit("produce", "typed", str(tmp_path / "f.json"), "--date-format", "dd.MM.yyyy")
    with pytest.raises(ConfigError, match="the format 'HH' of dates has no part of a date"):
        streamkit("produce", "typed", str(tmp_path / "f.json"), "--date-format", "HH")
    with pytest.raises(ConfigError, match="encoding='klingon'"):
        streamkit("produce", "typed", str(tmp_path / "f.json"), "--encoding", "klingon")
    assert not read(root, "plain")
    assert not read(root, "typed")


def test_an_id_fences(streamkit, root, topic, tmp_path):
    """--id opens the producer of that name: an older instance of it cannot commit any more."""
    (tmp_path / "f.csv").write_text("name,n\na,1\n")
    with sk.open_log(root) as log:
        old = log.producer("loader")
        old.send("plain", {"name": "b", "n": 2})
        streamkit("produce", "plain", str(tmp_path / "f.csv"), "--id", "loader")
        with pytest.raises(FencedError):
            old.flush()


def unread_bytes(pipe):
    """How much of what was written to a pipe nobody has read."""
    return struct.unpack("i", fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0" * 4))[0]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_pipe_is_written_as_it_comes(root, topic, encoding):
    """Lines of standard input are visible soon after they were written, while the pipe is open; a bad one ends the command."""
    process = CommandProcess(root, "produce", "plain", "-", "--format", "json", "--encoding", encoding)
    process.stdin.write('{"name": "a", "n": 1}\n')
    process.stdin.flush()
    wait_until(lambda: read(root, "plain"))
    assert read(root, "plain") == [{"name": "a", "n": 1}]
    code, _, errors = process.rest('{"name": "a", "n": "x"}\n')
    assert (code, "standard input, line 2: column 'n'" in errors) == (1, True)


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("json", ['{"name": "a", "n": 1}', '{"name": "b", "n": 2}', "null"]),
        ("json", ['{"name": "a", "n": 1}', '{"name": "b", "n": 2}', '{"name": "c", "n": "x"}']),
        ("csv", ["name,n", "a,1", "b,2", "c,x"]),
    ],
    ids=["JSON", "value", "CSV"],
)
def test_what_came_before_a_bad_record_stays(root, topic, form, lines):
    """Records of standard input that come just before a bad one are written, and the error stream says how many they are."""
    process = CommandProcess(root, "produce", "plain", "-", "--format", form)
    code, said, errors = process.rest("\n".join([*lines, lines[1]]))

    assert (code, said) == (1, "")
    assert errors.startswith("2 records written to plain before it stopped\nerror: standard input, ")
    assert sorted(row["n"] for row in read(root, "plain")) == [1, 2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupt_writes_what_has_come(root, topic, number):
    """Ctrl-C at once after a line of standard input loses nothing: the record is written, and the error stream says so."""
    process = CommandProcess(root, "produce", "plain", "-", "--format", "json")
    process.stdin.write('{"name": "a", "n": 1}\n')
    process.stdin.flush()
    wait_until(lambda: read(root, "plain"))
    process.stdin.write('{"name": "a", "n": 2}\n')
    process.stdin.flush()
    wait_until(lambda: unread_bytes(process.stdin) == 0)
    process.send_signal(number)
    process.wait(WAIT_SECONDS)  # with its input still open
    assert process.rest() == (130, "", "2 records written to plain before it stopped\n")
    assert sorted(row["n"] for row in read(root, "plain")) == [1, 2]


@pytest.fixture
def users(root):
    """A topic that takes the event time from a column."""
    with sk.open_log(root) as log:
        config = {"cleanup.policy": "compact"}
        log.create_topic("users", "name string, city string, updated_at timestamp", "name", "updated_at", 1, config)


DELETIONS = {
    "f.csv": "name,city,updated_at,_deleted\nann,Oslo,2025-01-01,\nann,,2025-01-02,true\n",
    "f.jsonl": '{"name": "ann", "city": "Oslo", "updated_at": "2025-01-01"}\n'
    '{"name": "ann", "updated_at": "2025-01-02", "_deleted": true}\n',
}


@pytest.mark.parametrize("options", [(), ("--timestamp-column", "updated_at")], ids=["as is", "named"])
@pytest.mark.parametrize("name", DELETIONS)
def test_a_deletion_keeps_its_time(streamkit, root, users, tmp_path, name, options):
    """The time of a deletion is that of the topic's time column, which may be named with --timestamp-column too."""
    (tmp_path / name).write_text(DELETIONS[name])
    streamkit("produce", "users", str(tmp_path / name), *options)

    assert read(root, "users", "name", "city", "updated_at", "_deleted", "_timestamp")[1] == {
        "name": "ann", "city": None, "updated_at": None, "_deleted": True, "_timestamp": dt.datetime(2025, 1, 2, tzinfo=UTC),
    }  # fmt: skip


def test_another_time_column_is_refused(streamkit, users, tmp_path):
    """A topic that takes the event time from a column takes it from no other."""
    (tmp_path / "f.csv").write_text(DELETIONS["f.csv"])
    with pytest.raises(ConfigError, match=r"--timestamp-column city: topic users has the event time in its column updated_at"):
        streamkit("produce", "users", str(tmp_path / "f.csv"), "--timestamp-column", "city")


def test_a_key_is_enough_to_delete(streamkit, root, users, topic, tmp_path):
    """A deletion in JSON needs the key columns and nothing else; without them, or where the mark is not true, columns are missing."""
    (tmp_path / "f.jsonl").write_text('{"name": "ann", "_deleted": true}\n')
    streamkit("produce", "users", str(tmp_path / "f.jsonl"))
    assert read(root, "users", "name", "_deleted") == [{"name": "ann", "_deleted": True}]

    for record, name in (('{"city": "Oslo", "_deleted": true}', "name"), ('{"name": "ann", "_deleted": false}', "city")):
        (tmp_path / "f.jsonl").write_text(record)
        with pytest.raises(SchemaError, match=f"line 1: the record has no column '{name}'"):
            streamkit("produce", "users", str(tmp_path / "f.jsonl"))


def test_the_help_says_how_to_delete(streamkit):
    """`produce --help` names the column that marks deletions."""
    assert '{"name": "ann", "_deleted": true}' in " ".join(streamkit("produce", "--help").split())


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_records_that_are_too_old_are_told_of(as_program, root, tmp_path, form):
    """Records older than the topic's retention keeps them are written, and counted in a note that says how to keep them."""
    recent = dt.datetime.now(UTC).replace(microsecond=0)
    rows: list[dict[str, Any]] = [
        {"n": 1, "at": dt.datetime(2025, 1, 1, tzinfo=UTC)},
        {"n": 2, "at": recent},
        {"n": 3, "at": dt.datetime(2013, 1, 1, tzinfo=UTC)},
    ]
    texts = [{**row, "at": row["at"].isoformat()} for row in rows]
    lines = {
        "csv": "\n".join(["n,at", *(f"{row['n']},{row['at']}" for row in texts)]),
        "jsonl": "\n".join(map(json.dumps, texts)),
    }
    file = tmp_path / f"f.{form}"
    file.write_bytes(parquet_of(rows) if form == "parquet" else lines[form].encode())
    with sk.open_log(root) as log:
        log.create_topic("events", "n int, at timestamp", timestamp="at", partitions=1)
        log.create_topic("kept", "n int, at timestamp", timestamp="at", partitions=1, config={"retention.ms": -1})
        log.create_topic("newest", "n int, at timestamp", "n", "at", 1, {"cleanup.policy": "compact"})
        log.create_topic("stamped", "n int, at timestamp", None, "at", 1, {"message.timestamp.type": "LogAppendTime"})

    code, out, err = as_program("produce", "events", str(file))
    assert (code, out.startswith("3 records written")) == (0, True)
    assert err == (
        "note: 2 records of events are older than 1 week, which is how long the topic keeps them (retention.ms=604800000): maintenance deletes "
        "them soon. To keep them: streamkit topics alter events --config retention.ms=-1\n"
    )
    for topic in ("kept", "newest", "stamped"):
        assert as_program("produce", topic, str(file))[2] == ""


def test_given_times_that_are_too_old_are_told_of(as_program, root, tmp_path):
    """Times that are given with the records are looked at too; records without a time are those of now."""
    (tmp_path / "f.jsonl").write_text('{"n": 1, "_timestamp": "2025-01-01"}\n{"n": 2, "_timestamp": null}\n')
    with sk.open_log(root) as log:
        log.create_topic("events", "n int", partitions=1)

    assert as_program("produce", "events", str(tmp_path / "f.jsonl"))[2].startswith(
        "note: 1 record of events is older than 1 week"
    )
