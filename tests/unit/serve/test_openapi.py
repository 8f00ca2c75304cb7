"""The description of the paths: it is in the repository, and answers are as it says."""

from __future__ import annotations

from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from streamkit.serve.openapi import openapi, openapi_text
from streamkit.serve.routes import RESOURCES

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"
NAMES = {"app": "totals", "store": "per_customer", "topic": "orders", "group": "readers"}


def test_the_file_is_up_to_date(get):
    """docs/openapi.json is what the server gives: make it with python -m streamkit.serve.openapi."""
    assert FILE.read_text() == openapi_text()
    assert get("/openapi.json") == openapi()


def test_every_path_is_described():
    """Each has what it gives, its parameters by name, and errors in one form."""
    found = openapi()["paths"]
    assert set(found) == {one.path for one in RESOURCES}
    assert len({one["get"]["operationId"] for one in found.values()}) == len(found)
    for path, one in found.items():
        assert {"200", "4XX", "5XX"} == set(one["get"]["responses"])
        in_path = [parameter["name"] for parameter in one["get"]["parameters"] if parameter["in"] == "path"]
        assert all(f"{{{name}}}" in path for name in in_path) and len(in_path) == path.count("{")


@pytest.mark.usefixtures("worked")
def test_answers_are_as_they_are_described(api, log):
    """The JSON of every path fits its schema."""
    log.groups.reset("readers", {"orders": {0: 1}})
    log.create_topic("letters", dead_letter_schema(), partitions=1)
    described = openapi()
    for resource in RESOURCES:
        content = described["paths"][resource.path]["get"]["responses"]["200"]["content"]
        if "application/json" in content:
            path = resource.path.format(**NAMES).replace("dead-letters/orders", "dead-letters/letters")
            answer = api.get(path)
            assert answer.status_code == 200, (path, answer.text)
            schema = {**content["application/json"]["schema"], "components": described["components"]}
            jsonschema.validate(answer.json(), schema)


def dead_letter_schema():
    from streamkit.log.dead_letter import SCHEMA

    return SCHEMA
