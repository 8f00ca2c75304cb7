"""The constants of VALUES: many of one shape are computed together, and mean what each means alone."""

from __future__ import annotations

import decimal
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit.errors import SqlError, TopologyError
from streamkit.log.values.python_values import python_values
from streamkit.names import TIMESTAMP
from streamkit.sql.execution.constant_shapes import shape_of
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.inserted_values import InsertedValues
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.session_settings import SessionSettings
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.reader.script import read_script
from streamkit.sql.session import SqlSession
from streamkit.sql.tree.statements import InsertValues
from tests.kit.sampling import examples

DIALECTS = ("spark", "ksql")
TYPES = [
    "int", "bigint", "double", "string", "boolean", "decimal(10,3)", "binary", "date", "timestamp", "array<bigint>", "array<array<int>>",
    "map<string,double>", "struct<A:int,B:string>",
]  # fmt: skip
PLAIN = st.one_of(
    st.integers(-3, 3).map(str),
    st.sampled_from(
        ["2147483647", "-2147483649", "9223372036854775807", "1.50", "-0.001", "12345.6789", "1E3", "-0E0", "2.5E-3"]
    ),
    st.sampled_from(
        ["''", "'x'", "'12'", "'1.5'", "'true'", "'AQI='", "'it''s'", "'2020-01-02'", "'2020-01-02T03:04:05'", "'P'"]
    ),
    st.sampled_from(
        ["TRUE", "FALSE", "NULL", "CAST('3' AS INT)", "CAST(7 AS STRING)", "CAST(NULL AS STRING)", "1 + 2", "'a' + 'b'"]
    ),
)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arrays = st.lists(inner, min_size=1, max_size=2).map(", ".join)
    return st.one_of(
        arrays.map(lambda members: f"ARRAY[{members}]"),
        st.tuples(inner, inner).map(lambda two: f"STRUCT(A := {two[0]}, B := {two[1]})"),
        inner.map(lambda value: f"MAP('k' := {value})"),
        st.tuples(inner, inner).map(lambda two: f"MAP('k' := {two[0]}, 'l' := {two[1]})"),
    )


def _values(dialect: str, texts: list[str], opened: sk.Log) -> tuple[InsertedValues, list[tuple[Any, ...]]]:
    """What computes values of a dialect, and one row for each text."""
    text = "INSERT INTO s VALUES " + ", ".join(f"({one})" for one in texts)
    (statement,) = read_script(text, dialect)
    assert isinstance(statement, InsertValues)
    settings = SessionSettings.of({"streamkit.sql.dialect": dialect, "streamkit.time.zone": "Europe/Berlin"})
    definitions = Definitions.of(opened, opened.catalog.sql.objects(), {})
    return InsertedValues(ScriptState(opened, ScriptText(text), definitions, settings)), list(statement.rows)


def _outcome(compute: Any) -> Any:
    try:
        return compute()
    except TopologyError as error:
        return error.message, str(error.at)


@examples(60)
@given(
    dialect=st.sampled_from(DIALECTS),
    type=st.sampled_from([*TYPES, TIMESTAMP]),
    texts=st.lists(st.recursive(PLAIN, _nested, max_leaves=3), min_size=1, max_size=6),
)
def test_values_together_are_the_values_one_by_one(dialect: str, type: str, texts: list[str]) -> None:
    """A column of any constants has the values, or the error at the place, that each constant has alone."""
    name = TIMESTAMP if type == TIMESTAMP else "v"
    texts = texts if dialect == "ksql" else [one for one in texts if ":=" not in one and "[" not in one] or ["1"]
    with sk.open_log(":memory:") as opened:
        values, rows = _values(dialect, texts, opened)
        types = {name: "timestamp" if type == TIMESTAMP else type}

        together = _outcome(lambda: values.columns(types, rows)[name])
        alone = _outcome(lambda: values.columns_one_by_one(types, rows)[name])

    assert type_and_values(together) == type_and_values(alone)


def type_and_values(outcome: Any) -> Any:
    """An outcome in which -0.0 is not 0.0, also with times that no datetime can hold."""
    return outcome if isinstance(outcome, tuple) else (outcome.type, repr(python_values(outcome)))


@pytest.mark.parametrize(
    ("texts", "is_one"),
    [
        (["1", "-5", "2147483647"], True),
        (["1", "2147483648"], False),
        (["'a'", "'b'"], True),
        (["1.5", "1.50"], False),
        (["ARRAY[1, 2]", "ARRAY[3, 4]"], True),
        (["STRUCT(A := 1)", "STRUCT(A := 2)"], True),
        (["STRUCT(A := 1)", "STRUCT(B := 2)"], False),
        (["NULL", "NULL"], True),
    ],
)
def test_constants_of_one_shape(texts: list[str], is_one: bool) -> None:
    """A shape is the types of the numbers and texts, and what is around them."""
    (statement,) = read_script("INSERT INTO s VALUES " + ", ".join(f"({one})" for one in texts), "ksql")
    assert isinstance(statement, InsertValues)

    shapes = {shape_of(row[0].expression) for row in statement.rows}

    assert None not in shapes
    assert (len(shapes) == 1) is is_one


@pytest.mark.parametrize("text", ["ARRAY[1, 2.5]", "ARRAY[1, NULL]", "1 + 2", "MAP('a' := 1, 'b' := 2.5)"])
def test_constants_without_a_shape(text: str) -> None:
    """What makes members one type, or computes, is computed alone."""
    (statement,) = read_script(f"INSERT INTO s VALUES ({text})", "ksql")
    assert isinstance(statement, InsertValues)

    assert shape_of(statement.rows[0][0].expression) is None


def test_statements_side_by_side_give_their_rows_in_order(sql: SqlSession, log: sk.Log) -> None:
    """Each has its own message, and the rows of a topic are in the order of the statements, whatever columns they list."""
    sql.execute(
        "CREATE STREAM s (k STRING KEY, a INT) WITH (PARTITIONS = 1); CREATE STREAM t (k STRING KEY) WITH (PARTITIONS = 1)"
    )

    results = sql.execute(
        "INSERT INTO s VALUES ('a', 1); INSERT INTO t VALUES ('x'); INSERT INTO s (k) VALUES ('b'), ('c');"
        "INSERT INTO s VALUES ('d', 4); INSERT INTO t VALUES ('y')"
    )

    assert [one.message for one in results] == ["1 row for s.", "1 row for t.", "2 rows for s.", "1 row for s.", "1 row for t."]
    stored = {name: log.read(name, ["k"])["k"].to_pylist() for name in "st"}
    assert stored == {"s": ["a", "b", "c", "d"], "t": ["x", "y"]}


def test_all_wrong_rows_of_statements_side_by_side_are_told(sql: SqlSession, log: sk.Log) -> None:
    """One fault for each statement that is wrong, at its value, and no row of any of them is written."""
    sql.execute("CREATE STREAM s (k STRING KEY, a INT); CREATE TABLE t (k STRING PRIMARY KEY)")

    with pytest.raises(SqlError) as caught:
        sql.execute(
            "INSERT INTO s VALUES ('a', 1);\nINSERT INTO s VALUES ('b', 'x');\nINSERT INTO t VALUES ('k');\nINSERT INTO t VALUES (NULL)"
        )

    assert [(fault.at.line, fault.at.column) for fault in caught.value.faults] == [(2, 28), (4, 1)]
    assert log.read("s").num_rows == log.read("t").num_rows == 0


def test_a_row_of_several_needs_its_key(sql: SqlSession) -> None:
    """A row of a table without its key is refused, also beside rows that have theirs."""
    sql.execute("CREATE TABLE t (k STRING PRIMARY KEY, a INT)")

    with pytest.raises(SqlError, match="a row of the table t needs its key k"):
        sql.execute("INSERT INTO t VALUES ('a', 1), (NULL, 2)")


@pytest.mark.parametrize(
    ("type", "value", "message"),
    [
        ("INT", "1.5", "v is int, which does not keep all digits of the value; expected a value that it keeps, or a CAST"),
        ("BIGINT", "1.5e0", "v is bigint, which does not keep all digits"),
        ("DECIMAL(6,2)", "1.239", r"v is decimal\(6,2\), which does not keep all digits"),
        ("ARRAY<INT>", "ARRAY(1, 2.5)", "v is array<int>, which does not keep all digits"),
        ("MAP<STRING, INT>", "MAP('a', 2.5)", "v is map<string,int>, which does not keep all digits"),
        ("STRUCT<x INT>", "NAMED_STRUCT('x', 2.5)", "v is struct<x:int>, which does not keep all digits"),
        ("ARRAY<STRING>", "'[\"x\"]'", r"v is array<string>, and the value string; expected ARRAY\('x', 'y'\)"),
        ("MAP<STRING, INT>", "5", r"v is map<string,int>, and the value int; expected MAP\('x', 1, 'y', 2\)"),
        ("STRUCT<x INT>", "'x'", r"v is struct<x:int>, and the value string; expected NAMED_STRUCT\('x', 1, 'y', 2\)"),
        ("TIMESTAMP", "now()", "v: a value is a constant, and now is another one each time; write the time out, as in TIMESTAMP"),
        (
            "DATE",
            "current_date",
            "current_date is another one each time; write the time out.*_timestamp has the event time of now",
        ),
        ("STRING", "upper(uuid())", "v: a value is a constant, and uuid is another one each time$"),
    ],
)
def test_values_that_a_column_would_not_keep(sql: SqlSession, log: sk.Log, type: str, value: str, message: str) -> None:
    """What would be stored as another value is refused at its place, alone and beside others of its shape."""
    sql.execute(f"CREATE STREAM s (v {type})")

    for rows in (f"({value})", f"({value}), ({value})"):
        with pytest.raises(SqlError) as caught:
            sql.execute(f"INSERT INTO s VALUES {rows}")
        (fault,) = caught.value.faults
        assert re.search(message, fault.message), fault.message
        assert (fault.at.column or 0) >= len("INSERT INTO s VALUES (")
    assert log.read("s").num_rows == 0


@pytest.mark.parametrize(
    ("type", "value", "stored"),
    [
        ("INT", "1.0", 1),
        ("INT", "CAST(1.5 AS INT)", 1),
        ("DECIMAL(6,2)", "1.230", decimal.Decimal("1.23")),
        ("DECIMAL(6,2)", "1.23e0", decimal.Decimal("1.23")),
        ("DOUBLE", "1.1", 1.1),
        ("FLOAT", "0.5", 0.5),
        ("ARRAY<INT>", "ARRAY(1.0, 2.0)", [1, 2]),
        ("ARRAY<STRING>", "NULL", None),
    ],
)
def test_values_that_a_column_keeps(sql: SqlSession, log: sk.Log, type: str, value: str, stored: object) -> None:
    """A number whose digits its column has is stored, however it is written."""
    sql.execute(f"CREATE STREAM s (v {type}); INSERT INTO s VALUES ({value}), ({value})")

    assert log.read("s")["v"].to_pylist() == [stored, stored]
