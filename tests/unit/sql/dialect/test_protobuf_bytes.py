"""The bytes of Protobuf in the ksql dialect: how null is written, and raw bytes in rows that are given as dicts."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit.sql.script.topology import topology_of
from streamkit.testing import TopologyTestDriver
from tests.unit.sql.dialect.scenarios import HEAD

SOURCE = "CREATE STREAM S (K STRING KEY, T STRING, V INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = '{}', PARTITIONS = 1);"


@pytest.mark.parametrize(
    ("representation", "given", "written"),
    [
        ("", {"T": "x", "V": 0}, "0a0178"),
        ("", {"T": None, "V": None}, ""),
        ("OPTIONAL", {"T": "x", "V": 0}, "0a01781000"),
        ("OPTIONAL", {"T": None, "V": 5}, "1005"),
        ("WRAPPER", {"T": "x", "V": 0}, "0a030a01781200"),
        ("WRAPPER", {"T": None, "V": 5}, "12020805"),
        ("WRAPPER", {"T": None, "V": None}, ""),
    ],
)
def test_null_in_protobuf(representation: str, given: dict[str, Any], written: str) -> None:
    """Null is a field that is not written, and what is not null is the number or text, or a message around it."""
    says = f", VALUE_PROTOBUF_NULLABLE_REPRESENTATION = '{representation}'" if representation else ""
    result = f"CREATE STREAM O WITH (VALUE_FORMAT = 'PROTOBUF_NOSR'{says}) AS SELECT * FROM S;"

    with TopologyTestDriver(topology_of(HEAD + SOURCE.format("JSON") + result, "bytes")) as driver:
        driver.pipe("s", {"key": "k", "value": given})
        found = driver.read_arrow("O")

    assert [value.hex() for value in found["value"].to_pylist()] == [written]


@pytest.mark.parametrize(
    ("format", "value"), [("PROTOBUF_NOSR", b"\n\x01x\x10\x05"), ("AVRO", b"\x02\x02x\x02\x0a"), ("JSON", b'{"T":"x","V":5}')]
)
def test_rows_may_have_bytes(format: str, value: bytes) -> None:
    """A row as a dict may have the bytes of its key and value, whatever the format is."""
    result = "CREATE STREAM O WITH (VALUE_FORMAT = 'JSON') AS SELECT * FROM S;"

    with TopologyTestDriver(topology_of(HEAD + SOURCE.format(format) + result, "bytes")) as driver:
        driver.pipe("s", {"key": b"k", "value": value})
        found = driver.read("O", "key", "value")

    assert found == [{"key": "k", "value": {"T": "x", "V": 5}}]


@pytest.mark.parametrize("representation", ["", "OPTIONAL", "WRAPPER"])
def test_lists_and_maps_that_are_null_are_empty(representation: str) -> None:
    """A message cannot say that they are null, so the row is written with none of their members, whatever WITH says of other columns."""
    says = f", VALUE_PROTOBUF_NULLABLE_REPRESENTATION = '{representation}'" if representation else ""
    source = "CREATE STREAM S (K STRING KEY, V INT, A ARRAY<INT>, M MAP<STRING, INT>, T STRUCT<B ARRAY<INT>>) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');"
    made = f"CREATE STREAM P WITH (VALUE_FORMAT = 'PROTOBUF_NOSR'{says}) AS SELECT * FROM S; CREATE STREAM O WITH (VALUE_FORMAT = 'JSON') AS SELECT * FROM P;"

    with TopologyTestDriver(topology_of(HEAD + source + made, "bytes")) as driver:
        driver.pipe("s", {"key": "k", "value": {"V": None, "A": None, "M": None, "T": {"B": None}}})
        (found,) = driver.read("O", "value")

    none = 0 if not representation else None
    assert found["value"] == {"V": none, "A": [], "M": {}, "T": {"B": []}}
