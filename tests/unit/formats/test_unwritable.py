"""Values that a format cannot hold: each is a failure of its record, whatever it is and however deep, and no run ends by one."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.data_type import to_arrow
from streamkit.errors import SchemaError
from streamkit.formats.avro_schema import avro_of
from streamkit.formats.codec import Codec, declare_format
from streamkit.formats.json_schema import json_schema_of
from streamkit.formats.protobuf_schema import protobuf_of
from streamkit.schema import Schema
from tests.kit.sampling import TAKES_ALL

LEAVES = {
    "bigint": (0, -1, (1 << 63) - 1),
    "int": (0, 5),
    "double": (0.5, float("nan"), float("-inf"), 1e308),
    "float": (1.5, float("inf")),
    "boolean": (True, False),
    "string": ("", 'a,"\n', "é\0"),
    "binary": (b"", b"\xff\0"),
    "decimal(10,2)": (0,),
    "timestamp": (0, 1 << 60, -(1 << 60)),  # years beyond Python's among them
    "date": (0, 4_000_000, -1_000_000),
}
SCHEMAS = {"avro": avro_of, "json": json_schema_of, "protobuf": protobuf_of, "csv": lambda columns: columns.ddl()}


def some_type(choose, depth):
    kind = choose.choice(("leaf", "leaf", "array", "map", "struct")) if depth else "leaf"
    if kind == "array":
        return f"array<{some_type(choose, depth - 1)}>"
    if kind == "map":
        return f"map<string, {some_type(choose, depth - 1)}>"
    if kind == "struct":
        return f"struct<x: {some_type(choose, depth - 1)}, y: {some_type(choose, depth - 1)}>"
    return choose.choice(list(LEAVES))


def some_value(choose, kind):
    """A value of a type of Arrow, of which a fifth of the parts are null."""
    if choose.random() < 0.2:
        return None
    if pa.types.is_list(kind):
        return [some_value(choose, kind.value_type) for _ in range(choose.randint(0, 3))]
    if pa.types.is_map(kind):
        return [(choose.choice(("", "a", "b")), some_value(choose, kind.item_type)) for _ in range(choose.randint(0, 2))]
    if pa.types.is_struct(kind):
        return {field.name: some_value(choose, field.type) for field in kind}
    return choose.choice(next(values for name, values in LEAVES.items() if to_arrow(name) == kind))


@pytest.mark.parametrize("name", [*SCHEMAS, "string", "bytes"])
def test_random_values(name):
    """Each row is written by itself, or refused as one that does not fit; a batch is written if each of its rows is."""
    choose = random.Random(None if TAKES_ALL else name)
    written = refused = 0
    for _ in range(500 if TAKES_ALL else 40):
        depth = 3 if name in ("avro", "json", "protobuf") else 0
        kinds = [some_type(choose, depth) for _ in range(1 if name in ("string", "bytes") else 3)]
        if name in ("string", "bytes"):
            kinds = ["string" if name == "string" else "binary"]
        columns = Schema.parse(", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds)))
        try:
            text = SCHEMAS[name](columns) if name in SCHEMAS else None
            codec = Codec(declare_format(name, text), columns)
        except SchemaError:  # such as lists of lists, which Protobuf has not
            continue
        rows = pa.RecordBatch.from_arrays(
            [pa.array([some_value(choose, one.arrow.type) for _ in range(6)], one.arrow.type) for one in columns], columns.names
        )
        fits = []
        for row in range(rows.num_rows):
            try:
                assert codec.encode(rows.slice(row, 1))[0].is_valid or name in ("string", "bytes")
                fits.append(row)
            except SchemaError:
                refused += 1
        written += len(fits)
        assert len(codec.encode(rows.take(pa.array(fits, pa.int64())))) == len(fits)
        if len(fits) < rows.num_rows:
            with pytest.raises(SchemaError):
                codec.encode(rows)
    assert written > 20
    assert refused or name in ("string", "bytes", "csv")


@pytest.mark.parametrize("name", ["protobuf", "avro", "json"])
def test_a_run_goes_on_without_them(tmp_path, name):
    """Nulls in lists of structs, in maps and in place of them, and times beyond all years: what the format has not is left out, and the run ends well."""
    log = sk.open_log(tmp_path / "log")
    log.create_topic("all", "k string, c array<struct<f: bigint>>, m map<string, struct<f: bigint>>, t timestamp", key="k")
    rows = [
        {"k": "good", "c": [{"f": 1}, {"f": None}], "m": {"a": {"f": None}}, "t": None},
        {"k": "list", "c": [{"f": 1}, None], "m": {}, "t": None},
        {"k": "map", "c": [], "m": {"a": None}, "t": None},
        {"k": "none", "c": None, "m": None, "t": None},
    ]
    with log, log.producer() as producer:
        producer.send_batch("all", rows)
        far = pa.table({name: [None] for name in "kcm"} | {"t": pa.array([1 << 60], pa.timestamp("us", tz="UTC"))})
        far = far.cast(pa.schema([log.topic("all").schema[name].arrow for name in "kcmt"]))
        far = far.set_column(0, "k", [["far"]])
        producer.send_batch("all", far)
        producer.flush()
        app = sk.Topology("app", on_error="skip")
        app.stream("all").to("out", value_format=name)
        sk.run(app, log=log, drain=True, engine="local").wait()
        found = {row["key"] for row in log.read("out").to_pylist()}
    assert b"good" in found
    assert (b"list" in found, b"map" in found, b"none" in found) == (name != "protobuf",) * 3
