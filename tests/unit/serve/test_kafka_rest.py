"""Records as Kafka's REST proxies write and read them."""

from __future__ import annotations

import base64
import json

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
