"""Whatever is asked, the answer is one that the description knows, and never that the server failed."""

from __future__ import annotations

import itertools
import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamkit.serve.cursors import cursor_text
from streamkit.serve.resource import Resource
from streamkit.serve.routes import RESOURCES
from streamkit.serve.server import Server

NAMES = {"app": ["totals"], "store": ["per_customer", "hourly"], "topic": ["orders", "opaque", "letters"], "group": ["readers"],
         "partition": ["0", "1"], "cluster": ["any"]}  # fmt: skip
STRANGE = [
            "", "0", "-1", "1", "9" * 19, "-" + "9" * 18, "1e400", "nan", "inf", "null", "[]", "{}", "true", "c1", "earliest", "latest",
            "2023-11-15T00:00:00Z", "0001-01-01", "9999-12-31T23:59:59.999999+14:00", "-99999999999999", "id > 3", "id = '", "((((",
            "id in (1, 2.5, 1e400)", "_timestamp < '0001-01-01'", "customer like '%\\'", "not not _deleted", "amount is not null",
            '{"orders": {"0": 1e400}}', '{"orders": {"x": null}}', '{"orders": {"0": -5, "99": 1}}', '{"": {}}', "\x00", "\ud7ff", "٣"]  # fmt: skip
TEXTS = st.text(max_size=20) | st.sampled_from(STRANGE)
PLACES = st.recursive(
    st.none() | st.integers(-(10**20), 10**20) | st.text(max_size=3) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["topic", "offsets", "start", "skip", "0", "1"]), inner)
    ),
)
CURSORS = st.one_of(
    TEXTS,
    PLACES.map(cursor_text),  # type: ignore[arg-type]
    st.fixed_dictionaries({"topic": st.integers(0, 3), "offsets": PLACES, "start": PLACES, "skip": PLACES}).map(cursor_text),
)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.lists(TEXTS, max_size=2)
FORMS = ["application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream", "*/*", ";q=1,,x/y;q=a, */*;q=0.1", ""]


@st.composite
def questions(draw):
    """A path with names that there are, or others; parameters that it takes, with any values, or others."""
    resource: Resource = draw(st.sampled_from([one for one in RESOURCES if "text/event-stream" not in one.forms[:1]]))
    known = [one.name for one in resource.every_parameter if one.name != "wait_seconds"]
    names = st.sampled_from([*known, "customer", "key.customer", "x"]) if known else st.just("x")
    chosen = draw(st.lists(names, max_size=3))
    parameters = [(name, draw(CURSORS if name == "cursor" else TEXTS)) for name in chosen]
    path, body = resource.path, None
    if resource.method != "GET":
        known = [one.name for one in resource.fields] or ["id", "customer", "_timestamp", "key"]
        body = draw(st.dictionaries(st.sampled_from([*known, "x"]), VALUES, max_size=3) | VALUES | st.lists(VALUES, max_size=2))
    for name, there in NAMES.items():
        value = draw(st.sampled_from([*there, *there, *there, "nobody", "<script>alert(1)</script>", "..", "a/b", "%", "é"]))
        path = path.replace(f"{{{name}}}", httpx.QueryParams({"x": value}).__str__()[2:].replace("+", "%20"))
    waits = [("wait_seconds", "0")] if resource.is_of_application else []
    return resource.method, path, [*parameters, *waits], body, draw(st.sampled_from(FORMS))


@pytest.fixture
def asking(worked):
    from streamkit.log.dead_letter import SCHEMA

    worked.create_topic("letters", SCHEMA, partitions=1)
    worked.groups.reset("readers", {"orders": {0: 1}})
    with worked.producer() as producer:
        producer.send("opaque", {"key": "a", "value": {"n": 1}})
    with Server(worked, port=0, allows_changes=True) as server, httpx.Client(base_url=server.address, timeout=60) as client:
        yield client


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(question=questions())
def test_no_question_makes_the_server_fail(asking, question):
    """An answer has its form, and an error its three words."""
    method, path, parameters, body, form = question
    content = None if method == "GET" else json.dumps(body)
    headers = {"Accept": form, "Content-Type": "application/json"}
    assert not flaw_of(asking.request(method, path, params=parameters, headers=headers, content=content))


def test_strange_values_of_each_parameter(asking):
    """Each parameter of each path takes each strange text, or refuses it in words."""
    failed = [(*question, flaw) for question in strange_questions() if (flaw := flaw_of(asked(asking, *question)))]
    assert failed == []


def strange_questions():
    """(path, parameters, form) of each parameter and each strange text."""
    for resource in (one for one in RESOURCES if one.method == "GET"):
        path = resource.path.format(
            app="totals",
            store="hourly",
            topic="orders",
            group="readers",
            partition="0",
            generation="1",
            kind="stream",
            name="x",
            action="create",
        )
        names = [one.name for one in resource.every_parameter] + ["customer"] * (resource.takes_others is not None)
        for name, text in itertools.product(names, STRANGE):
            waits = {"wait_seconds": 0} if resource.is_of_application and name != "wait_seconds" else {}
            yield path, {**waits, name: text}, "text/event-stream" if resource.forms[0] == "text/event-stream" else "*/*"


def asked(client, path, parameters, form):
    """The answer, with what it has, unless that comes without an end."""
    with client.stream("GET", path, params=parameters, headers={"Accept": form}) as answer:
        if not answer.headers["Content-Type"].startswith("text/event-stream"):
            answer.read()
        return answer


def flaw_of(answer):
    """The text of an answer that says that the server failed, or that has not the form of an error."""
    if answer.status_code == 200:
        return None
    is_foreseen = answer.status_code < 500 or answer.status_code == 504
    has_form = answer.headers["Content-Type"] == "application/json" and {"error", "message", "hint"} <= set(answer.json())
    return None if is_foreseen and has_form and "Traceback" not in answer.text else answer.text
