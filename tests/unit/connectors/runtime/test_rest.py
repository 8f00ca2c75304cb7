"""The part of Connect's REST interface that a worker answers."""

from __future__ import annotations

import json
import sqlite3
import urllib.error
import urllib.request
from contextlib import closing

import pytest

import streamkit as sk
from streamkit.connectors import Setting, run
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.rest import serve_rest
from streamkit.connectors.runtime.worker import Worker
from streamkit.errors import ConfigError
from topologies.connectors.sqlite_connector import SqliteSink, SqliteSource


class SecretSource(SqliteSource):
    """A source with a setting that nobody may see."""

    SETTINGS = (*SqliteSource.SETTINGS, Setting("password", "opens nothing", default="", is_secret=True))  # type: ignore[assignment]


@pytest.fixture
def log(tmp_path):
    """A log onto which a source and a sink have run."""
    with closing(sqlite3.connect(tmp_path / "in.db")) as database:
        database.executescript("CREATE TABLE people (id int, name text); INSERT INTO people VALUES (1, 'ann'), (2, 'bob')")
    with sk.open_log(tmp_path / "log") as log:
        source = SecretSource("in", {"path": str(tmp_path / "in.db"), "tables": "people", "password": "hunter2"})
        run([source, SqliteSink("out", {"path": str(tmp_path / "out.db"), "topics": "people"})], log, once=True)
        yield log


@pytest.fixture
def rest(log):
    """Asks a server on the log: the code of the answer, and its value."""
    with serve_rest("0", log, Worker([], log).name) as server:

        def ask(method, path, body=None, **headers):
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            request = urllib.request.Request(f"http://localhost:{server.address[1]}{path}", data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return answer.status, json.loads(answer.read() or "null")
            except urllib.error.HTTPError as error:
                return error.code, json.loads(error.read())

        yield ask


def get(rest, path):
    code, value = rest("GET", path)
    assert code == 200, value
    return value


def test_connectors_are_shown(rest):
    """Names, configuration and tasks have Connect's form, and secrets are hidden."""
    assert get(rest, "/")["version"]
    assert get(rest, "/connectors") == ["in", "out"]
    found = get(rest, "/connectors/in")
    assert (found["name"], found["type"], found["tasks"]) == ("in", "source", [{"connector": "in", "task": 0}])
    assert found["config"] == get(rest, "/connectors/in/config")
    assert (found["config"]["tables"], found["config"]["password"], found["config"]["name"]) == ("people", "********", "in")
    assert get(rest, "/connectors/out/tasks")[0]["id"] == {"connector": "out", "task": 0}
    assert "hunter2" not in json.dumps([found, get(rest, "/connectors/in/tasks"), get(rest, "/connectors/in/status")])


def test_a_connector_whose_worker_is_gone(rest, log, monkeypatch):
    """Once its worker has been silent for long the connector does not run, since nobody has any of its tasks."""
    status.write_status(log, [status.TaskStatus("in", 0, status.RUNNING, "worker", "SqliteSource")])
    assert get(rest, "/connectors/in/status")["connector"]["state"] == "RUNNING"
    monkeypatch.setattr(status, "ALIVE_MS", 0)
    found = get(rest, "/connectors/in/status")
    assert (found["connector"]["state"], found["tasks"][0]["state"]) == ("UNASSIGNED", "UNASSIGNED")


def test_status(rest, log):
    """A connector's state is what was asked of it; a task's, how it is."""
    found = get(rest, "/connectors/in/status")
    assert (found["connector"]["state"], found["type"]) == ("RUNNING", "source")
    assert [(task["id"], task["state"]) for task in found["tasks"]] == [(0, "STOPPED")]
    assert get(rest, "/connectors/in/tasks/0/status") == found["tasks"][0]
    status.write_status(log, [status.TaskStatus("in", 0, status.FAILED, "w", "c", "no such table")])
    assert get(rest, "/connectors/in/tasks/0/status") == {"id": 0, "state": "FAILED", "worker_id": "w", "trace": "no such table"}


def test_offsets(rest):
    """Sources show the position of each split, sinks the offset of each partition."""
    assert get(rest, "/connectors/in/offsets") == {"offsets": [{"partition": {"split": "people"}, "offset": {"rowid": 2}}]}
    places = get(rest, "/connectors/out/offsets")["offsets"]
    assert sum(place["offset"]["kafka_offset"] or 0 for place in places) == 2
    assert {place["partition"]["kafka_topic"] for place in places} == {"people"}


@pytest.mark.parametrize(
    ("verb", "code", "state"), [("pause", 202, "PAUSED"), ("stop", 204, "STOPPED"), ("resume", 202, "RUNNING")]
)
def test_changes(rest, verb, code, state):
    """A connector is paused, stopped and resumed; asking twice is asking once."""
    for _ in range(2):
        assert rest("PUT", f"/connectors/in/{verb}") == (code, None)
        assert get(rest, "/connectors/in/status")["connector"]["state"] == state


def test_restart(rest, log):
    """A restart is a request to the workers."""
    assert rest("POST", "/connectors/in/restart") == (204, None)
    assert status.read_requests(log)["in"].restarts == 1
    assert rest("POST", "/connectors/in/restart?includeTasks=true&onlyFailed=false") == (204, None)
    assert status.read_requests(log)["in"].restarts == 2


def test_a_parameter_that_is_not_heeded_is_refused_in_words(rest, log):
    """Nothing is asked of the workers then; the words say what the path takes."""
    code, value = rest("POST", "/connectors/in/restart?bogus=1")
    assert (code, value["message"]) == (
        400, "the parameter 'bogus' is not known to POST /connectors/{name}/restart; expected includeTasks or onlyFailed"
    )  # fmt: skip
    code, value = rest("POST", "/connectors/in/restart?includeTasks=false")
    assert code == 400 and "does only what includeTasks=true says" in value["message"]
    assert "expected no parameters" in rest("PUT", "/connectors/in/pause?now=true")[1]["message"]
    assert "in" not in status.read_requests(log)


def test_plugins(rest):
    """The classes are listed, and a configuration is checked setting by setting; placeholders stay unread."""
    assert {"class": "FileSource", "type": "source", "version": sk.__version__} in get(rest, "/connector-plugins")
    validate = "/connector-plugins/FileSource/config/validate"
    assert rest("PUT", validate, {"path": "/in", "format": "csv", "topic": "x"})[1]["error_count"] == 0
    found = rest("PUT", validate, {"format": "xml", "tasks.max": "${file:/etc/passwd}"})[1]
    errors = {one["value"]["name"]: one["value"]["errors"] for one in found["configs"] if one["value"]["errors"]}
    assert set(errors) == {"path", "format"}
    assert found["error_count"] == 2
    assert "root:" not in json.dumps(found)
    nearest = rest("PUT", validate, {"path": "/in", "formt": "csv"})[1]
    assert "did you mean format or key.format" in json.dumps(nearest)
    source = {"bootstrap.servers": "127.0.0.1:1", "kafka.topic": "t", "key": "a,b", "key.format": "string"}
    found = rest("PUT", "/connector-plugins/KafkaSource/config/validate", source)[1]
    assert "key.format=string has one column, and found a, b" in json.dumps(found) and found["error_count"] == 1
    secret = rest("PUT", "/connector-plugins/HttpSource/config/validate", {"token": "hunter2", "port": "no"})[1]
    assert secret["error_count"] == 1
    assert "hunter2" not in json.dumps(secret)
    for url, faults in (("http://bob:hunter7secret@h/x", 0), ("http://bob:hunter7secret@h:0/x?api_key=hunter7", 1)):
        address = rest("PUT", "/connector-plugins/HttpSink/config/validate", {"topics": "lines", "url": url})[1]
        assert address["error_count"] == faults
        assert "hunter7" not in json.dumps(address) and "/x" in json.dumps(address)


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/connectors/nobody", None, 404),
        ("GET", "/connectors/in/tasks/7/status", None, 404),
        ("GET", "/no/such/path", None, 404),
        ("DELETE", "/connectors/in", None, 405),
        ("POST", "/connectors", {"name": "x"}, 405),
        ("PUT", "/connector-plugins/os:path/config/validate", {}, 400),
        ("PUT", "/connector-plugins/FileSource/config/validate", None, 400),
        ("PUT", "/connector-plugins/HttpSink/config/validate", {"connector.class": "FileSource", "path": "/in"}, 400),
        ("PUT", "/connectors/in/pause", b"{", 400),
        ("GET", "/connectors/in/tasks/x/status", None, 404),
        ("GET", "/connectors?expand=status", None, 400),
        ("POST", "/connectors/in/restart?bogus=1", None, 400),
        ("POST", "/connectors/in/restart?onlyFailed=true", None, 400),
    ],
)
def test_errors(rest, method, path, body, code):
    """An error has Connect's form: a code and a message; a slash at the end of a path says nothing."""
    for end in ("", "/"):
        found, value = rest(method, path + end, body)
        assert (found, value["error_code"]) == (code, code)
        assert value["message"]


def test_a_body_that_is_too_large(rest):
    """It is refused by its length, before it is sent; the next request is answered."""
    code, value = rest("PUT", "/connectors/in/pause", b"{}", **{"Content-Length": str((1 << 20) + 1)})
    assert (code, value["error_code"]) == (413, 413)
    assert rest("PUT", "/connectors/in/pause", b"{}", **{"Content-Length": "2"}) == (202, None)


def test_served_on_loopback(log, rest):
    """It is answered at loopback unless a host is given; not to pages of a browser, which name themselves or another host."""
    with serve_rest("0", log, Worker([], log).name) as server:
        assert server.address[0] == "127.0.0.1"
    assert get(rest, "/connectors") == get(rest, "/connectors/") == ["in", "out"]
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Host": "[::1"}):
        assert rest("GET", "/connectors", **headers)[0] == 403
    with pytest.raises(ConfigError, match="--rest 'x:y'; expected a port"), serve_rest("x:y", log, Worker([], log).name):
        pass
    with pytest.raises(ConfigError, match="cannot listen there"), serve_rest("no.such.invalid:0", log, Worker([], log).name):
        pass
