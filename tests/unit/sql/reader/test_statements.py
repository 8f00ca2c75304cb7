"""Statements as they are read: each with all its clauses, and with none."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from streamkit.plan.expression import Call, Literal, Reference
from streamkit.sql.reader.script import read_script
from streamkit.sql.tree.query import (
    FieldsStar,
    JoinClause,
    Order,
    Query,
    SelectColumn,
    SourceName,
    Star,
    Subquery,
    WindowClause,
    Within,
)
from streamkit.sql.tree.span import Name, Written
from streamkit.sql.tree.statements import (
    AlterSource,
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    ColumnDefinition,
    ControlQuery,
    CreateAs,
    CreateConnector,
    CreateSource,
    CreateType,
    Define,
    DeleteRows,
    Describe,
    DropConnector,
    DropSource,
    DropType,
    Explain,
    InsertQuery,
    InsertValues,
    Print,
    Property,
    RunScript,
    SelectStatement,
    Set,
    Show,
)

HOUR = 3_600_000


def column(name):
    """A column as an expression."""
    return Written(Reference(name))


def literal(value):
    """A literal as an expression."""
    return Written(Literal(value))


def item(name, alias=None):
    """A column as an item of SELECT."""
    return SelectColumn(column(name), alias and Name(alias))


def source(name, alias=None):
    """A source of a query."""
    return SourceName(Name(name), alias and Name(alias))


def only(text, **options):
    """The one statement of a text."""
    (statement,) = read_script(text, **options)
    return statement


A_FROM_T = Query((item("a"),), source("t"))
STATEMENTS = [
    ("CREATE STREAM s", CreateSource("stream", Name("s"))),
    (
        "create or replace source table if not exists t (k int primary key, v string) with (kafka_topic = 'x', partitions = 3, a = true, b = 1.5, c = null)",
        CreateSource(
            "table",
            Name("t"),
            (ColumnDefinition(Name("k"), "int", "primary key"), ColumnDefinition(Name("v"), "string")),
            (
                Property("KAFKA_TOPIC", "x"),
                Property("PARTITIONS", 3),
                Property("A", True),
                Property("B", 1.5),
                Property("C", None),
            ),
            or_replace=True,
            if_not_exists=True,
            is_read_only=True,
        ),
    ),
    (
        "CREATE STREAM s (k VARCHAR(20) KEY, h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, i BYTES HEADER('id'), table DECIMAL(4, 2))",
        CreateSource(
            "stream",
            Name("s"),
            (
                ColumnDefinition(Name("k"), "string", "key"),
                ColumnDefinition(Name("h"), "array<struct<key:string,value:binary>>", "headers"),
                ColumnDefinition(Name("i"), "binary", "headers", "id"),
                ColumnDefinition(Name("table"), "decimal(4,2)"),
            ),
        ),
    ),
    (
        "CREATE STREAM s (a address, b MAP<STRING, ARRAY<address>>, c STRUCT<`int`: `int`>, d TIME)",
        CreateSource(
            "stream",
            Name("s"),
            (
                ColumnDefinition(Name("a"), "address"),
                ColumnDefinition(Name("b"), "map<string,array<address>>"),
                ColumnDefinition(Name("c"), "struct<int:`int`>"),
                ColumnDefinition(Name("d"), "time"),
            ),
        ),
    ),
    (
        "CREATE STREAM s (a STRUCT<x INT, y ARRAY<ARRAY<INT>>>, b INT, c MAP<INT, MAP<INT, INT>>)",
        CreateSource(
            "stream",
            Name("s"),
            (
                ColumnDefinition(Name("a"), "struct<x:int,y:array<array<int>>>"),
                ColumnDefinition(Name("b"), "int"),
                ColumnDefinition(Name("c"), "map<int,map<int,int>>"),
            ),
        ),
    ),
    ("CREATE STREAM s AS SELECT a FROM t", CreateAs("stream", Name("s"), A_FROM_T)),
    (
        "CREATE OR REPLACE TABLE IF NOT EXISTS s WITH (PARTITIONS = 1) AS SELECT a FROM t EMIT CHANGES",
        CreateAs(
            "table",
            Name("s"),
            Query((item("a"),), source("t"), emit="changes"),
            (Property("PARTITIONS", 1),),
            or_replace=True,
            if_not_exists=True,
        ),
    ),
    ("INSERT INTO s SELECT a FROM t", InsertQuery(Name("s"), A_FROM_T)),
    ("INSERT INTO s WITH (QUERY_ID = 'q') SELECT a FROM t", InsertQuery(Name("s"), A_FROM_T, (Property("QUERY_ID", "q"),))),
    ("INSERT INTO s VALUES (1, 'a')", InsertValues(Name("s"), None, ((literal(1), literal("a")),))),
    (
        "INSERT INTO s (a, `select`) VALUES (1, 2), (3, 4)",
        InsertValues(Name("s"), (Name("a"), Name("select")), ((literal(1), literal(2)), (literal(3), literal(4)))),
    ),
    ("DELETE FROM t WHERE a = 1", DeleteRows(Name("t"), Written(Call("eq", (Reference("a"), Literal(1)))))),
    ("DROP STREAM s", DropSource("stream", Name("s"))),
    ("DROP TABLE IF EXISTS s CASCADE DELETE TOPIC", DropSource("table", Name("s"), True, True, True)),
    (
        "ALTER STREAM s ADD COLUMN a INT, ADD b STRING, COLUMN c DOUBLE, column INT",
        AlterSource(
            "stream",
            Name("s"),
            (
                ColumnDefinition(Name("a"), "int"),
                ColumnDefinition(Name("b"), "string"),
                ColumnDefinition(Name("c"), "double"),
                ColumnDefinition(Name("column"), "int"),
            ),
        ),
    ),
    ("ALTER SYSTEM 'a' = 'b'", Set("a", "b", is_system=True)),
    ("CREATE TYPE IF NOT EXISTS a AS STRUCT<x INT>", CreateType(Name("a"), "struct<x:int>", True)),
    ("DROP TYPE IF EXISTS a", DropType(Name("a"), True)),
    ("SELECT a FROM t", SelectStatement(A_FROM_T)),
    ("EXPLAIN SELECT a FROM t", Explain(SelectStatement(A_FROM_T))),
    ("EXPLAIN CTAS_1", Explain(Name("CTAS_1"))),
    ("EXPLAIN select", Explain(Name("select"))),
    ("DESCRIBE s EXTENDED", Describe("source", Name("s"), True)),
    ("DESCRIBE EXTENDED s", Describe("source", Name("s"), True)),
    ("DESCRIBE extended", Describe("source", Name("extended"))),
    ("DESCRIBE extended EXTENDED", Describe("source", Name("EXTENDED"), True)),
    ("DESCRIBE STREAMS EXTENDED", Describe("streams", None, True)),
    ("DESCRIBE FUNCTION f", Describe("function", Name("f"))),
    ("DESCRIBE function", Describe("source", Name("function"))),
    ("DESCRIBE CONNECTOR c", Describe("connector", Name("c"))),
    ("SHOW ALL TOPICS EXTENDED", Show("all topics", True)),
    ("LIST STREAMS", Show("streams")),
    ("SHOW CONNECTOR PLUGINS", Show("connector plugins")),
    ("SHOW SOURCE CONNECTORS", Show("source connectors")),
    ("PRINT 'a-b' FROM BEGINNING SAMPLE 2 LIMIT 3", Print(Name("a-b"), True, 2, 3)),
    ("PRINT topic", Print(Name("topic"))),
    ("TERMINATE ALL", ControlQuery("terminate", None)),
    ("PAUSE q", ControlQuery("pause", Name("q"))),
    ("RESUME q", ControlQuery("resume", Name("q"))),
    ("SET 'a' = 'b'", Set("a", "b")),
    ("UNSET 'a'", Set("a", None)),
    ("DEFINE a = 'b'", Define("a", "b")),
    ("UNDEFINE a", Define("a", None)),
    ("RUN SCRIPT 'a.sql'", RunScript("a.sql")),
    (
        "CREATE SOURCE CONNECTOR IF NOT EXISTS c WITH ('connector.class' = 'X', topics.regex = 'y', \"a\" = 1, `b` = true)",
        CreateConnector("source", Name("c"), (("connector.class", "X"), ("topics.regex", "y"), ("a", "1"), ("b", "true")), True),
    ),
    ("DROP CONNECTOR IF EXISTS c", DropConnector(Name("c"), True)),
    ("ASSERT NOT EXISTS TOPIC 'a.b' WITH (X = 1) TIMEOUT 2 SECONDS", AssertTopic(Name("a.b"), False, (Property("X", 1),), 2000)),
    ("ASSERT SCHEMA SUBJECT 'a' ID 3 TIMEOUT 1 SECOND", AssertSchema(Name("a"), 3, True, 1000)),
    ("ASSERT VALUES s (a) VALUES (1)", AssertValues(Name("s"), (Name("a"),), (literal(1),))),
    ("ASSERT NULL VALUES s (a) KEY (1)", AssertValues(Name("s"), (Name("a"),), (literal(1),), True)),
    (
        "ASSERT STREAM s (a INT) WITH (X = 1)",
        AssertSource("stream", Name("s"), (ColumnDefinition(Name("a"), "int"),), (Property("X", 1),)),
    ),
]


@pytest.mark.parametrize(("text", "statement"), STATEMENTS)
def test_statements_become_values(text, statement):
    """A statement is read with all that it says, and with nothing that it does not say."""
    assert only(text) == statement


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("SELECT 1", Query((SelectColumn(literal(1)),))),
        ("SELECT DISTINCT a FROM t", Query((item("a"),), source("t"), is_distinct=True)),
        (
            "SELECT *, t.*, (t.a).*, s.a.*, a AS b, c d, e `f g` FROM t",
            Query(
                (
                    Star(),
                    Star(Name("t")),
                    FieldsStar(column("t.a")),
                    FieldsStar(column("s.a")),
                    item("a", "b"),
                    item("c", "d"),
                    item("e", "f g"),
                ),
                source("t"),
            ),
        ),
        ("SELECT a FROM t AS s", Query((item("a"),), source("t", "s"))),
        ("SELECT a FROM (SELECT a FROM t) s", Query((item("a"),), Subquery(A_FROM_T, Name("s")))),
        (
            "SELECT a FROM t JOIN u ON a JOIN v w WITHIN 1 HOUR ON a FULL OUTER JOIN x WITHIN (1 HOUR, 2 HOURS) GRACE PERIOD 1 HOUR ON a",
            Query(
                (item("a"),),
                source("t"),
                (
                    JoinClause("inner", source("u"), column("a")),
                    JoinClause("inner", source("v", "w"), column("a"), Within(HOUR, HOUR)),
                    JoinClause("full", source("x"), column("a"), Within(HOUR, 2 * HOUR, HOUR)),
                ),
            ),
        ),
        (
            "SELECT a FROM t LEFT JOIN u ON a RIGHT JOIN (SELECT a FROM t) ON a",
            Query(
                (item("a"),),
                source("t"),
                (JoinClause("left", source("u"), column("a")), JoinClause("right", Subquery(A_FROM_T), column("a"))),
            ),
        ),
        (
            "SELECT a FROM t WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 2 HOURS, GRACE PERIOD 0 SECONDS) GROUP BY a",
            Query(
                (item("a"),),
                source("t"),
                window=WindowClause("tumbling", HOUR, retention_ms=2 * HOUR, grace_ms=0),
                group_by=(column("a"),),
            ),
        ),
        (
            "SELECT a FROM t WINDOW w HOPPING (SIZE 60 MINUTES, ADVANCE BY 1 SECOND) GROUP BY (a, b), c",
            Query(
                (item("a"),),
                source("t"),
                window=WindowClause("hopping", HOUR, advance_ms=1000, name=Name("w")),
                group_by=(column("a"), column("b"), column("c")),
            ),
        ),
        (
            "SELECT a FROM t WINDOW SESSION (1 HOUR) WHERE a PARTITION BY a HAVING a ORDER BY a, b DESC NULLS LAST EMIT FINAL LIMIT 5 AS OF '2026-01-01'",
            Query(
                (item("a"),),
                source("t"),
                window=WindowClause("session", HOUR),
                where=column("a"),
                partition_by=(column("a"),),
                having=column("a"),
                order_by=(Order(column("a")), Order(column("b"), True, False)),
                emit="final",
                limit=5,
                as_of=literal("2026-01-01"),
            ),
        ),
        ("SELECT a FROM t PARTITION BY NULL", Query((item("a"),), source("t"), partition_by=())),
        (
            "SELECT (a, b) FROM t GROUP BY (a + b) * c",
            Query(
                (SelectColumn(Written(Call("struct", (Reference("a"), Reference("b"))))),),
                source("t"),
                group_by=(Written(Call("multiply", (Call("add", (Reference("a"), Reference("b"))), Reference("c")))),),
            ),
        ),
        (
            "SELECT limit, order, window.group, left FROM t partition WHERE emit = offset",
            Query(
                (item("limit"), item("order"), item("window.group"), item("left")),
                source("t", "partition"),
                where=Written(Call("eq", (Reference("emit"), Reference("offset")))),
            ),
        ),
        ("SELECT a of FROM t AS of WHERE a", Query((item("a", "of"),), source("t", "of"), where=column("a"))),
        ("SELECT a.select, `select` AS `select` FROM t", Query((item("a.select"), item("select", "select")), source("t"))),
    ],
)
def test_queries_become_values(text, query):
    """A query is read with all its clauses; words of clauses are names where nothing behind them makes them a clause."""
    assert only(text) == SelectStatement(query)


def test_names_of_ksqldb_are_in_capitals():
    """In ksqlDB's dialect names without quotes are read in capitals, and those of topics are not."""
    text = "CREATE STREAM s (a INT KEY, `b` address, c STRUCT<d INT>) WITH (kafka_topic = 't'); SELECT s.a, c->d, \"x\" FROM s c; PRINT t"

    read: Any = read_script(text, "ksql")
    created, selected, printed = read

    assert [column.name.text for column in created.columns] == ["A", "b", "C"]
    assert [column.type for column in created.columns] == ["int", "ADDRESS", "struct<D:int>"]
    assert selected.query == Query(
        (item("S.A"), SelectColumn(Written(Call("get_field", (Reference("C"), Literal("D"))))), item("x")), source("S", "C")
    )
    assert printed.topic.text == "t"


def test_fields_of_a_struct_in_ksqldbs_dialect():
    """`->*` means all fields."""
    assert only("SELECT a->*, b->c->* FROM t", dialect="ksql").query.items == (
        FieldsStar(column("A")),
        FieldsStar(Written(Call("get_field", (Reference("B"), Literal("C"))))),
    )


def test_the_dialect_changes_within_a_script():
    """SET changes the dialect of what is behind it, and UNSET gives back the first."""
    script = (
        "SELECT a FROM t; SET 'streamkit.sql.dialect' = 'ksql'; SELECT a FROM t; UNSET 'streamkit.sql.dialect'; SELECT a FROM t"
    )

    statements: Any = read_script(script)
    names = [one.query.source.name.text for one in statements[::2]]

    assert names == ["t", "T", "t"]


def test_a_script_has_any_number_of_statements():
    """Comments, semicolons in texts and statements without words are no statements."""
    assert read_script("") == []
    assert read_script(" -- nothing; at all\n;; /* ; /* ; */ */ ;") == []
    assert len(read_script("SELECT ';' FROM `a;b` -- ;\n; SELECT 1")) == 2


def test_statements_and_their_parts_have_places():
    """The places of a statement, its clauses, its names and the nodes of its expressions are those in the script."""
    script = (
        "SELECT 1;\n  SELECT upper(a) AS b FROM t JOIN u WITHIN 1 HOUR ON t.x = u.y WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY a ; "
    )
    statement: Any = read_script(script)[1]
    query = statement.query
    call = query.items[0].written

    def at(span):
        return script[span.start : span.end]

    assert at(statement.span) == at(query.span) == script.strip("; ").partition(";\n  ")[2].rstrip(" ;")
    assert at(call.span) == "upper(a)"
    assert at(call.places[id(call.expression)]) == "upper(a)"
    assert at(call.places[id(call.expression.arguments[0])]) == "a"
    assert at(query.items[0].alias.span) == "b"
    assert at(query.source.name.span) == "t"
    assert at(query.joins[0].span) == "JOIN u WITHIN 1 HOUR ON t.x = u.y"
    assert at(query.joins[0].within.span) == "WITHIN 1 HOUR"
    assert at(query.window.span) == "WINDOW TUMBLING (SIZE 1 HOUR)"
    assert set(call.places) == {id(call.expression), id(call.expression.arguments[0])}


def test_reading_loads_no_evaluation():
    """A prompt that reads statements does not wait for what evaluates them."""
    code = (
        "import sys; from streamkit.sql.reader.script import read_script; read_script('SELECT upper(a) FROM t WHERE a = 1.5');"
        "found = {'pandas', 'streamkit.expressions.analysis.arrow', 'streamkit.engine', 'pyspark'} & set(sys.modules); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
