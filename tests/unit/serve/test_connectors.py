"""Connectors by HTTP: their tasks, Kafka Connect's paths, and what a browser gets at the same ones."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import httpx
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.runtime.status import FAILED, TaskStatus, read_requests, write_status
from tests.unit.serve.conftest import serving
from topologies.connectors.sqlite_connector import SqliteSink, SqliteSource


@pytest.fixture
def log(tmp_path):
    """A log onto which a source has run."""
    with closing(sqlite3.connect(tmp_path / "in.db")) as database:
        database.executescript("CREATE TABLE people (id int, name text); INSERT INTO people VALUES (1, 'ann'), (2, 'bob')")
    with sk.open_log(tmp_path / "log") as log:
        run([SqliteSource("in", {"path": str(tmp_path / "in.db"), "tables": "people"})], log, once=True)
        yield log


def test_tasks_are_as_the_command_line_shows_them(api, log, described):
    """Each with its rows, and what was asked of its connector."""
    found = api.get("/api/v1/connectors").json()
    assert [{**one, "asked": None} for one in found] == [{**one, "asked": None} for one in described("connect", "status")]
    assert [(one["connector"], one["rows"], one["asked"]) for one in found] == [("in", 2, "run")]


def test_connects_paths(api, log):
    """They are answered in Connect's form, with the headers of all answers; a browser gets a page at the same path."""
    answer = api.get("/connectors/in/status")
    assert answer.json()["tasks"][0]["state"] == "STOPPED"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert api.get("/connectors").json() == ["in"]
    assert "SqliteSource" in str(api.get("/connectors/in").json()["config"])
    assert (api.get("/connectors/none").status_code, set(api.get("/connectors/none").json())) == (404, {"error_code", "message"})
    page = api.get("/connectors/in", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.headers["Content-Type"].startswith("text/html")


def test_a_connector_is_paused_only_where_changes_are_allowed(api, log):
    """Pause, resume, stop and restart; a page of elsewhere, and a server without --allow-changes, change nothing."""
    refused = api.put("/connectors/in/pause")
    assert (refused.status_code, refused.json()["error"]) == (403, "ReadOnly")
    assert not read_requests(log)
    with serving(log, allows_changes=True) as client:
        own = str(client.base_url).rstrip("/")
        assert client.put("/connectors/in/pause", headers={"Origin": "http://evil.example"}).status_code == 403
        assert not read_requests(log)
        assert client.put("/connectors/in/pause", headers={"Origin": own}).status_code == 202
        assert read_requests(log)["in"].is_paused and asked_of(client) == ["pause"]
        assert client.put("/connectors/in/stop").status_code == 204
        assert asked_of(client) == ["stop"]
        assert client.put("/connectors/in/resume").status_code == 202
        assert asked_of(client) == ["run"]
        assert client.post("/connectors/in/restart").status_code == 204
        assert read_requests(log)["in"].restarts == 1


def asked_of(client: httpx.Client) -> list[str]:
    return [one["asked"] for one in client.get("/api/v1/connectors").json()]


def test_who_has_no_token(log, tmp_path):
    """Connect's paths are told to nobody else either."""
    (tmp_path / "token").write_text("0123456789abcdef")
    with serving(log, token_file=str(tmp_path / "token")) as client:
        assert client.get("/connectors").status_code == client.get("/connector-plugins").status_code == 401
        assert client.get("/connectors", headers={"Authorization": "Bearer 0123456789abcdef"}).json() == ["in"]


def test_why_a_task_failed(api, log):
    """The trace is in the answers of both interfaces."""
    write_status(log, [TaskStatus("in", 0, FAILED, "w", "c", "no such table")])
    assert api.get("/api/v1/connectors").json()[0]["trace"] == "no such table"
    assert api.get("/connectors/in/tasks/0/status").json()["trace"] == "no such table"


def test_connectors_are_in_the_picture(log, api, tmp_path):
    """Those that fill a topic which the application reads, or empty one that it writes; others are not, and it has the same picture without them."""
    app = sk.Topology("copy")
    app.stream("people").to("copied")
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    log.create_topic("others", "id int", partitions=1)
    sinks = [
        SqliteSink(name, {"path": str(tmp_path / f"{name}.db"), "topics": topic})
        for name, topic in (("out", "copied"), ("aside", "others"))
    ]
    run(sinks, log, once=True)
    drawing = api.get("/api/v1/applications/copy/graph").json()
    flows = {(flow["start"], flow["end"]) for flow in drawing["flows"]}
    assert flows == {("connector:in", "stream-people"), ("stream-people", "to-copied"), ("to-copied", "connector:out")}
    texts = {box["id"]: [line["text"] for line in box["lines"]] for box in drawing["boxes"]}
    assert texts["connector:in"][:2] == ["from SqliteSource", "in"] and texts["connector:out"][:2] == ["to SqliteSink", "out"]
