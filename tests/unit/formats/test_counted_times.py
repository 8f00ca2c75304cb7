"""A whole number for a time is milliseconds since 1970, whoever converts it; a fraction, a truth and a number for a date are errors."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import SchemaError, StreamKitError
from streamkit.expressions.python.python_functions import exact_array
from streamkit.formats.codec import Codec, declare_format
from streamkit.log.rows.conversion import convert_arrow, convert_python
from streamkit.schema import Schema, SchemaColumn
from streamkit.testing import TopologyTestDriver

MS = 1_704_110_400_123
TIME = dt.datetime(2024, 1, 1, 12, 0, 0, 123_000, dt.timezone.utc)
AVRO = {"type": "record", "name": "R", "fields": [{"name": "at", "type": "long"}]}
PROTO = 'syntax = "proto3"; message R { int64 at = 1; }'


def by_format(name, schema=None):
    def read(value, type):
        format = declare_format(name, schema)
        writer = Codec(format) if schema else None
        data = writer.value_writer()({"at": value}) if writer else json.dumps({"at": value}).encode()
        data = data if name not in ("csv", "string") else str(value).encode()
        return Codec(format, Schema.parse(f"at {type}")).decode(pa.array([data]))["at"][0].as_py()

    return read


def by_function(function):
    def read(value, type):
        app = sk.Topology("app")
        stream = app.stream("s", schema="k string, ms bigint", key="k")
        function(stream, value, type).to("o")
        with TopologyTestDriver(app) as driver:
            driver.pipe("s", {"k": "a", "ms": 0})
            return driver.read("o", "at")[0]["at"]

    return read


def by_processor(stream, value, type):
    class Process(sk.Processor):
        def init(self, context):
            self.context = context
            self.store = context.store("seen")

        def process(self, record):
            self.store.put(value, {"seen": value})
            self.context.forward({"k": "a", "at": self.store.get(value)["seen"]})

    stores = [sk.key_value_store("seen", key=f"k {type}", value=f"seen {type}")]
    return stream.process(Process, f"k string, at {type}", key="k", stores=stores)


def by_topic(value, type):
    app = sk.Topology("app")
    app.stream("s", schema=f"k string, at {type}", key="k").to("o")
    with TopologyTestDriver(app) as driver:
        driver.pipe("s", {"k": "a", "at": value})
        return driver.read("o", "at")[0]["at"]


WAYS = {
    "a row of a producer": by_topic,
    "a list": lambda value, type: convert_python(SchemaColumn("at", type), [value])[0].as_py(),
    "a list with others": lambda value, type: convert_python(SchemaColumn("at", type), [value, TIME.replace(tzinfo=None), None])[0].as_py(),
    "a Series": lambda value, type: convert_python(SchemaColumn("at", type), pd.Series([value]))[0].as_py(),
    "Arrow": lambda value, type: convert_arrow(SchemaColumn("at", type), pa.array([value]))[0].as_py(),
    "nested": lambda value, type: convert_python(SchemaColumn("at", f"array<{type}>"), [[value]])[0].as_py()[0],
    "a number of numpy": lambda value, type: convert_python(SchemaColumn("at", type), [np.array([value])[0]])[0].as_py(),
    "a function": by_function(lambda stream, value, type: stream.select("k", at=F.udf(lambda _: value, type)("ms"))),
    "a function of rows": by_function(lambda stream, value, type: stream.map_values(lambda _: {"at": value}, f"at {type}")),
    "a function of batches": by_function(
        lambda stream, value, type: stream.map_values(lambda b: {"at": pa.array([value] * b.num_rows)}, f"at {type}", by="batch")
    ),
    "a nested value of a function": lambda value, type: exact_array(
        [{"x": [(1, value)]}], pa.struct([("x", pa.map_(pa.int32(), SchemaColumn("x", type).arrow.type))])
    )[0].as_py()["x"][0][1],
    "a processor": by_function(by_processor),
    "JSON": by_format("json"),
    "Avro": by_format("avro", AVRO),
    "Protobuf": by_format("protobuf", PROTO),
    "text": by_format("string"),
}  # fmt: skip


@pytest.mark.parametrize("type", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("way", WAYS)
def test_whole_numbers_are_milliseconds(way, type):
    """Producers, functions, processors, stores and formats convert alike."""
    if way == "Protobuf":
        pytest.importorskip("grpc_tools")
    assert WAYS[way](MS, type) == (TIME if type == "timestamp" else TIME.replace(tzinfo=None))


@pytest.mark.parametrize(("value", "type"), [(1.5, "timestamp"), (True, "timestamp"), (19_723, "date"), (1.0, "timestamp_ntz")])
@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("Avro", "Protobuf", "text")])
def test_other_numbers_are_refused(way, value, type):
    """Neither a fraction, as of time.time(), nor a truth, nor a number for a date is guessed at."""
    with pytest.raises((StreamKitError, TypeError, ValueError, pa.ArrowException)):
        WAYS[way](value, type)


@pytest.mark.parametrize("value", [(1 << 63) - 1, -(1 << 63), 9_223_372_036_854_776])
def test_numbers_beyond_all_times_are_refused(value):
    """Nothing wraps around: microseconds in 64 bits hold no such time."""
    for way in ("a list", "Arrow", "JSON", "Avro"):
        with pytest.raises(SchemaError):
            WAYS[way](value, "timestamp")


def test_times_as_whole_numbers_are_milliseconds_too():
    """What Avro has as a time is in milliseconds where a bigint is wanted; what lies between two is an error."""
    field = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
    format = declare_format("avro", {"type": "record", "name": "R", "fields": [field]})
    values = Codec(format).value_writer()

    codec = Codec(format, Schema.parse("at bigint"))
    assert codec.decode(pa.array([values({"at": TIME})]))["at"].to_pylist() == [MS]
    with pytest.raises(SchemaError):
        codec.decode(pa.array([values({"at": TIME.replace(microsecond=1)})]))


def test_a_key_of_a_view_is_found_by_milliseconds(tmp_path):
    """Who asks a store for a time by its number means the same time."""
    with sk.open_log(tmp_path) as log:
        log.create_topic("s", "at timestamp, n int", key="at", config={"retention.ms": -1})
        with log.producer() as producer:
            producer.send("s", {"at": MS, "n": 1}, timestamp_ms=MS)
        app = sk.Topology("app")
        app.table("s", store="t")
        sk.run(app, log=log, engine="local", drain=True).wait()

        found = log.store("app", "t")
        assert found.get(MS) == found.get(TIME) == found.to_arrow().to_pylist()[0]
