"""An application that runs while a topic that it reads gets other schemas of Avro: it reads all records into the columns of its start."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import StreamKitError
from tests.kit.waiting import wait_until

FIELDS: list[dict[str, Any]] = [
    {"name": "v", "type": "int"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "n", "type": ["null", "string"], "default": None},
    {"name": "z", "type": ["null", "int"], "default": None},
]
VALUES: list[dict[str, Any]] = [
    {"v": 1, "at": 1_000, "n": "a"},
    {"v": 2, "at": 2_000, "n": "b", "z": 9},
    {"v": 3, "at": 3_000, "z": 9},
]


def plain(app):
    app.stream("t", value_format="avro").to("out")


def by_time(app):
    """The planner reads values, too, since they say where an epoch ends."""
    app.stream("t", value_format="avro", timestamp="at").to("out")


def stored(app):
    app.table("t", value_format="avro").to_stream().to("out")


def counted(app):
    app.stream("t", value_format="avro").group_by("key").agg(v=F.max("v"), n=F.max("n"), store="counts").to("out")


def rows_while_the_schema_changes(declare, name, log, start):
    """The columns v and n that an application writes of a value before its topic got the second schema, of one after it, and of one after the third."""
    schemas = [{"type": "record", "name": name, "fields": [one for one in FIELDS if one["name"] in value]} for value in VALUES]
    log.create_topic("t", format="avro", format_schema=schemas[0], partitions=1)
    app = sk.Topology(name, on_error="skip")
    declare(app)
    run = start(app)
    try:
        for count, (schema, value) in enumerate(zip(schemas, VALUES, strict=True), 1):
            log.alter_topic("t", format_schema=schema)
            with log.producer() as producer:
                producer.send("t", {"key": "k", "value": value})
            wait_until(lambda: not run.is_active or log.describe("out")["rows"] == count)  # noqa: B023 (it is called here alone)
    finally:
        run.stop()
        run.wait()
    return [tuple(row.values()) for row in log.read("out", ["v", "n"]).select(["v", "n"]).to_pylist()]


@pytest.mark.parametrize("declare", [plain, by_time, stored, counted])
def test_no_record_is_left_out(declare):
    """An application gets every record, without fields that the topic got later. A field that a later writer leaves out has its default."""
    with sk.open_log(":memory:") as log:
        found = rows_while_the_schema_changes(
            declare, f"local_{declare.__name__}", log, lambda app: sk.run(app, log=log, engine="local")
        )
    assert found == [(1, "a"), (2, "b"), (3, "b" if declare is counted else None)]


def test_names_in_another_case_are_no_nulls():
    """Who names the fields in another case reads them by their places, which a later schema does not say: that is an error, and no row of nulls."""
    first, second, capitals = (
        {
            "type": "record",
            "name": "Places",
            "fields": [{"name": name, "type": ["null", "int"], "default": None} for name in names],
        }
        for names in ("v", "vz", "V")
    )
    app = sk.Topology("app")
    app.stream("t", value_format="avro", value_schema=capitals).to("out")
    with sk.open_log(":memory:") as log:
        log.create_topic("t", format="avro", format_schema=first, partitions=1)
        run = sk.run(app, log=log, engine="local")
        with log.producer() as producer:
            producer.send("t", {"key": "k", "value": {"v": 1}})
        wait_until(lambda: not run.is_active or log.describe("out")["rows"] == 1)
        log.alter_topic("t", format_schema=second)
        with log.producer() as producer:
            producer.send("t", {"key": "k", "value": {"v": 2, "z": 9}})
        with pytest.raises(StreamKitError, match="names differ in their case only"):
            run.wait()
        assert log.read("out", ["V"])["V"].to_pylist() == [1]
