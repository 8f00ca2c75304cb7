"""Configurations: files, placeholders, settings, and what is said of those that are wrong."""

from __future__ import annotations

import json
import re

import pytest

from streamkit.connectors.connector_file import read_connectors
from streamkit.connectors.delta import DeltaSink
from streamkit.connectors.kafka import KafkaSink, KafkaSource
from streamkit.connectors.placeholders import properties
from streamkit.connectors.postgres import PostgresSink
from streamkit.errors import ConfigError

CLASS = "topologies.connectors.sqlite_connector:SqliteSource"
CONFIG = {"connector.class": CLASS, "path": "a.db", "tables": "people, pets", "tasks.max": "2", "topic.config.retention.ms": 5}


def read(tmp_path, text, name="connectors.json"):
    (tmp_path / name).write_text(text)
    return read_connectors(tmp_path / name)


@pytest.mark.parametrize(
    "described",
    [{"name": "in", "config": CONFIG}, [{"name": "in", "config": CONFIG}], {"name": "in", **CONFIG}],
    ids=["Connect's", "list", "flat"],
)
def test_json(tmp_path, described):
    """Connect's JSON, a list of it, and one flat object describe the same connector."""
    (found,) = read(tmp_path, json.dumps(described))
    assert (found.name, found.settings["path"], found.settings["tables"]) == ("in", "a.db", ("people", "pets"))
    assert (found.settings["tasks.max"], found.settings["topic.config."]) == (2, {"retention.ms": "5"})


def test_properties(tmp_path):
    """Java's properties do too."""
    (found,) = read(
        tmp_path, f"# people\nname=in\nconnector.class: {CLASS}\npath = a.db\ntables=people,\\\n  pets\n", "in.properties"
    )
    assert (found.name, found.settings["tables"]) == ("in", ("people", "pets"))


def test_lines_of_properties():
    """Separators, comments, continued lines and escapes are read as Java reads them."""
    text = "a=1\n b : 2\nc 3\n!no\n\nd=x\\\n   y\ne\\=f=g\\u0041\\n\nh\n"
    assert properties(text) == {"a": "1", "b": "2", "c": "3", "d": "xy", "e=f": "gA\n", "h": ""}


@pytest.mark.parametrize("written", ["${Topic}", "a-${topics}", "${}", "${topic", "${timestamp}"])
def test_names_that_stand_for_nothing(tmp_path, written):
    """A template with a name that is none is refused by whatever has one; it was the name of a table, or a folder, of all topics."""
    for setting, make in (
        ("table", lambda: PostgresSink("out", connection_url="postgresql://h/d", topics="a,b", table=written)),
        ("path", lambda: DeltaSink("out", path=f"{tmp_path}/{written}", topics="a,b")),
        ("kafka.topic", lambda: KafkaSink("out", bootstrap_servers="h:9092", topics="a,b", kafka_topic=written)),
    ):
        with pytest.raises(ConfigError, match=rf"{setting}.*expected"):
            make()


def test_placeholders(tmp_path, monkeypatch):
    """Values come from the environment and from files; the configuration keeps the placeholder, and texts hide the value."""
    monkeypatch.setenv("PLACE", "secret-place")
    (tmp_path / "secrets.properties").write_text("folder=hidden\n")
    path = f"${{env:PLACE}}/${{file:{tmp_path / 'secrets.properties'}:folder}}/a.db"
    (found,) = read(tmp_path, json.dumps({"name": "in", **CONFIG, "path": path}))
    assert found.settings["path"] == "secret-place/hidden/a.db"
    assert found.config["path"] == path
    assert found.redacted("cannot open secret-place/hidden/a.db") == "cannot open ********/********/a.db"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://127.0.0.1:8080/hook", "http://127.0.0.1:8080/hook"),
        ("postgresql://ann:hunter2@h:5432/db", "postgresql://ann:********@h:5432/db"),
        ("postgresql://ann:hunt@er2@h1:1,h2:2/db", "postgresql://ann:********@h1:1,h2:2/db"),
        ("http://a:hunter2@h,http://b:hunter3@h", "http://a:********@h,http://b:********@h"),
        (
            "http://h/hook?id=7&api_key=hunter2&X-Amz-Signature=hunter3",
            "http://h/hook?id=7&api_key=********&X-Amz-Signature=********",
        ),
        ("http://h/hook?monkey=no", "http://h/hook?monkey=no"),
    ],
)
def test_secrets_in_addresses(address, shown):
    """Passwords and keys within an address are hidden; a port and a path are not, nor what else has the same digits."""
    assert (
        PostgresSink("out", {"topics": "t", "connection.url": "postgresql:///", "table": address}).redacted(
            f"1 record to {address}"
        )
        == f"1 record to {shown}"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tabels": "x"}, r"no setting 'tabels'; did you mean tables"),
        ({"path": None}, r"path=None; expected a text"),
        ({"tasks.max": "many"}, r"tasks.max='many'; expected an integer"),
        ({"tasks.max": 0}, r"tasks.max=0; expected at least 1"),
        ({"errors.tolerance": "some"}, r"expected one of none, all"),
        ({"path": "${env:NOT_THERE}"}, r"path: found \$\{env:NOT_THERE\}, but there is no environment variable"),
        ({"path": "${vault:x}"}, r"expected \$\{env:NAME\}"),
        ({"connector.class": "NoSource"}, r"connector.class='NoSource'; expected one of"),
        ({"connector.class": "json:JSONDecoder"}, r"is no connector"),
        ({"connector.class": "no_such_module:Source"}, r"there is no module 'no_such_module'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, change, message):
    """An unknown setting, a value of another kind, a class or a placeholder that is not there: the message names it."""
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, json.dumps({"name": "in", "config": {**CONFIG, **change}}))


def test_a_missing_setting(tmp_path):
    """A required setting that is missing is named, with what it is for."""
    with pytest.raises(ConfigError, match="needs the setting 'path': the database file"):
        read(tmp_path, json.dumps({"name": "in", "connector.class": CLASS, "tables": "x"}))


@pytest.mark.parametrize(
    "text", ['{"name": "in"', "17", '{"config": {}}', '{"name": "in", "config": {}, "tasks": []}', '[{"name": "a"}]']
)
def test_files_that_describe_nothing(tmp_path, text):
    """A file that is not JSON, or not a connector, is refused with what was expected."""
    with pytest.raises(ConfigError, match="expected"):
        read(tmp_path, text)


def test_names_differ(tmp_path):
    """Two connectors of one name are refused."""
    with pytest.raises(ConfigError, match="described twice"):
        read(tmp_path, json.dumps([{"name": "in", **CONFIG}] * 2))


@pytest.mark.parametrize("brokers", ["", ",", "h:9092,", "h:x", "h:0", "h:70000", "h 1:9092", "::1:9092"])
@pytest.mark.parametrize("made", [KafkaSource, KafkaSink])
def test_brokers_that_are_none(made, brokers):
    """An address that no broker has is refused when the connector is made, not asked for ever."""
    with pytest.raises(ConfigError, match=r"bootstrap\.servers=.*expected something like host:9092"):
        made("orders", {"topic" if made is KafkaSource else "topics": "t", "kafka.topic": "x", "bootstrap.servers": brokers})


@pytest.mark.parametrize("made", [KafkaSource, KafkaSink])
@pytest.mark.parametrize("setting", ["isolation.level", "bootstrap.servers", "transactional.id"])
def test_settings_on_which_exactly_once_rests(made, setting):
    """Settings of the client that the connector sets itself are refused, and an address with a password is not shown."""
    config = {"topic" if made is KafkaSource else "topics": "t", "kafka.topic": "x"}
    with pytest.raises(ConfigError, match=rf"found kafka\.{re.escape(setting)}, which connector orders sets itself"):
        made("orders", {**config, "bootstrap.servers": "h", f"kafka.{setting}": "x"})
    with pytest.raises(ConfigError, match="expected something like host:9092") as raised:
        made("orders", {**config, "bootstrap.servers": "user:hush-hush@h:9092"})
    assert "hush" not in str(raised.value)


def test_brokers():
    """A port may be left out, and several brokers, protocols and addresses in brackets are taken."""
    for brokers in ("h", "h1:9092, h2", "SSL://h:9093", "[::1]:9092"):
        assert KafkaSource("orders", {"topic": "t", "kafka.topic": "x", "bootstrap.servers": brokers}).name == "orders"
