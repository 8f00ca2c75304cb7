"""What leaves the log as JSON, by any sink or as a dead letter: nothing of a row is lost, and its key depends on the row alone."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import struct
from typing import Any

import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.files import FileSink, FileSource
from streamkit.errors import SchemaError
from tests.kit.sampling import TAKES_ALL
from tests.unit.connectors.raw import RECORDS, WRITTEN, ColumnSink, RawSink, RawSource

NAN, INF = math.nan, math.inf
COLUMNS = "id int, f double, g float, a array<double>, s struct<x:double>, m map<string,double>, k map<double,int>"
ROW = {"id": 1, "f": NAN, "g": INF, "a": [NAN, 1.5, None], "s": {"x": -INF}, "m": {"q": NAN}, "k": {INF: 1}}
TEXTS = {
    "id": 1,
    "f": "NaN",
    "g": "Infinity",
    "a": ["NaN", 1.5, None],
    "s": {"x": "-Infinity"},
    "m": {"q": "NaN"},
    "k": {"Infinity": 1},
}
MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 10, dt.timezone.utc)


@pytest.fixture
def log(tmp_path):
    WRITTEN.clear()
    with sk.open_log(tmp_path / "log" if TAKES_ALL else ":memory:") as log:
        log.create_topic("numbers", COLUMNS, key="id", partitions=1)
        yield log


class Refusing(ColumnSink):
    """Takes no row."""

    def put(self, rows, ends):
        if rows.num_rows:
            raise SchemaError("no", tuple(range(rows.num_rows)))


@pytest.mark.parametrize("settings", [{}, {"value.format": "json"}, {"value.format": "json", "value.schema": COLUMNS}], ids=str)
def test_numbers_that_json_has_not_go_out_and_come_back(log, settings):
    """NaN and the infinities leave as texts, at any depth, whatever the settings, and a source reads them as what they were."""
    with log.producer() as producer:
        producer.send("numbers", ROW)

    run([RawSink("out", {"topics": "numbers", **settings})], log, once=True)

    (written,) = WRITTEN["out"]
    assert json.loads(written["value"]) == TEXTS
    RECORDS["back"] = [(written["key"], written["value"])]
    run([RawSource("back", {"topic": "again", "value.format": "json", "value.schema": COLUMNS})], log, once=True)
    assert repr(log.read("again").select(log.topic("numbers").schema.names).to_pylist()) == repr(
        log.read("numbers").select(log.topic("numbers").schema.names).to_pylist()
    )


def test_files_and_dead_letters_have_them_too(log, tmp_path):
    """A file of JSON, and the dead letter of a row with columns."""
    with log.producer() as producer:
        producer.send("numbers", ROW)
    run([FileSink("files", {"topics": "numbers", "path": str(tmp_path / "out"), "format": "json"})], log, once=True)
    run(
        [Refusing("bad", {"topics": "numbers", "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"})],
        log,
        once=True,
    )

    assert json.loads(log.read("dead")["value"][0].as_py()) == TEXTS
    run(
        [FileSource("in", {"topic": "files", "path": str(tmp_path / "out"), "format": "json", "schema": COLUMNS})], log, once=True
    )
    assert repr(log.read("files").select(log.topic("numbers").schema.names).to_pylist()) == repr(
        log.read("numbers").select(log.topic("numbers").schema.names).to_pylist()
    )


KEYS: dict[str, tuple[str, dict[str, Any]]] = {
    "two columns": ("id string, n double", {"id": "é", "n": 1e16}),
    "two, one of them bytes": ("id binary, n decimal(5,2)", {"id": b"\xff", "n": decimal.Decimal("1.50")}),
    "text": ("id string", {"id": "é"}),
    "number": ("id int", {"id": 7}),
    "boolean": ("id boolean", {"id": True}),
    "moment": ("id timestamp", {"id": MOMENT}),
    "date": ("id date", {"id": MOMENT.date()}),
    "bytes": ("id binary", {"id": struct.pack(">q", -2)}),
    "decimal": ("id decimal(5,2)", {"id": decimal.Decimal("1.50")}),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_does_not_depend_on_the_settings_of_the_value(log, name):
    """So a record stays in its partition, and compaction and deletions hit it, whatever the format of values is; a source reads it back."""
    columns, key = KEYS[name]
    log.create_topic("keyed", f"{columns}, v string", key=list(key), partitions=1)
    with log.producer() as producer:
        producer.send("keyed", {**key, "v": "x"})
        producer.delete("keyed", key)
    forms = [{}, {"value.format": "json"}, {"value.format": "csv"}, {"value.format": "string", "value.schema": "v string"}]
    for number, settings in enumerate(forms):
        run([RawSink(f"out{number}", {"topics": "keyed", **settings})], log, once=True)

    found = {row["key"] for number in range(len(forms)) for row in WRITTEN[f"out{number}"]}
    assert len(found) == 1, found
    RECORDS["back"] = [(found.pop(), b'{"v":"x"}')]
    settings = {"topic": "back", "value.format": "json", "value.schema": "v string", "key.schema": columns}
    run([RawSource("back", settings)], log, once=True)
    assert [{name: row[name] for name in key} for row in log.read("back").to_pylist()] == [key]


def test_equal_keys_have_the_same_bytes(log):
    """A deletion of 0.0 deletes the record of -0.0, which is one key in the topic."""
    log.create_topic("zeros", "id double, v string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("zeros", {"id": -0.0, "v": "x"})
        producer.delete("zeros", {"id": 0.0})
    run([RawSink("zeros", {"topics": "zeros"})], log, once=True)
    assert [row["key"] for row in WRITTEN["zeros"]] == [b"0", b"0"]
