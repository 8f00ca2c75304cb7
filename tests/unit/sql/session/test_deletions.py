"""DELETE FROM: tombstones for the keys that a condition names, and nothing else."""

from __future__ import annotations

import pytest

from streamkit.errors import SqlError

USERS = "CREATE TABLE users (id STRING PRIMARY KEY, city STRING); INSERT INTO users VALUES ('a', 'Oslo'), ('b', 'Rome'), ('c', 'Oslo')"
PAIRS = "CREATE TABLE pairs (x INT PRIMARY KEY, y STRING PRIMARY KEY, n INT); INSERT INTO pairs VALUES (1, 'a', 1), (1, 'b', 2), (2, 'a', 3)"
TEXTS = (
    "CREATE TABLE texts (k STRING PRIMARY KEY, n INT) WITH (VALUE_FORMAT = 'JSON'); INSERT INTO texts VALUES ('a', 1), ('b', 2)"
)


@pytest.mark.parametrize(
    ("table", "where", "left"),
    [
        ("users", "id = 'a'", {"b", "c"}),
        ("users", "'a' = id", {"b", "c"}),
        ("users", "u.id = 'nobody'", {"a", "b", "c"}),
        ("users", "id IN ('a', 'c', 'nobody')", {"b"}),
        ("pairs", "y = 'a' AND x = 1", {(1, "b"), (2, "a")}),
        ("pairs", "y IN ('a') AND x = 1", {(1, "b"), (2, "a")}),
        ("pairs", "y IN ('b') AND x IN (1)", {(1, "a"), (2, "a")}),
        ("texts", "k = 'a'", {"b"}),
    ],
)
def test_rows_of_keys_are_deleted(sql, rows, table, where, left):
    """The rows of the keys are gone, all others stay; a key without a row is no error. Tables of columns and of bytes are the same."""
    sql.execute(f"{USERS}; {PAIRS}; {TEXTS}")
    sql.execute(f"DELETE FROM {table} WHERE {where.replace('u.', 'users.')}")

    key = {"users": "id", "pairs": "x, y", "texts": "k"}[table]
    assert {row if len(row) > 1 else row[0] for row in rows(f"SELECT {key} FROM {table}")} == left


def test_a_deletion_is_part_of_its_script(sql, log):
    """A script that fails deletes nothing; one that goes through deletes in its one commit."""
    sql.execute(USERS)
    with pytest.raises(SqlError):
        sql.execute("DELETE FROM users WHERE id = 'a'; SELECT nope FROM users")
    assert sql.query("SELECT count(*) AS n FROM users")["n"].to_pylist() == [3]
    before = log.catalog.standing().commits
    results = sql.execute("INSERT INTO users VALUES ('d', 'Bern'); DELETE FROM users WHERE id IN ('a', 'b')")

    assert [result.message for result in results] == ["1 row for users.", "2 keys of users have no row any more."]
    assert log.catalog.standing().commits == before + 2  # and the id of a producer
    assert sorted(sql.query("SELECT id FROM users")["id"].to_pylist()) == ["c", "d"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "DELETE FROM users WHERE city = 'Oslo'",
            "DELETE needs the key of users and nothing else; expected WHERE id = …, or id IN",
        ),
        ("DELETE FROM users WHERE id = 'a' AND city = 'Oslo'", "DELETE needs the key of users"),
        ("DELETE FROM users WHERE id = 'a' OR id = 'b'", "DELETE needs the key of users"),
        ("DELETE FROM users WHERE id > 'a'", "DELETE needs the key of users"),
        ("DELETE FROM users WHERE id = NULL", "DELETE needs the key of users"),
        ("DELETE FROM pairs WHERE x = 1", "expected WHERE x = … AND y = …"),
        ("DELETE FROM pairs WHERE x IN (1, 2) AND y = 'a'", "expected WHERE x = … AND y = …"),
        ("DELETE FROM users WHERE ids = 'a'", "there is no column 'ids'"),
        ("DELETE FROM user WHERE id = 'a'", "there is no table 'user'; did you mean 'users'?"),
        ("DELETE FROM clicks WHERE who = 'a'", "clicks is a stream, whose records stay"),
        ("DELETE FROM totals WHERE who = 'a'", "the query CTAS_TOTALS_1 fills the table totals"),
        ("DELETE FROM fixed WHERE id = 'a'", "fixed is a SOURCE TABLE, which is only read"),
    ],
)
def test_what_cannot_be_deleted(sql, statement, message):
    """Anything but a whole key is refused, and so are streams, results of queries, and what is only read."""
    sql.execute(f"{USERS}; {PAIRS}; CREATE STREAM clicks (who STRING KEY)")
    sql.execute("CREATE TABLE totals AS SELECT who, count(*) AS n FROM clicks GROUP BY who")
    sql.execute("CREATE SOURCE TABLE fixed (id STRING PRIMARY KEY, city STRING) WITH (KAFKA_TOPIC = 'users')")
    with pytest.raises(SqlError) as caught:
        sql.execute(statement)
    assert message in caught.value.message


KSQL_TABLES = (
    "SET 'streamkit.sql.dialect' = 'ksql'; CREATE TABLE pairs (x INT PRIMARY KEY, y STRING PRIMARY KEY, n INT) "
    "WITH (PARTITIONS = 1, KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON'); CREATE TABLE users (id STRING PRIMARY KEY, n INT) "
    "WITH (PARTITIONS = 1, VALUE_FORMAT = 'JSON'); INSERT INTO users VALUES ('a', 1); INSERT INTO users VALUES ('b', 2); "
    "INSERT INTO pairs VALUES (1, 'a', 1); INSERT INTO pairs VALUES (1, 'b', 2); INSERT INTO pairs VALUES (2, 'a', 3)"
)


@pytest.mark.parametrize(
    ("table", "where", "left"),
    [
        ("users", "id = 'a'", {"b"}),
        ("users", "id IN ('a')", {"b"}),
        ("users", "id IN ('a', 'b')", set()),
        ("pairs", "y = 'a' AND x = 1", {(1, "b"), (2, "a")}),
        ("pairs", "y IN ('a') AND x = 1", {(1, "b"), (2, "a")}),
        ("pairs", "y IN ('b') AND x IN (1)", {(1, "a"), (2, "a")}),
    ],
)
def test_the_dialects_agree(sql, rows, table, where, left):
    """The ksql dialect deletes what the other one does, though its IN is never null; queries look the keys up, too."""
    sql.execute(KSQL_TABLES)
    (explained,) = sql.execute(f"EXPLAIN SELECT * FROM {table} WHERE {where}")
    sql.execute(f"DELETE FROM {table} WHERE {where}")

    key = {"users": "id", "pairs": "x, y"}[table]
    assert "look-up of" in str(explained.table["plan"].to_pylist())
    assert {row if len(row) > 1 else row[0] for row in rows(f"SELECT {key} FROM {table}")} == left


@pytest.mark.parametrize("where", ["x IN (1, 2) AND y = 'a'", "x = 1", "x IN (1) AND y = 'a' AND n = 1", "x IN (1) OR y = 'a'"])
def test_the_dialects_refuse_the_same(sql, where):
    """Anything but one whole key."""
    sql.execute(KSQL_TABLES)
    with pytest.raises(SqlError, match="expected WHERE X = … AND Y = …"):
        sql.execute(f"DELETE FROM pairs WHERE {where}")
