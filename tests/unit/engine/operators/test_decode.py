"""Opaque topics read as columns: streams, tables and global tables, keys, pruning, and records that do not decode."""

from __future__ import annotations

import json
import re

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import EvaluationError, SchemaError, TopologyError
from streamkit.formats.codec import declare_format
from streamkit.log.dead_letter import dead_letters_of
from streamkit.testing import TopologyTestDriver

ORDERS = "user string, amount double, note string"
NICK = {"type": "record", "name": "N", "fields": [{"name": "nick", "type": "string"}]}


def order(of, amount, **more):
    return {"key": of, "value": {"amount": amount, **more}}


def topology(**options):
    """A stream of JSON with the key's column, a table of CSV with a key of another type, and a global table of Avro."""
    app = sk.Topology("app", **options)
    orders = app.stream("orders", value_format="json", schema=ORDERS, key="user")
    app.table("prices", value_format="csv", schema="id bigint, price double", key="id", store="prices")
    names = app.global_table("names", value_format="avro", value_schema=NICK, key="user")
    orders.join(names, on="user").select("amount", "nick").to("named")
    orders.group_by("user").agg(total=F.sum("amount"), store="totals").emit("every").to("sums")
    return app


@pytest.mark.parametrize("tasks", [1, 3])
def test_bytes_are_columns(tasks):
    """Streams, tables and global tables have the columns of their formats, and keys those of the key's bytes."""
    with TopologyTestDriver(topology(), tasks=tasks) as driver:
        driver.pipe("names", {"key": "u1", "value": {"nick": "one"}})
        driver.pipe("orders", [order("u1", 1.5, user="somebody else"), order("u2", 2), order("u1", 3.5, more=[1])])
        driver.pipe("prices", [{"key": "7", "value": {"id": 7, "price": 1.0}}, {"key": "8", "value": {"id": 8, "price": 2.0}}])
        driver.pipe("prices", {"key": "7", "value": None, "_deleted": True})

        assert driver.read("named", "user", "amount", "nick") == [
            {"user": "u1", "amount": 1.5, "nick": "one"},
            {"user": "u1", "amount": 3.5, "nick": "one"},
        ]
        assert [driver.store("totals").get(user) for user in ("u1", "u2")] == [
            {"user": "u1", "total": 5.0},
            {"user": "u2", "total": 2.0},
        ]
        assert [driver.store("prices").get(number) for number in (7, 8)] == [None, {"id": 8, "price": 2.0}]


def test_a_record_that_does_not_decode_ends_the_run():
    """Unless the topology says otherwise; the error has topic, partition, offset, column and the user's line."""
    with TopologyTestDriver(topology()) as driver:
        driver.pipe("orders", order("u1", 1.0))
        with pytest.raises(
            EvaluationError, match=r"topic orders, partition \d, offset 1, .*column 'amount': found 'much', expected double"
        ):
            driver.pipe("orders", order("u1", "much"))


def test_a_tables_record_that_does_not_decode_ends_the_run():
    """Whatever the topology says of records that fail: a table without one of its changes would be another table."""
    with TopologyTestDriver(topology(on_error="skip")) as driver:
        driver.pipe("prices", {"key": "7", "value": {"id": 7, "price": 1.0}})
        with pytest.raises(EvaluationError, match=r"topic prices, partition \d, offset \d.*the key cannot be read"):
            driver.pipe("prices", {"key": "seven", "value": {"id": 7, "price": 1.0}})


@pytest.mark.parametrize("is_used", [True, False])
def test_records_that_do_not_decode_are_dead_letters(is_used):
    """Whether their columns are used or not, exactly those are left out and kept as they came; the others go on."""
    app = sk.Topology("app", on_error=sk.dead_letter("dead"))
    orders = app.stream("orders", value_format="json", schema="amount double")
    counted = orders.select("amount") if is_used else orders.select()
    counted.to("out")
    with TopologyTestDriver(app, topics={"orders": {"format": declare_format("bytes")}}) as driver:
        values = [b'{"amount":1}', b"nope", b"[2]", b'{"amount":3}', b""]
        driver.pipe("orders", [{"key": b"k", "value": value} for value in values])

        assert len(driver.read("out")) == 2
        letters = [letter for batch in driver.log.scan("dead") for letter in dead_letters_of(batch)]
        assert {letter.offset for letter in letters} == {1, 2, 4} and len(letters) == 3


def test_only_what_is_used_is_decoded():
    """Columns that nobody reads are pruned from the decoder, and keys from what is read."""
    app = sk.Topology("app")
    app.stream("orders", value_format="json", schema=ORDERS, key="user").select_key("note").select("note").to("notes")

    text = app.explain()

    assert "decode json: note" in text[text.rindex("stage 0 (readers)") :]
    assert "source: input 0, columns value" in text[text.rindex("stage 0 (readers)") :]


def test_keys_of_several_columns_are_json():
    """A key of JSON gives its columns by name and type; without key= there is one column of text."""
    app = sk.Topology("app")
    app.stream("a", value_format="string", key_format="json", schema="x bigint, y string, value string", key=["x", "y"]).to(
        "out_a"
    )
    app.stream("b", value_format="bytes").to("out_b")
    with TopologyTestDriver(app) as driver:
        driver.pipe("a", {"key": json.dumps({"x": 1, "y": "z"}), "value": "v"})
        driver.pipe("b", {"key": b"k", "value": b"\xff"})

        assert driver.read("out_a", "x", "y", "value") == [{"x": 1, "y": "z", "value": "v"}]
        assert driver.read("out_b", "key", "value") == [{"key": "k", "value": b"\xff"}]


def test_the_topics_own_schemas_are_used(tmp_path):
    """With no schema given a topic's own says the columns, and values of its earlier ones are read under it."""
    fields = [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"], "default": None}]
    first, second = ({"type": "record", "name": "R", "fields": fields[:count]} for count in (1, 2))
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("t", format="avro", format_schema=first)
        with log.producer() as producer:
            producer.send("t", {"key": "k", "value": {"a": 1}})
        with pytest.raises(SchemaError, match=r"schema\.compatibility is BACKWARD"):
            log.alter_topic("t", format_schema={**first, "fields": [{"name": "c", "type": "string"}]})
        log.alter_topic("t", format_schema=second)
        with log.producer() as producer:
            producer.send("t", {"key": "k", "value": {"a": 2, "b": "x"}})
        app = sk.Topology("app")
        app.stream("t", value_format="avro").to("out")

        sk.run(app, log=log, engine="local", trigger="available_now").wait()

        expected = [{"key": "k", "a": 1, "b": None}, {"key": "k", "a": 2, "b": "x"}]
        assert log.read("out", ["key", "a", "b"]).select(["key", "a", "b"]).to_pylist() == expected
        assert [row["value"] for row in log.decode("t", log.read("t"))] == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_what_cannot_be_read_is_refused():
    """A value format of a topic with columns, a schema without a format, and Avro without a schema are errors at the user's line."""
    app = sk.Topology("app")
    with pytest.raises(TopologyError, match="were given without value_format"):
        app.stream("t", value_schema=NICK)
    with pytest.raises(TopologyError, match="expected key_format="):
        app.stream("t", value_format="json", schema="a int, b int", key=["a", "b"])
    app.stream("t", value_format="avro").to("out")
    with pytest.raises(TopologyError, match="nothing says under which schema they were written"):
        app.explain()
    other = sk.Topology("other")
    other.stream("t", value_format="json", schema="a int").to("out")
    with pytest.raises(TopologyError, match="the topic 't' has columns"):
        TopologyTestDriver(other, topics={"t": {"schema": "a int"}})


@pytest.mark.parametrize("type", ["bigint", "string", "timestamp", "double", "decimal(10,2)", "boolean"])
@pytest.mark.parametrize("part", ["value", "key"])
def test_bytes_are_no_other_type(type, part):
    """Bytes as a column of another type would be written as frames that nobody can read: refused when the topology is compiled."""
    app = sk.Topology("typed")
    if part == "value":
        app.stream("raw", schema="key string, v " + type, key="key", value_format="bytes").to("out")
    else:
        app.stream("raw", schema=f"id {type}, n int", key="id", value_format="json", key_format="bytes").to("out")
    with pytest.raises(
        TopologyError, match=rf"the {part}s of 'raw' are read as bytes, and the column '\w+' is {re.escape(type)}; expected"
    ):
        TopologyTestDriver(app, topics={"raw": {"schema": "key binary, value binary", "key": "key"}})


@pytest.mark.parametrize("format", ["string", "bytes"])
@pytest.mark.parametrize(
    ("schema", "found"), [("a binary, b binary", "a, b"), ("key string, a binary, b binary", "a, b"), ("key binary", "none")]
)
def test_one_text_is_one_column(format, schema, found):
    """A text or bytes as several columns, or as none beside the key, is refused when the topology is compiled."""
    app = sk.Topology("several")
    app.stream("raw", schema=schema, key="key", value_format=format).to("out")
    with pytest.raises(
        TopologyError, match=rf"are read as {format}, which is one column beside the key's; found {found}; expected one"
    ):
        TopologyTestDriver(app, topics={"raw": {"schema": "key binary, value binary", "key": "key"}})


@pytest.mark.parametrize("settings", [None, {"delimiter": ";"}])
def test_a_topic_of_csv_says_how_its_values_lie(tmp_path, settings):
    """Columns that are wanted by name are those, wherever they stand in the values; not the first ones of the same types."""
    with sk.open_log(tmp_path) as log:
        log.create_topic("in", format="csv", format_schema="a int, b int, c string", format_settings=settings)
        with log.producer() as producer:
            producer.send("in", {"key": "k", "value": {"a": 1, "b": 2, "c": "x"}})
        app = sk.Topology("app")
        app.stream("in", value_format="csv", schema="k string, b int", key="k").to("out")
        sk.run(app, log=log, drain=True, engine="local").wait()
        assert [(row["k"], row["b"]) for row in log.read("out").to_pylist()] == [("k", 2)]
