"""Streams, columns and results whose names are words of SQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamkit.errors import SqlError
from streamkit.sql.execution.definitions import Definitions


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_a_column_in_backticks_is_the_column(sql, log, dialect):
    """It is inserted, read, filtered and grouped by its name in backticks; without them CREATE refuses it, and nothing is made."""
    sql.execute(f"SET 'streamkit.sql.dialect' = '{dialect}'")
    with pytest.raises(SqlError, match="in backticks if it is a name"):
        sql.execute("CREATE STREAM other (k INT KEY); CREATE STREAM s (k INT KEY, null INT)")
    assert log.topics() == []
    sql.execute(
        "CREATE STREAM `true` (k INT KEY, `null` INT, `case` INT); INSERT INTO `true` (k, `null`, `case`) VALUES (1, 2, 3)"
    )
    found = sql.query("SELECT `null` + 1 AS a, `true`.`case` AS b FROM `true` WHERE `null` = 2").to_pylist()
    assert [tuple(row.values()) for row in found] == [(3, 3)]


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_a_query_that_was_stored_with_such_a_name_goes_on(sql, log, process, dialect):
    """The text of a query that an earlier version has stored gives a result the name of a reserved word: it is read as it was then."""
    sql.execute(
        f"SET 'streamkit.sql.dialect' = '{dialect}'; CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC = 's', PARTITIONS = 1)"
    )
    name = "null" if dialect == "spark" else "NULL"
    (made,) = sql.execute(f"CREATE STREAM r WITH (KAFKA_TOPIC = 'r') AS SELECT k, v AS `{name}` FROM s")
    definitions = Definitions.of(log, log.catalog.sql.objects())
    query = definitions.queries[made.query_id]
    log.catalog.sql.commit(definitions.with_changed_query(replace(query, text=query.text.replace(f"`{name}`", "null"))).change())
    assert "AS null FROM s" in sql.queries()["statement"].to_pylist()[0]

    sql.execute("INSERT INTO s VALUES (1, 2)")
    process()
    assert [row[name] for row in log.read("r").to_pylist()] == [2]
    assert [tuple(row.values()) for row in sql.query(f"SELECT `{name}` FROM r").to_pylist()] == [(2,)]
