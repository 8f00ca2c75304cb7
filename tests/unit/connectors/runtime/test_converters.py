"""Bytes into columns and columns into bytes on the way between a topic and a connector, as `value.format` says."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.kafka import KafkaSink
from streamkit.connectors.runtime.converters import encoder_of_sink
from streamkit.connectors.runtime.outgoing import outgoing
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError, SchemaError
from tests.kit.sampling import TAKES_ALL
from tests.unit.connectors.raw import RECORDS, WRITTEN, ColumnSink, RawSink, RawSource

ORDER = '{"type": "record", "name": "O", "fields": [{"name": "user", "type": "string"}, {"name": "amount", "type": "double"}]}'


@pytest.fixture
def log(tmp_path):
    WRITTEN.clear()
    with sk.open_log(tmp_path / "log" if TAKES_ALL else ":memory:") as log:
        yield log


def order(user, amount):
    return user.encode(), json.dumps({"user": user, "amount": amount}).encode()


def bring(log, records, **config):
    RECORDS["in"] = list(records)
    run([RawSource("in", {"topic": "orders", **config})], log, once=True)


def rows(log, *names):
    return log.read("orders").select(names).to_pylist()


def test_a_topic_that_is_missing_gets_the_columns_of_the_schema(log):
    """With value.schema the topic that is created has columns, keyed by `key`; a deletion has its key from the key's bytes."""
    config = {
        "value.format": "json",
        "value.schema": "user string, amount double",
        "key": "user",
        "topic.config.cleanup.policy": "compact",
    }

    bring(log, [order("a", 1.5), (b"b", b'{"amount":2}'), (b"a", None)], **config)

    assert str(log.topic("orders").schema) == "user string NOT NULL, amount double" and log.topic("orders").key == ("user",)
    assert sorted(rows(log, "user", "amount"), key=str) == sorted(
        [{"user": "a", "amount": 1.5}, {"user": "b", "amount": 2.0}, {"user": "a", "amount": None}], key=str
    )


def test_a_null_in_a_key_column_is_no_key_there(log):
    """A key column that the value lacks, or has as null, is that of the key's bytes; where these are null too, the record is refused."""
    config = {"value.format": "json", "value.schema": "user string, amount double", "key": "user"}
    values = [b'{"user": null, "amount": 1}', b'{"amount": 2}', b'{"user": "c", "amount": 3}']
    bring(log, [(b"k%d" % number, value) for number, value in enumerate(values)], **config)
    assert sorted(rows(log, "user", "amount"), key=str) == [
        {"user": "c", "amount": 3.0}, {"user": "k0", "amount": 1.0}, {"user": "k1", "amount": 2.0},
    ]  # fmt: skip
    with pytest.raises(SchemaError, match="user"):
        bring(log, [*((b"", values[2]),) * 3, (None, values[0])], **config)


@pytest.mark.parametrize(
    ("settings", "kafka"),
    [
        ({}, "orders"),
        ({"kafka.topic": "shop"}, "shop"),
        ({"kafka.topic": "shop.${topic}"}, "shop.orders"),
        (
            {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": ".*", "transforms.r.replacement": "b"},
            "b",
        ),
    ],
)
def test_schemas_are_registered_where_readers_look(log, settings, kafka):
    """The subjects of a sink to Kafka are those of Kafka's topic, of values and of keys, whatever the log calls it."""
    log.create_topic("orders", "id int, amount double", key="id")
    formats = {"value.format": "avro", "key.format": "avro", "schema.registry.url": "http://127.0.0.1:1"}
    sink = KafkaSink("out", {"topics": "orders", "bootstrap.servers": "127.0.0.1:1", **formats, **settings})

    encoder = encoder_of_sink(sink, outgoing(sink, log.topic("orders")))

    assert (encoder.value.subject(), encoder.key.subject()) == (f"{kafka}-value", f"{kafka}-key")


def test_a_topic_that_is_there_says_its_columns(log):
    """Without value.schema the columns and types are those of the topic."""
    log.create_topic("orders", "user string, amount decimal(10,2)", key="user")

    bring(log, [order("a", 1.5), (b"b", b'{"amount":"2.25"}')], **{"value.format": "json"})

    assert [str(row["amount"]) for row in sorted(rows(log, "user", "amount"), key=str)] == ["1.50", "2.25"]


def test_without_columns_the_topic_keeps_bytes_of_the_format(log):
    """A format alone makes an opaque topic of that format."""
    bring(log, [order("a", 1.5)], **{"value.format": "json"})

    assert log.topic("orders").format.name == "json"
    assert log.decode("orders", log.read("orders"))[0]["value"] == {"user": "a", "amount": 1.5}


@pytest.mark.parametrize("format", ["json", "avro"])
def test_records_that_do_not_decode_stop_or_are_dead_letters(log, format):
    """The error names topic, partition and offset; with tolerance exactly those records are kept as they came."""
    schema = ORDER if format == "avro" else "user string, amount double"
    good = order("a", 1.5)[1] if format == "json" else b"\x02a" + bytes(8)
    records = [(b"k", good), (b"k", b"junk"), (b"k", good), (b"k", b"")]
    config = {"value.format": format, "value.schema": schema}

    with pytest.raises(SchemaError, match="topic foreign, partition 0, offset 1, VALUE_CONVERTER: the value cannot be read"):
        bring(log, records, **config)
    bring(log, records, **config, **{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"})

    assert len(rows(log, "user")) == 2
    assert sorted(log.read("dead")["value"].to_pylist()) == [b"", b"junk"]


def test_rows_go_out_in_the_format(log):
    """A raw sink gets values of value.format and keys of text, or of key.format; a deletion has no value."""
    log.create_topic("orders", "user string NOT NULL, amount double", key="user", partitions=1)
    with log.producer() as producer:
        producer.send_batch("orders", [{"user": "a", "amount": 1.5}])
        producer.delete("orders", {"user": "a"})

    run([RawSink("avro", {"topics": "orders", "value.format": "avro", "value.schema": ORDER})], log, once=True)
    run(
        [RawSink("csv", {"topics": "orders", "value.format": "csv", "value.format.delimiter": ";", "key.format": "json"})],
        log,
        once=True,
    )

    assert [(row["key"], row["value"]) for row in WRITTEN["avro"]] == [
        (b"a", b"\x02a\x00\x00\x00\x00\x00\x00\xf8?"),
        (b"a", None),
    ]
    assert [(row["key"], row["value"]) for row in WRITTEN["csv"]] == [(b'{"user":"a"}', b"a;1.5"), (b'{"user":"a"}', None)]


def test_columns_that_go_out(log):
    """A format of one column writes the only one outside of the key, or that of value.schema, which also chooses of other formats."""
    log.create_topic("orders", "user string NOT NULL, amount double", key="user", partitions=1)
    log.create_topic("wide", "a int, b int, c string", key=["a", "b"], partitions=1)
    with log.producer() as producer:
        producer.send("orders", {"user": "a", "amount": 1.5})
        producer.send("wide", {"a": 1, "b": 2, "c": "x"})
    for name, config, expected in (
        ("only", {"topics": "orders", "value.format": "string"}, b"1.5"),
        ("named", {"topics": "wide", "value.format": "bytes", "value.schema": "b int"}, b"2"),
        ("csv", {"topics": "wide", "value.format": "csv", "value.schema": "c string, a int"}, b"x,1"),
        ("json", {"topics": "wide", "value.format": "json", "value.schema": "a int"}, b'{"a":1}'),
    ):
        run([RawSink(name, config)], log, once=True)
        assert [row["value"] for row in WRITTEN[name]] == [expected]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"value.format": "string"},
            r"value\.format=string writes one column, and found a, b, c, d; expected value\.schema .* such as c string",
        ),
        ({"value.format": "json", "value.schema": "z int"}, r"topic wide has no column 'z' of value\.schema; it has a, b, c, d"),
        (
            {"value.format": "json", "key.format": "string"},
            r"key\.format=string writes one column, and the key of topic wide has a, b",
        ),
    ],
)
def test_columns_that_would_be_left_out(log, config, message):
    """No column is left out unasked, and none that is missing is written as null."""
    log.create_topic("wide", "a int, b int, c string, d string", key=["a", "b"], partitions=1)
    with log.producer() as producer:
        producer.send("wide", {"a": 1, "b": 2, "c": "x", "d": "y"})
    with pytest.raises(ConfigError, match=message):
        run([RawSink("out", {"topics": "wide", **config})], log, once=True)


def test_rows_that_do_not_fit_the_schema_going_out_are_named(log):
    """A row that the value's schema cannot hold stops the task with its place, or is a dead letter."""
    log.create_topic("orders", "user string, amount double", key="user", partitions=1)
    with log.producer() as producer:
        producer.delete("orders", {"user": "z"})
        producer.send_batch("orders", [{"user": "a", "amount": None}, {"user": "b", "amount": 2.5}])
    config = {"topics": "orders", "value.format": "avro", "value.schema": ORDER}

    with pytest.raises(SchemaError, match="topic orders, partition 0, offset 1, VALUE_CONVERTER"):
        run([RawSink("out", config)], log, once=True)
    run([RawSink("out", {**config, "errors.tolerance": "all"})], log, once=True)

    assert [(row["key"], row["value"] and row["value"][:2]) for row in WRITTEN["out"]] == [(b"z", None), (b"b", b"\x02b")]


def test_an_opaque_topic_goes_out_as_columns(log):
    """A sink of columns hears of the columns of value.schema, and gets them; without a schema it gets bytes."""
    ColumnSink.heard.clear()
    log.create_topic("orders", format="json", partitions=1)
    with log.producer() as producer:
        producer.send("orders", {"key": "u", "value": {"user": "a", "amount": 1.5}})
        producer.delete("orders", {"key": "u"})

    run([ColumnSink("columns", {"topics": "orders", "value.schema": "user string, amount double", "key": "id"})], log, once=True)
    run([ColumnSink("bytes", {"topics": "orders"})], log, once=True)

    assert str(ColumnSink.heard[0].schema) == "id string, user string, amount double" and ColumnSink.heard[0].key == ("id",)
    found = [[row[name] for name in ("id", "user", "amount", "_deleted")] for row in WRITTEN["columns"]]
    assert found == [["u", "a", 1.5, False], ["u", None, None, True]]
    assert WRITTEN["bytes"][0]["value"] == b'{"user":"a","amount":1.5}'


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"value.format": "xml"}, "there is no format 'xml'"),
        ({"value.format": "avro"}, "value.format=avro was given no schema; expected schema.registry.url, or value.schema"),
        ({"value.format": "avro", "value.schema": "n int"}, "columns in SQL, 'n int', .* or value.schema with a schema of avro"),
        ({"value.schema": "a int"}, "without value.format"),
        ({"value.format": "json", "value.colour": "red"}, "a format has no setting 'colour'"),
        ({"value.format": "json", "schema.registry.basic.auth.user.info": "a:b"}, "without schema.registry.url"),
    ],
)
def test_settings_that_do_not_fit_are_refused(log, config, message):
    """Each message names the setting, and what is expected."""
    with pytest.raises(ConfigError, match=message):
        bring(log, [order("a", 1.0)], **config)


def test_columns_with_names_of_our_own(log):
    """A value with a column that would vanish is refused."""
    config = {"value.format": "json", "value.schema": "user string, _deleted boolean"}
    with pytest.raises((ConfigError, SchemaError), match="_deleted"):
        bring(log, [(b"k", b'{"user": "a", "_deleted": true}')], **config)


def test_bytes_that_nothing_decodes_are_no_columns_of_a_topic(log):
    """Where transforms make other columns, those of the topic say nothing of values: the error asks for value.schema."""
    log.create_topic("orders", "name string, place string")
    renamed = {
        "transforms": "t",
        "transforms.t.type": "RegexRouter",
        "transforms.t.regex": "raw",
        "transforms.t.replacement": "orders",
    }
    with pytest.raises(
        ConfigError, match=r"topic orders has the columns name, place, and nothing says .* expected .*value\.schema"
    ):
        bring(log, [(b"k", b'{"name": "a"}')], **{"value.format": "json", "topic": "raw", **renamed})
    inserted = {
        "transforms": "t", "transforms.t.type": "InsertField$Value", "transforms.t.static.field": "place", "transforms.t.static.value": "x",
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"needs a value of columns; found one that is binary"):
        bring(log, [(b"k", b'{"name": "a"}')], **{"value.format": "json", **inserted})
    bring(log, [(b"k", b'{"name": "a"}')], **{"value.format": "json", "value.schema": "name string", **inserted})
    assert rows(log, "name", "place") == [{"name": "a", "place": "x"}]


KEYS = [
    ({"key.format": "json", "key.schema": "id bigint"}, b'{"id": 7}', "id bigint NOT NULL"),
    ({"key.schema": "id bigint"}, b"7", "id bigint NOT NULL"),
    (
        {"key.format": "json", "key.schema": "id bigint, at timestamp"},
        b'{"id": 7, "at": "2026-01-01T00:00:00Z"}',
        "id bigint NOT NULL, at timestamp NOT NULL",
    ),
    ({"key.format": "json", "key.schema": "id bigint", "key": "id"}, b'{"id": 7}', "id bigint NOT NULL"),
    ({"key": "id"}, b"7", "id string NOT NULL"),
]


@pytest.mark.parametrize(("settings", "key", "columns"), KEYS)
def test_types_of_keys(log, settings, key, columns):
    """Where the value has no such column, key.schema says the type; deletions and a second poll have it too; else it is text."""
    config = {"value.format": "json", "value.schema": "v int", **settings}
    bring(log, [(key, b'{"v": 1}'), (key, None)], **config)
    bring(log, [(key, b'{"v": 1}'), (key, None), (key, b'{"v": 3}')], **config)
    assert str(log.topic("orders").schema) == f"{columns}, v int"
    wanted = "7" if "string" in columns else 7
    assert [(row["id"], row["v"]) for row in rows(log, "id", "v")] == [(wanted, 1), (wanted, None), (wanted, 3)]


def test_a_key_of_another_type_than_text(log):
    """The error says which setting says the type."""
    with pytest.raises(SchemaError, match=r"found 7, expected string; key\.schema says the types"):
        bring(
            log,
            [(b'{"id": 7}', b'{"v": 1}')],
            **{"value.format": "json", "value.schema": "v int", "key.format": "json", "key": "id"},
        )


def test_key_columns_are_said_once():
    """key.schema with other columns than key, and one that is no schema, are errors before anything runs."""
    for settings in ({"key": "id", "key.schema": "di bigint"}, {"key.schema": "id nonsense"}):
        with pytest.raises(ConfigError, match=r"key\.schema='"):
            RawSource("in", {"topic": "orders", **settings})


VALUES = [
    b"", b"null", b"5", b'"x"', b"[1]", b"{}", b"{", b'{"id":1.0}', b'{"id":"1"}', b'{"id":9223372036854775808}', b'{"id":1e400}', b'{"id":true}',
    b'{"d":0.12345678901234567890}', b'{"d":1e40}', b'{"d":"x"}', b'{"at":1e18}', b'{"at":""}', b'{"at":[1]}', b'{"at":99999999999999999}',
    b'{"day":"2026-13-01"}', b'{"day":10}', b'{"raw":"?"}', b'{"raw":5}', b'{"tags":5}', b'{"tags":[1]}', b'{"tags":[[]]}', b'{"tags":{"a":1}}',
    b'{"m":{"a":"x"}}', b'{"m":[1]}', b'{"m":{"a":1e30}}', b'{"u":{"x":"y"}}', b'{"u":5}', b'{"u":{"z":1}}', b'{"u":{"y":[{"a":1}]}}', b'{"id":1,"id":2}',
    b"\xff", b'{"s":"\xff"}', b'{"s":"\\ud800"}', b'{"s":5}', b'{"s":{}}', b'{"f":1e39}', b'{"f":"x"}', b'{"f":NaN}', b'{"b":1}', b'{"b":"true"}',
    b'{"n":40000}',
]  # fmt: skip
COLUMNS = (
    "id bigint, n smallint, s string, f float, b boolean, d decimal(38,19), at timestamp, day date, raw binary, tags array<string>, m map<string,int>, "
    "u struct<x: int, y: array<double>>"
)


WAYS = (
    {"value.schema": COLUMNS},
    {"value.schema": COLUMNS, "key": "id"},
    {"key": "id"},
    {"key.schema": "k int", "value.schema": COLUMNS},
)


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_any_value_is_read_or_refused_with_its_place(log, tmp_path, way):
    """No error of a library comes through: each value lands, or is refused with topic, partition and offset, and the others come."""
    settings = WAYS[way]
    if "value.schema" not in settings:
        log.create_topic("orders", COLUMNS.replace("id bigint", "id bigint NOT NULL"), key="id")
    settings = {"value.format": "json", **settings}
    bring(
        log,
        [(str(number).encode(), value) for number, value in enumerate(VALUES)],
        **settings,
        **{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"},
    )
    refused = log.read("bad", columns=["value", "_headers"]).to_pylist()
    assert log.read("orders").num_rows + len(refused) == len(VALUES)
    for number, letter in enumerate(refused):
        said = {pair["key"]: pair["value"].decode() for pair in letter["_headers"]}
        assert "Arrow" not in said["__connect.errors.exception.message"], said
        if not TAKES_ALL and VALUES.index(letter["value"]) % len(WAYS) not in (way, (way + 1) % len(WAYS)):
            continue  # alone it is refused in two of the ways
        folder = tmp_path / f"one-{number if TAKES_ALL else 0}"  # a task that is refused leaves nothing behind for the next
        with sk.open_log(folder) as one, pytest.raises(SchemaError, match="topic foreign, partition 0, offset 0"):
            RECORDS["in"] = [(b"1", letter["value"])]
            one_source = RawSource("in", {"topic": "orders", "value.schema": COLUMNS, **settings})
            SourceTask(one_source, 0, 1, one, is_once=True).run(Orders())
