"""SHOW, DESCRIBE and EXPLAIN: what there is, as tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamkit.connectors.connector_file import read_connectors
from streamkit.connectors.runtime.worker import Worker
from streamkit.errors import SqlError, StreamKitError
from streamkit.sql.execution.callable_functions import functions_called

SHOP = """
CREATE STREAM clicks (who STRING KEY, page STRING, n INT);
CREATE TABLE users (id STRING PRIMARY KEY, city STRING) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 2);
CREATE TYPE address AS STRUCT<street STRING, number INT>;
CREATE TABLE totals AS SELECT who, count(*) AS clicks FROM clicks WHERE n > 0 GROUP BY who;
INSERT INTO clicks VALUES ('ann', 'home', 1), ('bob', 'home', 0), ('ann', 'cart', 2);
"""


@pytest.fixture
def shop(log, sql, process):
    """A session with a stream, two tables and a type, whose query has run."""
    log.create_topic("plain", "a int")
    log.create_topic("kept", "a int, b string", key="a", config={"cleanup.policy": "compact"})
    sql.execute(SHOP)
    process()
    return sql


def table(sql, statement):
    """The rows of a statement, as tuples."""
    (result,) = sql.execute(statement)
    return [tuple(row.values()) for row in result.table.to_pylist()]


def test_streams_and_tables(shop):
    """Each kind has its own list; EXTENDED also says what reads a source, and its statement."""
    assert table(shop, "SHOW STREAMS") == [("clicks", "clicks", "who", "who string, page string, n int", "")]
    assert table(shop, "LIST TABLES") == [
        ("totals", "totals", "who", "who string, clicks bigint", "CTAS_TOTALS_1"),
        ("users", "users", "id", "id string, city string", ""),
    ]
    ((*_, readers, statement),) = table(shop, "SHOW STREAMS EXTENDED")
    assert (readers, statement) == ("CTAS_TOTALS_1", "CREATE STREAM clicks (who STRING KEY, page STRING, n INT)")
    assert table(shop, "DESCRIBE STREAMS EXTENDED") == table(shop, "SHOW STREAMS EXTENDED")
    assert table(shop, "DESCRIBE TABLES") == table(shop, "SHOW TABLES")


def test_windowed_tables_of_the_ksql_dialect(shop):
    """The bounds of windows are no columns of the ksql dialect, in no list and no description; in the other dialect they are."""
    queries = "SELECT who, count(*) AS c FROM clicks WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY who"
    shop.execute(f"CREATE TABLE hours AS {queries}")
    assert dict(table(shop, "DESCRIBE hours EXTENDED"))["key"] == "who, window_start, window_end"
    shop.execute("SET 'streamkit.sql.dialect' = 'ksql'")
    shop.execute(f"CREATE TABLE counted AS {queries}")
    found = {name: rest for name, *rest in table(shop, "SHOW TABLES")}
    assert found["COUNTED"][1:3] == ["`who`", "`who` STRING, C BIGINT"]
    assert found["hours"][1] == "who, window_start, window_end"
    assert dict(table(shop, "DESCRIBE counted EXTENDED"))["key"] == "`who`"


def test_aggregates_in_plans(shop):
    """Aggregates of the ksql dialect have the name that the statement gives them, in the plan of a query too."""
    shop.execute("SET 'streamkit.sql.dialect' = 'ksql'")
    plan = "\n".join(
        line for (line,) in table(shop, "EXPLAIN CREATE TABLE sums AS SELECT who, SUM(n) AS s FROM clicks GROUP BY who")
    )
    assert "S = SUM(n): int" in plan
    assert "ksql_" not in plan


def test_topics(shop):
    """Each topic with its format and rows, and what it is read as; ALL also those of applications, EXTENDED what they hold."""
    found = {name: rest for name, *rest in table(shop, "SHOW TOPICS")}
    assert found == {
        "clicks": ["columns", 4, 3, "stream"],
        "kept": ["columns", 4, 0, "table"],
        "plain": ["columns", 4, 0, "stream"],
        "totals": ["columns", 4, 1, "table"],
        "users": ["json", 2, 0, "table"],
    }
    assert {name for name, *_ in table(shop, "SHOW ALL TOPICS")} > found.keys()
    (kept,) = [row for row in table(shop, "SHOW TOPICS EXTENDED") if row[0] == "kept"]
    assert kept[-3:] == (0, "a", "a int, b string")


def test_queries_types_properties_and_variables(shop):
    """Persistent queries with what they read and fill, types, the settings that are set and those that are not, and variables."""
    (result,) = shop.execute("SHOW QUERIES")
    (query,) = result.table.to_pylist()
    assert (query["query"], query["fills"], query["reads"]) == ("CTAS_TOTALS_1", "totals", "clicks")
    assert query["statement"].startswith("CREATE TABLE totals AS SELECT who")
    assert table(shop, "SHOW TYPES") == [("address", "struct<street:string,number:int>")]
    shop.execute("SET 'streamkit.time.zone' = 'Europe/Oslo'; DEFINE place = 'Oslo'")
    properties = {name: value for name, value, _ in table(shop, "SHOW PROPERTIES")}
    assert (properties["streamkit.time.zone"], properties["auto.offset.reset"]) == ("Europe/Oslo", "")
    assert all(meaning for *_, meaning in table(shop, "LIST PROPERTIES"))
    assert table(shop, "SHOW VARIABLES") == [("place", "Oslo")]


def test_functions(shop):
    """All functions and aggregates by name; one with its meaning, and the nearest of a name that is none."""
    kinds = dict(table(shop, "SHOW FUNCTIONS"))
    assert (kinds["upper"], kinds["count"]) == ("function", "aggregate")
    ((name, kind, meaning),) = table(shop, "DESCRIBE FUNCTION Upper")
    assert (name, kind) == ("upper", "function") and meaning
    with pytest.raises(SqlError, match="there is no function uper; did you mean upper"):
        shop.execute("DESCRIBE FUNCTION uper")
    assert not [name for name in kinds if name.startswith("ksql_")]


def test_functions_of_spark_are_those_of_the_page(shop):
    """SHOW FUNCTIONS has the functions of the reference that are SQL, and some of SQL alone, each with a meaning; no name of an operator."""
    page = (Path(__file__).parents[4] / "docs" / "reference" / "functions.md").read_text(encoding="utf-8")
    of_page = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    kinds = dict(table(shop, "SHOW FUNCTIONS"))
    of_python = {name for name in of_page - set(kinds) if name != name.lower()}

    assert of_page - set(kinds) - of_python == {"arrow_udf", "col", "column", "create_map", "expr", "lit", "pandas_udf", "udf"}
    assert not {"add", "eq", "case", "in", "get_field", "not"} & set(kinds)
    assert (kinds["explode"], kinds["posexplode_outer"], kinds["struct"]) == ("table function", "table function", "function")
    assert [name for name in kinds if not functions_called("spark", name)[0].meaning] == []
    ((name, kind, meaning),) = table(shop, "DESCRIBE FUNCTION explode")
    assert (name, kind) == ("explode", "table function")
    assert meaning


def is_known(session, function):
    """Whether a call is refused for its arguments, if at all, and not for its name."""
    try:
        session.explain(f"SELECT {function}(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) AS x")
    except StreamKitError as error:
        return "has no function" not in str(error)
    return True


def test_functions_of_ksqldb(shop):
    """In the ksql dialect each function that is listed can be called by that name, and those of Spark alone are not there."""
    shop.execute("SET 'streamkit.sql.dialect' = 'ksql'")
    kinds = dict(table(shop, "SHOW FUNCTIONS"))
    assert (kinds["EXTRACTJSONFIELD"], kinds["TOPK"], kinds["EXPLODE"]) == ("function", "aggregate", "table function")
    assert "ACOSH" not in kinds and "ADD_MONTHS" not in kinds
    for name, kind in kinds.items():
        ((described, *_, meaning),) = table(shop, f"DESCRIBE FUNCTION {name.lower()}")
        assert described == name and meaning.startswith(f"{name}(") and meaning.endswith(".")
        if kind == "function":
            assert is_known(shop, name)
    assert not is_known(shop, "ACOSH")
    with pytest.raises(SqlError, match="there is no function EXTRACTJSONFELD; did you mean EXTRACTJSONFIELD"):
        shop.execute("DESCRIBE FUNCTION EXTRACTJSONFELD")


def test_connectors(shop, log, tmp_path):
    """Connectors that a worker has run, with their kinds and states; their settings; and the classes that there are."""
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "rows.jsonl").write_text('{"a": 1}\n')
    file = tmp_path / "files.json"
    file.write_text(
        '[{"name": "rows", "config": {"connector.class": "FileSource", "topic": "plain", "path": "%s"}}]' % source  # noqa: UP031
    )
    with Worker(read_connectors(file), log, is_once=True) as worker:
        worker.start()
        worker.wait()

    assert [row[:2] for row in table(shop, "SHOW CONNECTORS")] == [("rows", "source")]
    assert table(shop, "SHOW SINK CONNECTORS") == []
    assert dict(table(shop, "DESCRIBE CONNECTOR rows"))["topic"] == "plain"
    assert ("FileSource", "source") in table(shop, "SHOW CONNECTOR PLUGINS")
    assert target.exists() is False
    with pytest.raises(SqlError, match="there is no connector 'row'"):
        shop.execute("DESCRIBE CONNECTOR row")


def test_a_source_is_described(shop):
    """Its columns with their types and roles; EXTENDED all that is known of it, as facts."""
    assert table(shop, "DESCRIBE users") == [("id", "string", "key"), ("city", "string", "")]
    assert table(shop, "DESCRIBE kept") == [("a", "int", "key"), ("b", "string", "")]
    facts = table(shop, "DESCRIBE totals EXTENDED")
    found = dict(facts)
    assert (found["kind"], found["topic"], found["records"], found["filled by"]) == ("table", "totals", "1", "CTAS_TOTALS_1")
    assert (found["CTAS_TOTALS_1: records read"], found["CTAS_TOTALS_1: records written"]) == ("3", "1")
    assert dict(table(shop, "DESCRIBE users EXTENDED"))["value_format"] == "JSON"
    assert dict(table(shop, "DESCRIBE clicks EXTENDED"))["read by"] == "CTAS_TOTALS_1"
    with pytest.raises(SqlError, match="there is no stream, table or topic 'user'; did you mean 'users'"):
        shop.execute("DESCRIBE user")


@pytest.mark.parametrize(
    ("statement", "lines"),
    [
        ("EXPLAIN SELECT * FROM totals WHERE who = 'ann'", ["select who, clicks", "look-up of 1 key in the store clicks-by-who"]),
        (
            "EXPLAIN SELECT page FROM clicks WHERE n > 1",
            ["select page", "scan in the topic clicks, which has 3 rows, where n > 1"],
        ),
        ("EXPLAIN SELECT page FROM clicks EMIT CHANGES", ["each record by itself, by a consumer"]),
        ("EXPLAIN SELECT who, count(*) AS n FROM clicks GROUP BY who EMIT CHANGES", ["in this process, with stores in memory"]),
        ("EXPLAIN CREATE STREAM big AS SELECT * FROM clicks WHERE n > 1", ["filter n > 1", "to big"]),
        ("EXPLAIN CTAS_TOTALS_1", ["topology sql-CTAS_TOTALS_1", "group by who: clicks = count(1)"]),
    ],
)
def test_explain_says_how_and_does_nothing(shop, log, statement, lines):
    """How rows are found, or the topology; nothing is created."""
    before = log.catalog.standing().commits
    text = "\n".join(line for (line,) in table(shop, statement))

    assert [line for line in lines if line not in text] == [], text
    assert log.catalog.standing().commits == before
