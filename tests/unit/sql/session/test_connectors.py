"""CREATE CONNECTOR and DROP CONNECTOR: declarations in the log, which workers run."""

from __future__ import annotations

import threading

import pytest

import streamkit as sk
from streamkit.connectors.connect_names import own_settings
from streamkit.connectors.connector_file import read_connectors
from streamkit.connectors.runtime.declared_connectors import read_declared
from streamkit.connectors.runtime.declared_runner import DeclaredRunner
from streamkit.connectors.runtime.status import RUNNING, ask, read_requests, read_states, read_status
from streamkit.connectors.runtime.worker import Worker
from streamkit.errors import ConfigError, SqlError, TopologyError
from streamkit.sql.session import SqlSession
from tests.kit.waiting import wait_until

KSQL = {"streamkit.sql.dialect": "ksql"}


@pytest.fixture
def disk(tmp_path):
    """A log in a folder, which other processes can open."""
    with sk.open_log(tmp_path / "log") as log:
        yield log


@pytest.fixture
def orders(tmp_path):
    """A folder with a file of orders, and the statement that reads it into a topic."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": 1, "item": "tea"}\n{"id": 2, "item": "jam"}\n')
    settings = f"'connector.class' = 'FileSource', 'path' = '{folder}', 'topic' = 'orders', 'schema' = 'id int, item string'"
    return f"CREATE SOURCE CONNECTOR orders_in WITH ({settings})"


def shown(sql, statement="SHOW CONNECTORS"):
    return [tuple(row.values()) for row in sql.execute(statement)[0].table.to_pylist()]


@pytest.mark.parametrize("place", ["disk", "log"])
def test_a_connector_is_run_and_dropped(request, place, orders, tmp_path):
    """A runner brings the rows of a source that a statement has declared, to a sink that another one has; DROP ends them and their states."""
    log = request.getfixturevalue(place)
    with SqlSession(log) as sql, DeclaredRunner(log):
        sql.execute(orders)
        wait_until(lambda: "orders" in log.topics() and log.read("orders").num_rows == 2)
        sql.execute(
            f"CREATE SINK CONNECTOR out WITH ('connector.class' = 'FileSink', 'path' = '{tmp_path / 'out'}', 'topics' = 'orders')"
        )
        wait_until(lambda: {one.connector for one in read_status(log) if one.state == RUNNING} == {"orders_in", "out"})
        wait_until(lambda: list((tmp_path / "out").rglob("*.jsonl")))
        assert shown(sql, "SHOW SINK CONNECTORS") == [("out", "sink", "FileSink", "RUNNING")]
        sql.execute("DROP CONNECTOR out; DROP CONNECTOR orders_in")
        assert shown(sql) == []
        wait_until(lambda: not read_states(log))
    assert log.read("orders")["item"].to_pylist() == ["tea", "jam"]
    assert log.fsck(deep=True).is_clean


def test_a_changed_connector_goes_on(disk, orders, tmp_path):
    """A connector that is dropped and made again with other settings goes on behind its positions."""
    with SqlSession(disk) as sql, DeclaredRunner(disk):
        sql.execute(orders)
        wait_until(lambda: "orders" in disk.topics() and disk.read("orders").num_rows == 2)
        sql.execute(f"DROP CONNECTOR orders_in; {orders[:-1]}, 'tasks.max' = 2)")
        wait_until(lambda: len([one for one in read_status(disk) if one.state == RUNNING]) == 2)
        (tmp_path / "in" / "b.jsonl").write_text('{"id": 3, "item": "nut"}\n')
        wait_until(lambda: disk.read("orders").num_rows >= 3)
    assert sorted(disk.read("orders")["id"].to_pylist()) == [1, 2, 3]


def test_two_runners_share_the_tasks(disk, orders, tmp_path):
    """Each record comes once, though two servers run the connector."""
    with SqlSession(disk) as sql, DeclaredRunner(disk), DeclaredRunner(disk):
        sql.execute(f"{orders[:-1]}, 'tasks.max' = 2)")
        for number in range(3, 9):
            (tmp_path / "in" / f"{number}.jsonl").write_text(f'{{"id": {number}, "item": "x"}}\n')
        wait_until(lambda: "orders" in disk.topics() and disk.read("orders").num_rows >= 8)
    assert sorted(disk.read("orders")["id"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_what_is_said(sql, orders):
    """SHOW and DESCRIBE know a connector that nobody runs yet; IF NOT EXISTS and IF EXISTS find what is there."""
    assert "is declared" in sql.execute(orders)[0].message
    assert shown(sql) == [("orders_in", "source", "FileSource", "UNASSIGNED")]
    assert dict(shown(sql, "DESCRIBE CONNECTOR Orders_In"))["topic"] == "orders"
    again = orders.replace("CONNECTOR", "CONNECTOR IF NOT EXISTS")
    assert sql.execute(again)[0].message == "There is a connector orders_in already."
    assert sql.execute("DROP CONNECTOR IF EXISTS others")[0].message == "There is no connector others."
    assert sql.execute("DROP CONNECTOR ORDERS_IN")[0].message.startswith("The connector orders_in is gone")
    assert shown(sql) == []


def test_a_new_one_is_not_paused(sql, log, orders):
    """What was asked of a connector goes with it."""
    sql.execute(orders)
    ask(log, "orders_in", is_paused=True)
    sql.execute(f"DROP CONNECTOR orders_in; {orders}")
    assert read_requests(log) == {}


def test_all_or_nothing(sql, log, orders):
    """A statement that is wrong lets none be declared; and one text may declare and drop."""
    with pytest.raises(SqlError, match="there is no connector 'b'"):
        sql.execute(f"{orders}; DROP CONNECTOR b")
    assert read_declared(log) == {}
    sql.execute(f"CREATE STREAM s (a INT); {orders}; DROP CONNECTOR orders_in; {orders}; INSERT INTO s VALUES (1)")
    assert list(read_declared(log)) == ["orders_in"]
    assert log.read("s").num_rows == 1


def test_one_of_two_at_once(disk, orders):
    """Of two sessions that declare one connector at once, one is told that it is there."""
    sessions = [SqlSession(disk) for _ in range(4)]
    told: list[str] = []
    begin = threading.Barrier(len(sessions))

    def declare(session, item):
        begin.wait()
        try:
            session.execute(orders.replace("'orders'", f"'orders{item}'"))
        except TopologyError as error:
            told.append(str(error))

    threads = [threading.Thread(target=declare, args=(session, number)) for number, session in enumerate(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for session in sessions:
        session.close()
    assert len(told) == 3
    assert all("there is a connector orders_in already" in one for one in told)


FILE = "'connector.class' = 'FileSink', 'path' = 'out'"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE SINK CONNECTOR c WITH ('path' = 'x')", "it has no 'connector.class'; expected one of"),
        ("CREATE SINK CONNECTOR c WITH ('connector.class' = 'FileSinks')", "'FileSinks' is not there; expected one of"),
        ("CREATE SINK CONNECTOR c WITH ('connector.class' = 'x:Y')", "there is no module 'x'"),
        (f"CREATE SINK CONNECTOR c WITH ({FILE})", "needs the setting 'topics'"),
        (f"CREATE SINK CONNECTOR c WITH ({FILE}, 'topics' = 't', 'pth' = '1')", "has no setting 'pth'; did you mean path"),
        (f"CREATE SINK CONNECTOR c WITH ({FILE}, 'topics' = 't', 'path' = '1')", "the setting 'path' is there twice"),
        (f"CREATE SOURCE CONNECTOR c WITH ({FILE}, 'topics' = 't')", "FileSink is a sink; expected CREATE SINK CONNECTOR c"),
        ("CREATE SINK CONNECTOR `a b` WITH ('connector.class' = 'FileSink')", "'a b' cannot be the name of a connector"),
        (
            f"CREATE SINK CONNECTOR `{'x' * 400}` WITH ({FILE})",
            "xxx... cannot be the name of a connector: it has 400 characters; expected",
        ),
        (
            f"CREATE SINK CONNECTOR c WITH ({FILE}, 'topics' = 't', 'name' = 'd')",
            "the connector is called c, and its setting name is 'd'; expected no setting name",
        ),
        (
            "CREATE SINK CONNECTOR c WITH ('connector.class' = 'PostgresSink', 'topics' = 't', 'connection.url' = 'postgresql://a:b@c/d')",
            "connection.url is secret, and every reader of the log would see it; expected a placeholder",
        ),
        (
            "CREATE SINK CONNECTOR c WITH ('connector.class' = 'PostgresSink', 'topics' = 't', 'connection.url' = '${env:NO}', 'pth' = 1)",
            "has no setting 'pth'",
        ),
        (
            "CREATE SOURCE CONNECTOR c WITH ('connector.class' = 'io.debezium.connector.postgresql.PostgresConnector')",
            "is not there; expected PostgresSource, which reads the same changes; it needs connection.url and tables",
        ),
        (f"CREATE SINK CONNECTOR c WITH ({FILE}, 'topics' = 't', 'value.converter' = 'x.Y')", "expected one of JsonConverter"),
        ("DROP CONNECTOR c", "there is no connector 'c'; there are none"),
    ],
)
def test_what_is_refused(sql, log, statement, message):
    """The error says what was found and what there is, before anything is written."""
    with pytest.raises(SqlError) as caught:
        sql.execute(statement)
    assert message in str(caught.value)
    assert "'b@c" not in str(caught.value)
    assert log.topics(internal=True) == []


def test_a_name_among_the_settings(sql, log):
    """The name that the statement gives may be among the settings, too, as in a file of Kafka Connect; it is no setting."""
    sql.execute("CREATE STREAM t (a INT)")
    sql.execute(f"CREATE SINK CONNECTOR c WITH ({FILE}, 'topics' = 't', 'name' = 'C')")
    assert "name" not in read_declared(log)["c"].settings


def test_a_connector_of_a_file(sql, log, orders, tmp_path):
    """A connector that a worker runs from a file is neither made nor dropped by a statement; once nobody runs it, a statement may have its name."""
    file = tmp_path / "c.json"
    source = tmp_path / "in"
    file.write_text(
        '[{"name": "orders_in", "config": {"connector.class": "FileSource", "topic": "orders", "path": "%s"}}]' % source  # noqa: UP031
    )
    with Worker(read_connectors(file), log).start():
        wait_until(lambda: any(one.state == RUNNING for one in read_status(log)))
        with pytest.raises(SqlError, match="a worker runs a connector orders_in of a file"):
            sql.execute(orders)
    with pytest.raises(SqlError, match="no statement has made orders_in: it is of a file"):
        sql.execute("DROP CONNECTOR orders_in")
    sql.execute(orders)
    assert list(read_declared(log)) == ["orders_in"]


def test_a_server_for_others_makes_none(log, orders):
    """A session that runs no scripts makes and drops no connectors, which read files of their worker."""
    with SqlSession(log, runs_scripts=False) as sql:
        for statement in (orders, "DROP CONNECTOR IF EXISTS x"):
            with pytest.raises(SqlError, match="neither made nor dropped by HTTP"):
                sql.execute(statement)


def test_the_ksql_dialect(log):
    """Names are in capitals; the class and the settings may be those of Kafka Connect."""
    with SqlSession(log, settings=KSQL) as sql:
        sql.execute(
            "CREATE SINK CONNECTOR totals WITH (\"connector.class\" = 'io.confluent.connect.jdbc.JdbcSinkConnector',"
            " \"connection.url\" = '${env:SHOP}', \"topics\" = 'TOTALS', \"table.name.format\" = 'totals', \"pk.mode\" = 'record_key',"
            " \"insert.mode\" = 'upsert', \"delete.enabled\" = 'true', \"key.converter\" = 'org.apache.kafka.connect.storage.StringConverter')"
        )
        (declared,) = read_declared(log).values()
        assert declared.name == "TOTALS"
        assert declared.settings == {
            "connector.class": "PostgresSink", "connection.url": "${env:SHOP}", "topics": "TOTALS", "table": "totals", "insert.mode": "upsert",
            "delete.enabled": "true", "key.format": "string",
        }  # fmt: skip
        sql.execute("DROP CONNECTOR totals")
    assert read_declared(log) == {}


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        (
            {"connector.class": "HttpSinkConnector", "http.api.url": "http://h/p", "request.method": "PUT"},
            {"connector.class": "HttpSink", "url": "http://h/p", "method": "PUT"},
        ),
        (
            {
                "connector.class": "KafkaSink",
                "value.converter": "AvroConverter",
                "value.converter.schema.registry.url": "http://r",
            },
            {"connector.class": "KafkaSink", "value.format": "avro", "schema.registry.url": "http://r"},
        ),
        (
            {"connector.class": "JdbcSinkConnector", "connection.url": "jdbc:postgresql://h/d", "batch.size": "5"},
            {"connector.class": "PostgresSink", "connection.url": "postgresql://h/d", "batch.rows": "5"},
        ),
    ],
)
def test_names_of_kafka_connect(settings, own):
    """Classes and settings of Kafka Connect are those that do the same here."""
    assert own_settings(settings) == own


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"pk.mode": "record_value"}, "PostgresSink has no pk.mode = 'record_value'; expected record_key or none"),
        ({"table": "x", "table.name.format": "y"}, "table.name.format is called table here, which is given too"),
        ({"value.converter.schemas.enable": "true"}, "is not done here"),
    ],
)
def test_what_kafka_connect_has_alone(more, message):
    """A setting whose value means something else is an error, and is not left out in silence."""
    with pytest.raises(ConfigError) as caught:
        own_settings({"connector.class": "JdbcSinkConnector", **more})
    assert message in str(caught.value)
