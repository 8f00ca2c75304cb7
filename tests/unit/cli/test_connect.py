"""`streamkit connect`, with files, and with the connectors of one file."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from typing import Any

import pytest

import streamkit as sk
from streamkit.cli.connect import progress_line
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.status import TaskStatus
from streamkit.errors import ConfigError, StreamKitError
from tests.unit.cli.conftest import Command
from tests.unit.connectors.conftest import _quick_looks  # noqa: F401 (of its own accord)

CLASSES = "topologies.connectors.sqlite_connector"


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "in.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE people (id int, name text); INSERT INTO people VALUES (1, 'ann'), (2, 'bob')")
    return path


@pytest.fixture
def file(tmp_path, database):
    """People from a database into a topic, and from there into files; the password is in the environment."""
    found = [
        {"name": "in", "config": {"connector.class": f"{CLASSES}:SqliteSource", "path": str(database), "tables": "people"}},
        {"name": "out", "config": {"connector.class": "FileSink", "topics": "people", "path": str(tmp_path / "out")}},
    ]
    (tmp_path / "connectors.json").write_text(json.dumps(found))
    return str(tmp_path / "connectors.json")


def written(tmp_path):
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and "_streamkit" not in path.parts]
    return sorted(json.loads(line)["name"] for path in files for line in path.read_text().splitlines())


def add(database, *names):
    with closing(sqlite3.connect(database)) as found:
        found.executemany("INSERT INTO people VALUES (0, ?)", [(name,) for name in names])
        found.commit()


def as_json(text):
    return json.loads(text)


def test_a_receiver_that_is_gone(streamkit, tmp_path, caplog):
    """What does not answer is said in a line, without a traceback: it is no defect of anyone's code."""
    with sk.open_log(tmp_path / "gone") as log:
        log.create_topic("people", "id int")
        with log.producer() as producer:
            producer.send("people", {"id": 1})
    config = {"connector.class": "HttpSink", "topics": "people", "url": "http://127.0.0.1:1/", "retry.timeout.ms": "0"}
    (tmp_path / "gone.json").write_text(json.dumps({"name": "gone", "config": config}))
    with pytest.raises(StreamKitError, match=r"ConnectionError: http://127\.0\.0\.1:1/ does not accept records"):
        streamkit("connect", "run", str(tmp_path / "gone.json"), "--once", "--log", str(tmp_path / "gone"))
    assert "does not accept records" in caplog.text
    assert "Traceback" not in caplog.text


def test_run_once(streamkit, file, database, tmp_path):
    """What is there is moved, sources first; a second run moves what is new."""
    found = as_json(streamkit("connect", "run", file, "--once", "--json"))
    assert [(one["connector"], one["state"], one["rows"]) for one in found] == [("in", "DONE", 2), ("out", "DONE", 2)]
    assert written(tmp_path) == ["ann", "bob"]
    add(database, "cid")
    assert "DONE" in streamkit("connect", "run", file, "--once")
    assert written(tmp_path) == ["ann", "bob", "cid"]


def test_properties(streamkit, file, database, tmp_path):
    """A file of Java's properties describes one connector."""
    (tmp_path / "in.properties").write_text(f"name=in\nconnector.class={CLASSES}:SqliteSource\npath={database}\ntables=people\n")
    assert as_json(streamkit("connect", "run", str(tmp_path / "in.properties"), "--once", "--json"))[0]["rows"] == 2


def test_list_and_status(streamkit, file):
    """Connectors and their tasks are shown with rows, rate and last commit; one that never ran is no connector."""
    assert as_json(streamkit("connect", "list", "--json")) == []
    streamkit("connect", "run", file, "--once")
    assert [(one["connector"], one["class"], one["tasks"]) for one in as_json(streamkit("connect", "list", "--json"))] == [
        ("in", "SqliteSource", 1),
        ("out", "FileSink", 1),
    ]
    (found,) = as_json(streamkit("connect", "status", "out", "--json"))
    assert (found["rows"], found["lag"], found["failed_rows"]) == (2, 0, 0)
    assert found["rows_per_s"] > 0
    table = streamkit("connect", "status")
    assert all(name in table for name in ("rows/s", "lag", "last commit", "STOPPED" if "STOPPED" in table else "DONE"))
    with pytest.raises(ConfigError, match="no connector 'inn'; connectors that have run: in, out"):
        streamkit("connect", "status", "inn")


def test_a_failed_task(streamkit, as_program, file, database):
    """A task that fails ends the run with its error, and the status says why."""
    with closing(sqlite3.connect(database)) as found:
        found.execute("DROP TABLE people")
    code, _, said = as_program("connect", "run", file, "--once")
    assert code == 1
    assert "no such table: people" in said
    assert "no such table: people" in streamkit("connect", "status", "in")


def test_validate(streamkit, file):
    """Every setting is checked, and nothing is opened or created."""
    assert "in: SqliteSource, 1 task(s)" in streamkit("connect", "validate", file)
    assert [one["name"] for one in as_json(streamkit("connect", "validate", file, "--json"))] == ["in", "out"]
    assert as_json(streamkit("connect", "list", "--json")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"line 1: it is not JSON"),
        ('{"config": {}}', r'expected \{"name"'),
        ('{"name": "a", "connector.class": "FileSorce"}', r"connector.class='FileSorce'; expected one of .*FileSource"),
        ('{"name": "a", "connector.class": "FileSource", "topic": "t"}', r"needs the setting 'path'"),
        ('{"name": "a", "connector.class": "FileSource", "topic": "t", "pth": "x"}', r"no setting 'pth'; did you mean path"),
        (
            '{"name": "a", "connector.class": "FileSource", "path": "${env:NO_SUCH_PATH}"}',
            r"no environment variable NO_SUCH_PATH",
        ),
        ('{"name": "a b", "connector.class": "FileSource", "path": "x"}', r"the connector name 'a b' cannot be used"),
        ('{"name": "a", "connector.class": "no_such_module:X"}', r"there is no module 'no_such_module'"),
    ],
)
def test_bad_files(tmp_path, text, message):
    """A file that does not fit is refused with what is wrong, before anything runs."""
    (tmp_path / "bad.json").write_text(text)
    streamkit = Command(tmp_path / "nowhere")
    for words in (("validate",), ("run", "--once")):
        with pytest.raises(ConfigError, match=message):
            streamkit("connect", words[0], str(tmp_path / "bad.json"), *words[1:])
    assert not (tmp_path / "nowhere").exists()


def test_no_file(streamkit):
    """A file that is not there is an error."""
    with pytest.raises(ConfigError, match=r"the file nowhere.json cannot be read"):
        streamkit("connect", "run", "nowhere.json")


def test_secrets_are_hidden(streamkit, tmp_path, root, monkeypatch):
    """A secret that the environment keeps is in no output of any command, nor in the log."""
    monkeypatch.setenv("HOOK", "hunter2")
    config = {
        "connector.class": "HttpSink",
        "topics": "orders",
        "url": "http://127.0.0.1:9/hunter2",
        "headers.Authorization": "${env:HOOK}",
    }
    (tmp_path / "hook.json").write_text(json.dumps({"name": "hook", "config": config | {"retry.timeout.ms": 1}}))
    shown = streamkit("connect", "validate", str(tmp_path / "hook.json"), "--json")
    with pytest.raises(sk.StreamKitError) as error:
        streamkit("connect", "run", str(tmp_path / "hook.json"), "--once")
    shown += "".join(streamkit("connect", *words, "--json") for words in (("list",), ("status",)))
    with sk.open_log(root) as log:
        kept = [str(log.read(topic).to_pylist()) for topic in ("__connect_status", "__connect_configs")]
    assert "hunter2" not in shown + "".join(kept) + str(error.value)


def test_why_a_task_failed(streamkit, file, tmp_path, caplog):
    """The status shows what was raised, and where; the log line has the traceback."""
    with pytest.raises(sk.StreamKitError):
        (tmp_path / "in.db").unlink()
        streamkit("connect", "run", file, "--once")
    lines = streamkit("connect", "status").splitlines()
    at = lines.index("in, task 0:")
    assert lines[at + 1].startswith("OperationalError: no such table: people")
    assert lines[at + 2].startswith("  raised at ") and not any("Traceback" in line for line in lines)
    assert "Traceback (most recent call last):" in caplog.text


def test_requests(streamkit, root, file):
    """Workers are asked by the log; a connector that never ran cannot be asked."""
    with pytest.raises(ConfigError, match="there is no connector 'in'"):
        streamkit("connect", "pause", "in")
    streamkit("connect", "run", file, "--once")
    asked: dict[str, dict[str, Any]] = {
        "pause": {"is_paused": True},
        "stop": {"is_stopped": True},
        "resume": {},
        "restart": {"restarts": 1},
    }
    for command, expected in asked.items():
        assert "in is asked to" in streamkit("connect", command, "in")
        with sk.open_log(root) as log:
            assert status.read_requests(log)["in"] == status.Request("in", **expected)


def test_offsets(streamkit, file, database, tmp_path):
    """Positions are shown, set and forgotten: what lies behind them comes again."""
    streamkit("connect", "run", file, "--once")
    assert as_json(streamkit("connect", "offsets", "show", "in", "--json")) == {"people": {"rowid": 2}}
    places = as_json(streamkit("connect", "offsets", "show", "out", "--json"))
    assert sum(place["offset"] or 0 for place in places.values()) == 2
    streamkit("connect", "offsets", "set", "in", "people", '{"rowid": 1}')
    streamkit("connect", "run", file, "--once")
    assert written(tmp_path) == ["ann", "bob", "bob"]
    streamkit("connect", "offsets", "reset", "in")
    streamkit("connect", "run", file, "--once")
    assert written(tmp_path) == ["ann", "ann", "bob", "bob", "bob"]


BAD_OFFSETS = {
    ("set", "in", "people", "17"): r"the position 17 is no object",
    ("set", "in", "people", "{"): r"the position '\{' is not JSON",
    (
        "set",
        "in",
        "people",
        "{}",
    ): r"connector in: \{\} is no position of people: it has no 'rowid'; expected 'rowid', a whole number from 0 to ",
    (
        "set",
        "in",
        "people",
        '{"rowid": -1}',
    ): r"'rowid' is -1; expected a whole number.*connect offsets set in people POSITION, such as '\{",
    (
        "set",
        "in",
        "people",
        '{"rowid": "earliest"}',
    ): r"'rowid' is 'earliest'; expected a whole number.*read all again: .*offsets reset in",
    ("set", "in", "people", '{"rowid": 1e400}'): r"'rowid' is inf; expected a whole number",
    ("set", "in", "peple", "{}"): r"in has no split 'peple'; it has people",
    ("set", "out", "people-0", "{}"): r"out is a sink, which keeps its positions in its target",
    ("show", "nobody"): r"there is no connector 'nobody'",
}


def test_offsets_that_cannot_be(streamkit, file):
    """A position that cannot be is refused, and names what can."""
    streamkit("connect", "run", file, "--once")
    for words, message in BAD_OFFSETS.items():
        with pytest.raises(ConfigError, match=message):
            streamkit("connect", "offsets", *words)


def test_offsets_of_a_class_that_is_not_here(streamkit, root, file, monkeypatch):
    """A class that cannot be imported here checks no position here: its task does, when it starts."""
    streamkit("connect", "run", file, "--once")
    monkeypatch.setitem(sys.modules, CLASSES, None)
    streamkit("connect", "offsets", "set", "in", "people", '{"rowid": -1}')
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="'rowid' is -1; expected a whole number"):
        streamkit("connect", "run", file, "--once")


def test_offsets_of_a_connector_that_runs(streamkit, root, file):
    """Positions are not moved under a task; the error says how to stop it."""
    streamkit("connect", "run", file, "--once")
    with sk.open_log(root) as log:
        status.write_status(log, [TaskStatus("in", 0, status.RUNNING, "host-1-a", "c")])
    with pytest.raises(ConfigError, match="runs on the worker host-1-a; first: streamkit connect stop in"):
        streamkit("connect", "offsets", "reset", "in")


def test_rest_that_cannot_be(streamkit, file):
    """An address that is none is refused before anything runs."""
    with pytest.raises(ConfigError, match="--rest 'http'; expected a port, or HOST:PORT"):
        streamkit("connect", "run", file, "--once", "--rest", "http")
    assert as_json(streamkit("connect", "list", "--json")) == []


def test_export(streamkit, tmp_path):
    """The connectors of a topology are printed as `connect run` takes them."""
    (tmp_path / "copied.py").write_text(
        "import streamkit as sk\n"
        "app = sk.Topology('copied')\n"
        f"app.stream(sk.files({str(tmp_path / 'in')!r}), schema='n int').to(sk.delta('sums'))\n"
    )
    found = as_json(streamkit("connect", "export", str(tmp_path / "copied.py")))
    assert [(one["name"], one["config"]["connector.class"]) for one in found] == [
        ("files.in-source", "FileSource"),
        ("delta.sums-sink", "DeltaSink"),
    ]
    (tmp_path / "exported.json").write_text(json.dumps(found))
    assert "files.in-source: FileSource" in streamkit("connect", "validate", str(tmp_path / "exported.json"))


def test_progress_line():
    """What a terminal shows now and then: each connector with its states, rows, rate and lag."""
    tasks = [
        TaskStatus("in", task, status.RUNNING, "w", "c", progress=json.dumps({"rows": 1000, "rows_per_s": 2.6, "lag": 5}))
        for task in (0, 1)
    ]
    assert progress_line(tasks) == "in running, 2,000 rows, 5 rows/s, lag 10"
    assert progress_line([]) == "no tasks here: other workers have them"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kafka.linger.ms": "abc"}, "kafka.linger.ms"),
        ({"kafka.nosuch": "1"}, "nosuch"),
        ({"kafka.security.protocol": "FOO"}, "kafka.security.protocol"),
        ({"value.format": "jsn"}, "jsn"),
    ],
)
def test_validate_asks_the_library_of_a_client(settings, words, tmp_path, streamkit):
    """What the client's library or a format does not take is an error of `validate`, by the name under which it was given."""
    config = {"connector.class": "KafkaSink", "bootstrap.servers": "x:1", "topics": "q", **settings}
    (tmp_path / "connectors.json").write_text(json.dumps({"name": "v", "config": config}))
    with pytest.raises(ConfigError, match=words):
        streamkit("connect", "validate", str(tmp_path / "connectors.json"))
