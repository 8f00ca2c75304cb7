"""Foreign systems in a topology: what is declared, shown, started, and ended with the query."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.connectors import run
from streamkit.connectors.classes import connector_of
from streamkit.connectors.debezium import DebeziumSource
from streamkit.connectors.runtime import status
from streamkit.errors import ConfigError, TopicNotFoundError, TopologyError
from streamkit.launch.connections import configuration, exported
from streamkit.launch.main import main
from streamkit.testing import TopologyTestDriver
from tests.kit.waiting import wait_until
from tests.unit.connectors.conftest import _quick_looks  # noqa: F401 (of its own accord)
from tests.unit.connectors.contract import described

SINK = "topologies.connectors.sqlite_connector:SqliteSink"
SCHEMA = "city string, n int"


@pytest.fixture
def root(tmp_path):
    with sk.open_log(tmp_path / "log"):
        pass
    return tmp_path / "log"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def write(folder, name, rows):
    (folder / name).write_text("".join(json.dumps({"city": city, "n": n}) + "\n" for city, n in rows))


def topology(folder, schema=SCHEMA):
    """Sums by city, from JSON lines in a folder to a table of SQLite."""
    app = sk.Topology("sums")
    numbers = app.stream(sk.files(folder, topic="numbers"), schema=schema, key="city" if schema else None)
    sums = numbers.group_by("city").agg(total=F.sum("n"))
    sums.to(sk.connector(SINK, topic="totals", path=str(folder.parent / "out.db")))
    return app


def newest(folder):
    """The last total of each city in the database."""
    with closing(sqlite3.connect(folder.parent / "out.db")) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        return dict(database.execute("SELECT city, total FROM totals ORDER BY rowid")) if "totals" in tables else {}


@pytest.mark.parametrize(
    ("endpoint", "topic"),
    [
        (sk.kafka("orders"), "kafka.orders"),
        (sk.postgres("public.orders"), "postgres.public.orders"),
        (sk.delta("s3://bucket/lake/sales/"), "delta.sales"),
        (sk.files("/data/in/*.csv"), "files.in"),
        (sk.http("/"), "http.records"),
        (sk.debezium("shop.public.orders"), "debezium.shop.public.orders"),
        (sk.kafka("orders", topic="mine"), "mine"),
    ],
)
def test_topics_are_named_after_the_place(endpoint, topic):
    """The topic is called after system and place, unless it is given."""
    assert endpoint.topic == topic


def test_nothing_shows_secrets():
    """The tree, the flowchart, the picture and the passes name a connector's ends, and none of its settings."""
    app = sk.Topology("copy")
    stream = app.stream(sk.kafka("orders", kafka_sasl_password="hunter2"), schema="a string", key="a")
    stream.to(sk.http("https://joe:hunter2@host/hook?token=hunter2", config={"headers.Authorization": "hunter2"}))
    texts = (app.describe(), app.to_mermaid(), app._repr_html_(), app.explain(), repr(app.connections), str(app))
    assert "hunter2" not in "".join(texts) + sk.compile(app).fingerprint + json.dumps(sk.compile(app).to_json())
    assert "kafka('orders') → kafka.orders  [kafka.orders-source]" in app.describe()
    assert "http.hook → http('https://host/hook')  [http.hook-sink]" in app.explain()
    assert all("https://host/hook" in text for text in texts[:4])


def test_two_of_one_name_are_refused():
    """Two connectors of a topology that differ need names that differ; the same one twice is one."""
    app = sk.Topology("twice")
    app.stream(sk.kafka("orders", bootstrap_servers="a"))
    app.stream(sk.kafka("orders", bootstrap_servers="a"))
    assert len(app.connections) == 1
    with pytest.raises(
        TopologyError, match=r"(?s)two connectors .* kafka.orders-source.*expected another name=.*test_connections.py"
    ):
        app.stream(sk.kafka("orders", bootstrap_servers="b"))


@pytest.mark.parametrize(
    "endpoint",
    [
        sk.kafka("orders", bootstrap_servers="h:1", value_format="json"),
        sk.postgres("orders", connection_url="postgresql://h/shop"),
        sk.delta("/data/orders"),
        sk.files("/data/in", topic="orders"),
        sk.http("/orders"),
        sk.debezium("shop.orders", bootstrap_servers="h:1", value_format="json"),
    ],
    ids=lambda endpoint: endpoint.system,
)
def test_a_source_takes_columns_and_key_of_a_topology(endpoint):
    """A topology may say the columns and the key of any source."""
    app = sk.Topology("orders")
    app.stream(endpoint, schema="id int NOT NULL, n int", key="id")
    (connection,) = app.connections
    assert connector_of(connection.name, configuration(connection)).settings["key"] == ("id",)


def test_debezium_is_a_source():
    """Its short form declares a DebeziumSource of the topic of Kafka, whose settings it takes; nothing can be written to it."""
    app = sk.Topology("orders")
    orders = app.table(
        sk.debezium("shop.orders", bootstrap_servers="a", value_format="json"), schema="id int NOT NULL, n int", key="id"
    )
    (connection,) = app.connections
    assert (connection.class_name, connection.topic, connection.is_source) == ("DebeziumSource", "debezium.shop.orders", True)
    connector = DebeziumSource(connection.name, dict(connection.settings) | {"topic": connection.topic})
    assert connector.settings["kafka.topic"] == ("shop.orders",)
    with pytest.raises(TopologyError, match=r"debezium\('shop.orders'\) is no sink"):
        orders.to_stream().to(sk.debezium("shop.orders"))


def test_the_topic_is_not_a_setting():
    """Settings that the short form itself makes are refused."""
    with pytest.raises(TopologyError, match=r"kafka\('orders'\) was given the setting 'topics'; expected topic="):
        sk.kafka("orders", topics="mine")


def test_the_driver_takes_the_topic(folder):
    """In a test of the topology the topics are just topics."""
    with TopologyTestDriver(topology(folder)) as driver:
        driver.pipe("numbers", [{"city": "Oslo", "n": 1}, {"city": "Oslo", "n": 2}])
        assert [row["total"] for row in driver.read("totals")][-1] == 3


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_a_bounded_run_takes_all(root, folder, schema):
    """Sources come to their end before the query begins, and sinks take what it made; so a second run takes what is new."""
    write(folder, "1.json", [("Oslo", 1), ("Rome", 2)])
    for number, expected in ((2, {"Oslo": 1, "Rome": 2}), (3, {"Oslo": 11, "Rome": 2})):
        with sk.open_log(root) as log:
            sk.run(topology(folder, schema), log=log, trigger="available_now", engine="local").wait()
        assert newest(folder) == expected
        write(folder, f"{number}.json", [("Oslo", 10)])


def test_a_run_that_goes_on(root, folder):
    """Connectors run beside the query and end with it."""
    write(folder, "1.json", [("Oslo", 1)])
    with sk.open_log(root) as log:
        running = sk.run(topology(folder, None), log=log, engine="local")
        wait_until(lambda: newest(folder) == {"Oslo": 1})
        write(folder, "2.json", [("Oslo", 2)])
        wait_until(lambda: newest(folder) == {"Oslo": 3})
        assert not running.wait(0)
        running.stop()
        assert {one.state for one in status.read_status(log)} == {status.STOPPED}


def test_a_connector_that_fails_ends_the_run(root, folder):
    """The error of a connector reaches whoever waits, and ends the query and the other connectors."""
    write(folder, "1.json", [("Oslo", 1)])
    with sk.open_log(root) as log:
        running = sk.run(topology(folder), log=log, engine="local")
        (folder / "2.json").write_text("no JSON\n")
        with pytest.raises(sk.StreamKitError, match=r"2\.json"):
            running.wait(60)
        assert not running.is_active


def test_a_source_without_rows_and_schema(root, folder):
    """Where nothing says what the topic holds, the error says what would."""
    with (
        sk.open_log(root) as log,
        pytest.raises(TopicNotFoundError, match=r"no topic 'numbers', and the connector files.in-source"),
    ):
        sk.run(topology(folder, None), log=log, trigger="available_now", engine="local")


def test_external_connectors(root, folder):
    """Nothing but the query is started where connectors run elsewhere."""
    write(folder, "1.json", [("Oslo", 1)])
    with sk.open_log(root) as log:
        sk.run(topology(folder), log=log, trigger="available_now", engine="local", connectors="external").wait()
        assert status.read_status(log) == []
        assert "numbers" in log.topics()
        with pytest.raises(ConfigError, match="connectors='there'; expected one of 'here', 'external'"):
            sk.run(topology(folder), log=log, engine="local", connectors="there")  # type: ignore[call-overload]


def test_the_command_line(tmp_path, folder):
    """`sk.main` runs the connectors too, and makes the log that they fill, as `sk.run` does."""
    write(folder, "1.json", [("Oslo", 1)])
    main(topology(folder), ["--log", str(tmp_path / "new"), "--local", "--once"])
    assert newest(folder) == {"Oslo": 1}
    sk.run(topology(folder), log=str(tmp_path / "newer"), drain=True, engine="local", connectors="external").wait()


def test_export(folder, monkeypatch):
    """What is exported is what `connect run` takes, placeholders as they are; a secret that is written out is refused."""
    app = sk.Topology("out")
    numbers = app.stream(sk.kafka("orders", bootstrap_servers="h:1"), schema="n int")
    numbers.to(sk.postgres("totals", connection_url="${env:SHOP}"))
    assert exported(app) == [
        {
            "name": "kafka.orders-source",
            "config": {"connector.class": "KafkaSource", "topic": "kafka.orders", "kafka.topic": "orders", "bootstrap.servers": "h:1"},
        },
        {
            "name": "postgres.totals-sink",
            "config": {
                "connector.class": "PostgresSink", "topics": "postgres.totals", "table": "totals", "connection.url": "${env:SHOP}",
            },
        },
    ]  # fmt: skip
    numbers.to(sk.postgres("more", connection_url="postgresql://joe:hunter2@host/shop"))
    with pytest.raises(ConfigError, match=r"postgres.more-sink: its connection.url is secret.*\$\{env:NAME\}") as error:
        exported(app)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "settings", [{}, {"transforms": "r", "transforms.r.type": "ReplaceField$Value", "transforms.r.renames": "town:city"}]
)
def test_what_is_exported_makes_the_same_topic(folder, tmp_path, settings):
    """A worker that runs what was exported, before the topology runs, makes the topic that the topology would make."""
    write(folder, "a.jsonl", [("Oslo", 1)])
    if settings:
        (folder / "a.jsonl").write_text('{"town":"Oslo","n":1}\n')
        settings = {**settings, "schema": "town string, n int"}
    app = sk.Topology("out")
    app.stream(sk.files(folder, topic="numbers", config=settings), schema="n int, city string NOT NULL", key="city").to("copy")
    with sk.open_log(tmp_path / "theirs") as log:
        run([connector_of(one["name"], one["config"]) for one in exported(app)], log, once=True)
        sk.run(app, log=log, drain=True, engine="local", connectors="external").wait()
        theirs = described(log, "numbers")
    with sk.open_log(tmp_path / "ours") as log:
        sk.run(app, log=log, drain=True, engine="local").wait()
        ours = described(log, "numbers")
    assert theirs == ours and ours[1] == ("city",)


def test_export_of_bytes_with_a_format(folder):
    """Of a source of bytes with a format the topic's columns are exported; what has them already keeps them."""
    app = sk.Topology("out")
    app.stream(sk.kafka("orders", bootstrap_servers="h:1", value_format="json"), schema="id bigint NOT NULL, n int", key="id").to(
        "copy"
    )
    (found,) = exported(app)
    source = connector_of(found["name"], found["config"])
    assert (source.settings["topic.schema"], list(source.settings["key"])) == ("`id` bigint NOT NULL, `n` int", ["id"])


FORKING = """
import os, sys
import streamkit as sk

app = sk.Topology("copy")
app.stream(sk.files(sys.argv[2], topic="numbers"), schema="n int").to("copied")
with sk.open_log(sys.argv[1]) as log:
    running = sk.run(app, log=log, engine="local")
    if os.fork() == 0:
        sys.exit(0)
    pid, status = os.wait()
    print("ended", os.waitstatus_to_exitcode(status), running.is_active, flush=True)
    running._companion.check()
    running.stop()
"""


def test_a_process_that_was_forked_ends(root, folder):
    """It leaves the run and its connectors to the process that has them."""
    done = subprocess.run([sys.executable, "-c", FORKING, root, folder], check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("ended 0 True\n", 0), done.stderr


def test_records_do_not_go_round(root, folder):
    """
    A topic that an application writes for a system is not filled from such a system, in one topology or in two.

    Two topologies may be started in either order; a connector that copies what a source brings is allowed.
    """
    write(folder, "a.jsonl", [("Oslo", 1)])
    with sk.open_log(root) as log:
        both = sk.Topology("both")
        both.stream(sk.files(folder, topic="numbers"), schema=SCHEMA).to(sk.files(folder.parent / "out", topic="numbers"))
        out = sk.Topology("out")
        log.create_topic("plain", SCHEMA)
        out.stream("plain").to(sk.files(folder.parent / "out", topic="sums"))
        back = sk.Topology("back")
        back.stream(sk.files(folder, topic="sums"), schema=SCHEMA).to("copied")
        with pytest.raises(ConfigError, match="records would go round"):
            sk.run(both, log=log, engine="local", trigger="available_now")
        sk.run(out, log=log, engine="local", trigger="available_now").wait()
        with pytest.raises(ConfigError, match=r"writes into topic sums.* records would go round"):
            sk.run(back, log=log, engine="local", trigger="available_now")
        copied, again = sk.Topology("copied"), sk.Topology("again")
        copied.stream(sk.files(folder, topic="archived"), schema=SCHEMA).to("others")
        again.stream("plain").to(sk.files(folder.parent / "out", topic="archived"))
        sk.run(copied, log=log, engine="local", trigger="available_now").wait()
        with pytest.raises(ConfigError, match="records would go round"):
            sk.run(again, log=log, engine="local", trigger="available_now")
        run(
            [connector_of("archive", {"connector.class": "FileSink", "path": str(folder.parent / "kept"), "topics": "archived"})],
            log,
            once=True,
        )
        write(folder, "b.jsonl", [("Rome", 2)])
        sk.run(copied, log=log, engine="local", trigger="available_now").wait()
        assert log.read("others").num_rows == 2


def test_the_topic_of_a_table_is_kept_for_ever(root, folder):
    """Rows of a table that nobody changes are rows of it all the same; a stream has the log's retention, and what is said goes first."""
    write(folder, "a.jsonl", [("Oslo", 1)])
    with sk.open_log(root) as log:
        app = sk.Topology("both")
        app.table(sk.files(folder, topic="cities", name="one"), schema=SCHEMA, key="city").to_stream().to("cities_changed")
        app.table(
            sk.files(folder, topic="kept", name="three", topic_config_retention_ms="5000"), schema=SCHEMA, key="city"
        ).to_stream().to("kept_changed")
        app.stream(sk.files(folder, topic="numbers", name="two"), schema=SCHEMA).to("copied")
        sk.run(app, log=log, engine="local", trigger="available_now").wait()
        config = {name: dict(log.topic(name).config) for name in ("cities", "kept", "numbers")}
    assert (config["cities"]["retention.ms"], config["cities"]["cleanup.policy"]) == ("-1", "compact")
    assert (config["kept"]["retention.ms"], config["kept"]["cleanup.policy"]) == ("5000", "compact")
    assert "retention.ms" not in config["numbers"]
