"""Over topics with columns, a column with a name that a query has for another is refused in the words of SQL."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import SqlError

JOIN = "STREAM R AS SELECT S.ID AS ID, A, V FROM S JOIN T ON S.ID = T.ID"
STREAMS = "STREAM R AS SELECT S.ID AS ID, A, V FROM S JOIN U WITHIN 1 DAYS ON S.ID = U.ID"
GROUP = "TABLE R AS SELECT A AS Z, COUNT(*) AS C FROM S GROUP BY A"


@pytest.fixture(params=["ksql", "spark"])
def sql(request):
    """A session over two topics with columns."""
    with sk.open_log(":memory:") as log:
        log.create_topic("s", "ID string, A int", key="ID", partitions=1)
        log.create_topic("t", "ID string, V int, X int", key="ID", partitions=1)
        log.create_topic("u", "ID string, V int, X int", key="ID", partitions=1)
        with sk.SqlSession(log, engine="local", settings={"streamkit.sql.dialect": request.param}) as session:
            session.execute("CREATE STREAM S WITH (KAFKA_TOPIC = 's'); CREATE TABLE T WITH (KAFKA_TOPIC = 't')")
            session.execute("CREATE STREAM U WITH (KAFKA_TOPIC = 'u')")
            yield session


def begin(sql, query):
    """Run a query until it keeps rows."""
    sql.execute(f"CREATE {query}; INSERT INTO T (ID, V) VALUES ('a', 1); INSERT INTO S (ID, A) VALUES ('a', 1)")
    assert sql.catch_up(60)


@pytest.mark.parametrize(("query", "column", "other"), [(JOIN, "X", "T"), (STREAMS, "X", "U"), (GROUP, "Z", "R")])
def test_a_column_that_would_rename_what_a_query_keeps(sql, query, column, other):
    """The message says which source or result has the name, and what to do, which helps."""
    begin(sql, query)
    expected = (
        rf"{other} has a column {column}, too, and what C[ST]AS_R_1 keeps would get other names; expected another name for it\. "
    )
    with pytest.raises(SqlError, match=expected):
        sql.execute(f"ALTER STREAM S ADD COLUMN {column} INT")
    sql.execute("ALTER STREAM S ADD COLUMN OTHER INT; INSERT INTO S (ID, A) VALUES ('a', 1)")
    assert sql.catch_up(60)
    assert {one["failure"] for one in sql.queries().to_pylist()} == {""}


def test_a_refusal_of_another_kind_names_no_other_column(sql):
    """Another name would not help a query whose own words mean two columns then."""
    begin(sql, JOIN)
    with pytest.raises(SqlError) as caught:
        sql.execute("ALTER STREAM S ADD COLUMN V INT")
    assert "would not fit it any more" in str(caught.value)
    assert "would get other names" not in str(caught.value)
