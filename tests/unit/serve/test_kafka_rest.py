"""Records as Kafka's REST proxies write and read them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from streamkit.serve.kafka_rest import V2, V2_BINARY, V2_JSON
from tests.unit.serve.conftest import ORDERS, serving


@pytest.fixture
def proxy(log):
    with serving(log, allows_changes=True) as client:
        yield client


def posted(client, path, value, form):
    headers = {"Content-Type": form, "Accept": f"{V2}, */*;q=0.1"}
    return client.post(path, content=json.dumps(value), headers=headers)


def test_columns_come_from_key_and_value(log, proxy):
    """The key may be alone, an object, or among the columns; each record has its place in the answer, where it is then read."""
    rows = [
        {"key": "k1", "value": {"id": 1_001, "amount": 1.5}},
        {"key": {"customer": "k2"}, "value": {"id": 1_002, "amount": None}},
        {"value": {"id": 1_003, "customer": "k3", "amount": 2.0}},
        {"key": "k1", "value": None},
    ]
    answer = posted(proxy, "/topics/orders", {"records": rows}, V2_JSON)
    assert answer.status_code == 200 and answer.headers["Content-Type"] == V2, answer.text
    places = [(one["partition"], one["offset"]) for one in answer.json()["offsets"]]
    customers = ["k1", "k2", "k3", "k1"]
    values = [{"id": 1_001, "customer": "k1", "amount": 1.5}, {"id": 1_002, "customer": "k2", "amount": None},
              {"id": 1_003, "customer": "k3", "amount": 2.0}, None]  # fmt: skip
    assert len(set(places)) == 4 and places[0][0] == places[3][0] and places[3][1] > places[0][1]
    for (partition, offset), customer, value in zip(places, customers, values, strict=True):
        path = f"/topics/orders/partitions/{partition}/records"
        (found,) = proxy.get(path, params={"offset": offset, "max_records": 1}, headers={"Accept": V2_JSON}).json()
        assert found == {"topic": "orders", "partition": partition, "offset": offset, "key": customer, "value": value}


def test_an_opaque_topic_has_key_and_value_as_they_are(log, proxy):
    """In JSON as values, to a partition that is named."""
    log.create_topic("events", format="json", partitions=3)
    rows = [{"key": "a", "value": {"n": [1, None, "x"]}, "partition": 2}, {"key": None, "value": 7, "partition": 0}]
    answer = posted(proxy, "/topics/events", {"records": rows}, V2_JSON).json()
    assert [(one["partition"], one["offset"]) for one in answer["offsets"]] == [(2, 0), (0, 0)]
    (found,) = proxy.get("/topics/events/partitions/2/records").json()
    assert (found["key"], found["value"]) == ("a", {"n": [1, None, "x"]})


def test_numbers_of_json_keep_their_digits(log, proxy):
    """What no double holds is read with the digits that were written, as by consume."""
    log.create_topic("events", format="json", partitions=1)
    text = '{"m": 12345678901234.1234567891, "a": [1.50, 1e300, -0.0000000001], "f": 1.5, "t": "1.50"}'
    body = f'{{"records": [{{"value": {text}}}]}}'
    posted_text = proxy.post("/topics/events", content=body, headers={"Content-Type": V2_JSON, "Accept": f"{V2}, */*;q=0.1"})
    assert posted_text.status_code == 200, posted_text.text
    for path in ("/topics/events/partitions/0/records", "/api/v1/topics/events/records"):
        assert text in proxy.get(path).text, path


def test_binary_of_columns_is_json_in_base_64(proxy):
    """As clients of the proxy send it."""
    coded = {name: base64.b64encode(json.dumps(value).encode()).decode() for name, value in (("key", "k"), ("value", {"id": 5}))}
    answer = posted(proxy, "/topics/orders", {"records": [coded]}, V2_BINARY).json()
    ((partition, offset),) = [(one["partition"], one["offset"]) for one in answer["offsets"]]
    (found,) = proxy.get(f"/topics/orders/partitions/{partition}/records", params={"offset": offset}).json()
    assert found["value"] == {"id": 5, "customer": "k", "amount": None}


def test_the_third_version(log, proxy):
    """One record a request, whose key and value have a type; time and headers go with it."""
    body = {
        "key": {"type": "STRING", "data": "k9"}, "value": {"type": "JSON", "data": {"id": 9, "amount": 3.0}},
        "timestamp": "2026-01-31T12:00:00Z", "headers": [{"name": "trace", "value": "AP8="}],
    }  # fmt: skip
    answer = posted(proxy, "/v3/clusters/any/topics/orders/records", body, "application/json").json()
    assert (answer["error_code"], answer["cluster_id"], answer["topic_name"]) == (200, "any", "orders")
    assert "k9" in str([row for row in log.read("orders").to_pylist() if row["id"] == 9])
    place = {"partition": answer["partition_id"], "headers": "true", "offset": answer["offset"], "limit": 1}
    (row,) = proxy.get("/api/v1/topics/orders/records", params=place).json()["records"]
    assert (row["customer"], row["_offset"], row["_headers"]) == ("k9", answer["offset"], [["trace", "AP8="]])
    assert row["_timestamp"].startswith("2026-01-31T12:00:00")


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ([], 400, "expected {"),
        ({"records": [{"value": 5}]}, 422, "expected an object of columns"),
        ({"records": [{"key": "a", "value": {"id": 1, "customer": "b"}}]}, 422, "in the key and"),
        ({"records": [{"value": {"id": 1, "customer": "b"}, "partition": 0}, {"value": {"id": 1, "customer": "b"}}]}, 400, "some records have"),
        ({"records": [{"value": {"id": 1, "customer": "b"}, "partition": 17}]}, 422, "there is no partition 17"),
        ({"records": [{"key": {"colour": 1}, "value": {"id": 1}}]}, 422, "colour"),
    ],
)  # fmt: skip
def test_what_does_not_fit(log, proxy, body, status, words):
    """It is said, and nothing is written."""
    answer = posted(proxy, "/topics/orders", body, V2_JSON)
    assert (answer.status_code, words in answer.json()["message"]) == (status, True), answer.text
    assert len(log.read("orders")) == ORDERS


DECIMALS = [
    "12345678901234567890.1234567891",
    "0.1",
    "1e2",
    "1.0000000000000000001",
    "1e400",
    "NaN",
    "-0",
    "-0.0",
    "1E-3",
    '"2.5"',
    '"NaN"',
    "true",
    "null",
]
WHOLES = ["9223372036854775807", "9223372036854775808", "1.0", "1e3", "1.5", "-0", '"5"', "12345678901234567890123", "false"]
DOUBLES = ["0.1", "1e400", "-1e400", "1e-400", "-0", "NaN", "Infinity", '"Infinity"', '"NaN"', "123456789012345678", "5e-324"]
OTHERS = [
    '"\\ud800"',
    '"a\\u0000b"',
    '"AP8="',
    '"ab"',
    '"2026-01-31"',
    '"2026-01-31T12:00:00Z"',
    "[1, 2]",
    '{"a": 1.10}',
    '{"a": 1, "a": 2}',
    "0",
    '""',
]
TYPES_WRITTEN = {
    "decimal(38,10)": DECIMALS, "decimal(10,2)": DECIMALS, "bigint": WHOLES, "tinyint": WHOLES, "double": DOUBLES, "float": DOUBLES,
    "string": OTHERS, "binary": OTHERS, "date": OTHERS, "timestamp": OTHERS, "boolean": WHOLES, "struct<a: decimal(5,3)>": OTHERS, "array<double>": OTHERS,
}  # fmt: skip


def left_by(log, client, topic, path, text, form):
    """The value that a record leaves in a topic, which only a 200 leaves; None where the record is refused."""
    before = len(log.read(topic))
    answer = client.post(path, content=text.encode(), headers={"Content-Type": form, "Accept": f"{V2}, */*;q=0.1"})
    assert answer.status_code in (200, 400, 422), answer.text
    rows = log.read(topic).to_pylist()
    assert len(rows) == before + (answer.status_code == 200)
    return repr(rows[-1]["value"]) if len(rows) > before else None


@pytest.mark.parametrize("type_name", [*TYPES_WRITTEN, "json", "text"])
def test_all_doors_that_write_agree(log, proxy, type_name):
    """A value of JSON is the same in a topic, or is refused, whichever way it comes, with all digits that were written."""
    if type_name in ("json", "text"):
        log.create_topic("doors", format="string" if type_name == "text" else "json", partitions=1)
    else:
        log.create_topic("doors", f"key string, value {type_name}", key="key", partitions=1)
    values = TYPES_WRITTEN.get(type_name) or [*DECIMALS, *WHOLES, *DOUBLES, *OTHERS]
    is_opaque = type_name not in TYPES_WRITTEN
    for value in values:
        row = f'{{"key": "k", "value": {value}}}'
        inner = value if is_opaque else f'{{"value": {value}}}'
        found = {
            "json": left_by(log, proxy, "doors", "/api/v1/topics/doors/records", row, "application/json"),
            "lines": left_by(log, proxy, "doors", "/api/v1/topics/doors/records", row, "application/x-ndjson"),
            "v2": left_by(log, proxy, "doors", "/topics/doors", f'{{"records": [{{"key": "k", "value": {inner}}}]}}', V2_JSON),
            "v3": left_by(
                log, proxy, "doors", "/v3/clusters/c/topics/doors/records",
                f'{{"key": {{"type": "STRING", "data": "k"}}, "value": {{"type": "JSON", "data": {inner}}}}}', "application/json",
            ),
        }  # fmt: skip
        assert len(set(found.values())) == 1, (value, found)


RAW: dict[str, list[tuple[str, Any, Any]]] = {
    # topic: what data of a type leave there, or the status of the refusal
    "bytes": [("STRING", "abcd", b"abcd"), ("BINARY", "/w==", b"\xff"), ("JSON", "abcd", 422), ("JSON", {"a": 1}, 422), ("BINARY", "a", 400)],
    "string": [("STRING", "abcd", b"abcd"), ("BINARY", "YWI=", b"ab"), ("BINARY", "/w==", 422), ("JSON", "abcd", b"abcd"), ("JSON", 5, 422)],
    "json": [
        ("STRING", '{"a":1}', b'{"a":1}'), ("STRING", "abcd", 422), ("BINARY", "eyJhIjoxfQ==", b'{"a":1}'), ("JSON", "abcd", b'"abcd"'), ("STRING", 5, 400),
    ],
}  # fmt: skip


@pytest.mark.parametrize("format_name", RAW)
def test_the_type_of_data_says_the_bytes(log, proxy, format_name):
    """In topics of a format: a text is its UTF-8, and base 64 is bytes; what the format cannot read is refused. Both versions agree."""
    log.create_topic("raw", format=format_name, partitions=1)
    for kind, data, expected in RAW[format_name]:
        given: list[Any] = [("/v3/clusters/c/topics/raw/records", {"value": {"type": kind, "data": data}}, "application/json")]
        if kind != "STRING":
            given.append(("/topics/raw", {"records": [{"value": data}]}, V2_BINARY if kind == "BINARY" else V2_JSON))
        for path, body, form in given:
            answer = posted(proxy, path, body, form)
            assert answer.status_code == (expected if isinstance(expected, int) else 200), (kind, data, answer.text)
            if isinstance(expected, bytes):
                assert log.read("raw")["value"].to_pylist()[-1] == expected


def test_keys_have_types_too(log, proxy):
    """A key of bytes in a topic of bytes, and in a topic whose key column is binary; a text that is none is refused."""
    log.create_topic("raw", format="bytes", partitions=1)
    log.create_topic("keyed", "k binary, v int", key="k", partitions=1)
    for kind, data, expected in (("BINARY", "/w==", b"\xff"), ("STRING", "abcd", b"abcd")):
        body = {"key": {"type": kind, "data": data}, "value": {"type": "STRING", "data": "x"}}
        assert posted(proxy, "/v3/clusters/c/topics/raw/records", body, "application/json").status_code == 200
        assert log.read("raw")["key"].to_pylist()[-1] == expected
    body = {"key": {"type": "STRING", "data": "abcd"}, "value": {"type": "JSON", "data": {"v": 1}}}  # type: ignore[dict-item]
    assert posted(proxy, "/v3/clusters/c/topics/keyed/records", body, "application/json").status_code == 200
    assert log.read("keyed")["k"].to_pylist() == [b"abcd"]
    wrong: Any = {"key": {"type": "STRING", "data": 5}, "value": {"data": {"id": 1}}}
    refused = posted(proxy, "/v3/clusters/c/topics/orders/records", wrong, "application/json")
    assert (refused.status_code, "of type STRING; expected a text" in refused.json()["message"]) == (400, True)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/topics/orders", {"records": [], "bogus": 1}),
        ("/topics/orders", {"records": [{"value": {"id": 1, "customer": "a"}, "timestamp": 5}]}),
        ("/v3/clusters/c/topics/orders/records", {"value": {"type": "JSON", "data": {"id": 1, "customer": "a"}}, "partition": 0}),
        ("/v3/clusters/c/topics/orders/records", {"value": {"type": "JSON", "data": {"id": 1, "customer": "a"}, "schema": "x"}}),
        ("/v3/clusters/c/topics/orders/records", {"value": {"type": "JSON", "data": {"id": 1, "customer": "a"}}, "headers": [{"name": "a", "v": "AA=="}]}),
    ],
)  # fmt: skip
def test_unknown_fields_are_refused(log, proxy, path, body):
    """They are named, and nothing is written."""
    answer = posted(proxy, path, body, "application/json")
    assert (answer.status_code, "is not known" in answer.json()["message"]) == (400, True), answer.text
    assert len(log.read("orders")) == ORDERS


@pytest.mark.parametrize("partition", ["0", 0.5, True, 1e30])
def test_a_partition_is_a_number(log, proxy, partition):
    """Anything else is refused."""
    answer = posted(
        proxy, "/topics/orders", {"records": [{"value": {"id": 1, "customer": "a"}, "partition": partition}]}, V2_JSON
    )
    assert (answer.status_code, "expected its number" in answer.json()["message"]) == (400, True), answer.text
