"""A parameter that a path does not know is refused in words, on each route of the API, of Kafka's REST proxies and of Connect."""

from __future__ import annotations

import re

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamkit.connectors.runtime.rest import Rest
from streamkit.serve.routes import RESOURCES
from streamkit.serve.server import Server
from streamkit.serve.service import DESCRIPTION

PLACES = {
    "app": "totals",
    "store": "per_customer",
    "topic": "orders",
    "group": "readers",
    "partition": "0",
    "name": "in",
    "task:int": "0",
}
OF_THE_LOG = [(one.method, one.path) for one in (*RESOURCES, DESCRIPTION)]
NAMES = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["bogus", "limit ", "Limit", "key.bogus", "expand", "onlyfailed", "offset[]", "é"]
)


def known_to(path: str) -> set[str]:
    """The names that some method of a path takes."""
    return {one.name for resource in RESOURCES if resource.path == path for one in resource.every_parameter} | {
        "customer",
        "key.customer",
    }


@pytest.fixture
def client(worked):
    with Server(worked, port=0, allows_changes=True) as server, httpx.Client(base_url=server.address, timeout=60) as opened:
        yield opened


@pytest.fixture
def routes(worked):
    """(method, path) of everything that the server answers, but the pages, whose parameters are the state that they show."""
    of_connect = [
        (method, one.path) for one in Rest(worked, "w").routes for method in (one.methods or set()) - {"HEAD"} if one.path != "/"
    ]
    assert ("POST", "/connectors/{name}/restart") in of_connect and ("GET", "/api/v1/topics") in OF_THE_LOG
    return [*OF_THE_LOG, *of_connect]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(name=NAMES, value=st.sampled_from(["1", "", "true"]))
def test_each_route_refuses_a_parameter_that_it_does_not_know(client, routes, name, value):
    """The answer says its name; what the request would have changed is not changed."""
    silent = []
    for method, route in routes:
        if name in known_to(route) | {"includeTasks", "onlyFailed"}:
            continue
        path = re.sub(r"{([^}]+)}", lambda found: PLACES.get(found[1], "any"), route)
        answer = client.request(method, path, params={name: value})
        said = answer.json().get("message", "") if answer.status_code == 400 else ""
        if repr(name.removeprefix("key."))[1:-1] not in said and name not in said:
            silent.append((method, route, answer.status_code, answer.text[:200]))
    assert silent == []
