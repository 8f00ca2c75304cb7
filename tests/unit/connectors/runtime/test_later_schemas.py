"""A sink that runs while its topic gets another schema: it puts every record, each by the schema under which it was written."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import Any

import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.files import FileSink
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.task import Orders
from tests.kit.waiting import wait_until
from tests.unit.connectors.raw import WRITTEN, ColumnSink

TOLERANCE = pytest.mark.parametrize("tolerance", ["none", "all"])
FIELDS: list[dict[str, Any]] = [
    {"name": "v", "type": "int"},
    {"name": "n", "type": ["null", "string"], "default": None},
    {"name": "z", "type": ["null", "int"], "default": None},
]


def schema(name, *fields):
    """A record with some of the fields; each test has its own name, so that no test knows the schemas of another."""
    return {"type": "record", "name": name, "fields": [one for one in FIELDS if one["name"] in fields]}


@pytest.fixture
def log(tmp_path):
    WRITTEN.clear()
    with sk.open_log(tmp_path / "log") as log:
        yield log


def send(log, *values):
    with log.producer() as producer:
        for number, value in enumerate(values):
            producer.send("t", {"key": f"k{number}", "value": value})


@contextmanager
def running(sink, log):
    """The sink's task in a thread of its own; what it raises is raised at the end."""
    orders, failures = Orders(), []

    def run():
        try:
            SinkTask(sink, 0, 1, log).run(orders)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: not thread.is_alive()
    finally:
        orders.stop.set()
        thread.join()
    for failure in failures:
        raise failure


@TOLERANCE
def test_the_columns_are_those_of_its_start(log, tolerance):
    """The sink gets every record, without fields that the topic got later. A field that a writer leaves out has its default."""
    name = f"columns_{tolerance}"
    log.create_topic("t", format="avro", format_schema=schema(name, "v", "n"), partitions=1)
    send(log, {"v": 1, "n": "a"})
    said = {"value.schema": json.dumps(schema(name, "v", "n"))}
    with running(ColumnSink("out", {"topics": "t", "errors.tolerance": tolerance, **said}), log) as is_over:
        wait_until(lambda: WRITTEN.get("out") or is_over())
        log.alter_topic("t", format_schema=schema(name, "v", "n", "z"))
        send(log, {"v": 2, "n": "b", "z": 9})
        log.alter_topic("t", format_schema=schema(name, "v", "z"))
        send(log, {"v": 3, "z": 9}, None)
        wait_until(lambda: len(WRITTEN.get("out", ())) == 4 or is_over())
    assert [(row["v"], row["n"], "z" in row) for row in WRITTEN["out"]] == [
        (1, "a", False),
        (2, "b", False),
        (3, None, False),
        (None, None, False),
    ]


def test_a_schema_of_the_settings_reads_what_the_topic_had_before(log):
    """Values that do not say their schema are of the topic's first one, whatever schema the sink names."""
    log.create_topic("t", format="avro", format_schema=schema("before", "v"), partitions=1)
    send(log, {"v": 1})
    log.alter_topic("t", format_schema=schema("before", "v", "n"))
    send(log, {"v": 2, "n": "b"})
    run([ColumnSink("out", {"topics": "t", "value.schema": json.dumps(schema("before", "v", "n"))})], log, once=True)
    assert [(row["v"], row["n"]) for row in WRITTEN["out"]] == [(1, None), (2, "b")]


@TOLERANCE
def test_values_without_columns_are_what_was_written(log, tmp_path, tolerance):
    """A file of JSON has the fields that its topic gets later, as if the sink had begun then."""
    log.create_topic("t", format="avro", format_schema=schema(f"values_{tolerance}", "v"), partitions=1)
    path = tmp_path / "out"

    def lines():
        return [
            json.loads(line)["value"] for file in sorted(path.glob("**/[!.]*.jsonl")) for line in file.read_text().splitlines()
        ]

    sink = FileSink("out", {"topics": "t", "path": str(path), "format": "json", "errors.tolerance": tolerance})
    send(log, {"v": 1})
    with running(sink, log) as is_over:
        wait_until(lambda: lines() or is_over())
        log.alter_topic("t", format_schema=schema(f"values_{tolerance}", "v", "z"))
        send(log, {"v": 2, "z": 9})
        wait_until(lambda: len(lines()) == 2 or is_over())
    assert lines() == [{"v": 1}, {"v": 2, "z": 9}]


@TOLERANCE
@pytest.mark.parametrize("format", ["json", "protobuf"])
def test_other_formats_need_no_schema_of_the_writer(log, tolerance, format):
    """Fields of JSON and Protobuf have names or numbers, by which a reader leaves out what it does not know."""
    file = 'syntax = "proto3"; message R { optional int32 v = 1; %s }'
    first, second = file % "", file % "optional int32 z = 2;"
    if format == "json":
        first, second = (
            json.dumps({"type": "object", "properties": {one: {"type": "integer"} for one in names}}) for names in ("v", "vz")
        )
    none = {"schema.compatibility": "NONE"}
    log.create_topic("t", format=format, format_schema=first, format_settings=none, partitions=1)
    send(log, {"v": 1})
    said = {"value.format": format, "value.schema": first}
    with running(ColumnSink("out", {"topics": "t", "errors.tolerance": tolerance, **said}), log) as is_over:
        wait_until(lambda: WRITTEN.get("out") or is_over())
        log.alter_topic("t", format_schema=second)
        send(log, {"v": 2, "z": 9})
        wait_until(lambda: len(WRITTEN.get("out", ())) == 2 or is_over())
    assert [(row["v"], "z" in row) for row in WRITTEN["out"]] == [(1, False), (2, False)]


@TOLERANCE
def test_a_topic_with_columns(log, tolerance):
    """Frames say their own columns: a topic that gets one is read with those of the start."""
    log.create_topic("t", "v int, n string", partitions=1)

    def rows(*given):
        with log.producer() as producer:
            producer.send_batch("t", list(given))

    rows({"v": 1, "n": "a"})
    with running(ColumnSink("out", {"topics": "t", "errors.tolerance": tolerance}), log) as is_over:
        wait_until(lambda: WRITTEN.get("out") or is_over())
        log.alter_topic("t", schema="v bigint, n string, z int")
        rows({"v": 2, "n": "b", "z": 9})
        wait_until(lambda: len(WRITTEN.get("out", ())) == 2 or is_over())
    assert [(row["v"], row["n"]) for row in WRITTEN["out"]] == [(1, "a"), (2, "b")]
