"""The description of the paths: it is in the repository, and answers are as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from streamkit.serve.openapi import openapi, openapi_text
from streamkit.serve.routes import RESOURCES
from tests.unit.serve.conftest import serving

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"
BODIES = {
    "/api/v1/topics/{topic}/records": {"id": 1, "customer": "n", "amount": 1.0},
    "/topics/{topic}": {"records": [{"key": "n", "value": {"id": 1, "amount": 1.0}}]},
    "/v3/clusters/{cluster}/topics/{topic}/records": {
        "value": {"type": "JSON", "data": {"id": 1, "customer": "n", "amount": 1.0}}
    },
    "/api/v1/groups/{group}/offsets": {"to": "latest", "dry_run": True},
    "/api/v1/sql/statements": {"text": "SELECT id FROM orders LIMIT 1"},
    "/api/v1/sql/faults": {"text": "SELEC"},
    "/api/v1/sql/words": {"text": "SELECT ", "place": 7},
    "/ksql": {"ksql": "SHOW TOPICS;"},
    "/query": {"ksql": "SELECT * FROM orders LIMIT 2;"},
    "/inserts-stream": {"target": "orders"},
    "/query-stream": {"sql": "SELECT * FROM orders LIMIT 2;"},
}
UNTRIED = ("/close-query", "/status/{kind}/{name}/{action}")  # they ask for what another answer has named
QUERIES = {"/api/v1/applications/{app}/stores/{store}/history": {"customer": "c1"}}
NAMES = {
    "name": "auto.offset.reset",
    "app": "totals",
    "store": "per_customer",
    "topic": "orders",
    "group": "readers",
    "partition": "0",
    "cluster": "any",
    "generation": "1",
}


def test_the_file_is_up_to_date(get):
    """docs/openapi.json is what the server gives: make it with python -m streamkit.serve.openapi."""
    assert FILE.read_text() == openapi_text()
    assert get("/openapi.json") == openapi()


def test_every_path_is_described():
    """Each has what it gives, its parameters by name, and errors in one form."""
    found = openapi()["paths"]
    assert set(found) == {one.path for one in RESOURCES}
    operations = [(path, one) for path, item in found.items() for one in item.values()]
    assert len({one["operationId"] for _, one in operations}) == len(operations) == len(RESOURCES)
    for path, one in operations:
        assert {"200", "4XX", "5XX"} == set(one["responses"])
        in_path = [parameter["name"] for parameter in one["parameters"] if parameter["in"] == "path"]
        assert all(f"{{{name}}}" in path for name in in_path) and len(in_path) == path.count("{")


def test_every_reference_is_there():
    """What is referred to is in the description, so that tools can read it."""
    described = openapi()
    wanted = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(described)))
    assert wanted
    for path in wanted:
        found = described
        for part in path.split("/"):
            found = found[part]
        assert found


@pytest.mark.usefixtures("worked")
def test_answers_are_as_they_are_described(log):
    """The JSON of every path fits its schema, and so do the bodies that are sent."""
    log.groups.reset("readers", {"orders": {0: 1}})
    log.create_topic("letters", dead_letter_schema(), partitions=1)
    described = openapi()
    with serving(log, allows_changes=True) as api:
        for resource in RESOURCES:
            operation = described["paths"][resource.path][resource.method.lower()]
            content = operation["responses"]["200"]["content"]
            if "application/json" in content and resource.path not in UNTRIED:
                path = resource.path.format(**NAMES).replace("dead-letters/orders", "dead-letters/letters")
                body = BODIES.get(resource.path, {}) if resource.method == "POST" else None
                accept = {"Accept": "application/json"}
                answer = api.request(resource.method, path, json=body, params=QUERIES.get(resource.path), headers=accept)
                assert answer.status_code == 200, (path, answer.text)
                check(answer.json(), content, described)
                if resource.method == "POST":
                    check(body, operation["requestBody"]["content"], described)


def check(value, content, described):
    jsonschema.validate(value, {**content["application/json"]["schema"], "components": described["components"]})


def dead_letter_schema():
    from streamkit.log.dead_letter import SCHEMA

    return SCHEMA
