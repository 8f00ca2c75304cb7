"""A declaration that is changed under running queries: they go on with the new one at once, as if they had been started again."""

from __future__ import annotations

import pytest

import streamkit as sk

JSON = "VALUE_FORMAT = 'JSON', PARTITIONS = 1"
MADE = f"CREATE STREAM s (id STRING KEY, v INT, t BIGINT) WITH (KAFKA_TOPIC = 's', {JSON})"
AGAIN = MADE.replace("CREATE", "CREATE OR REPLACE")
TEXTS = "CREATE STREAM r WITH (VALUE_FORMAT = 'JSON', KEY_FORMAT = 'KAFKA') AS SELECT id, v FROM s"
COUNTS = "CREATE TABLE g WITH (VALUE_FORMAT = 'JSON', KEY_FORMAT = 'KAFKA') AS SELECT v, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY v"
INSERTS = "INSERT INTO o SELECT id, v FROM s"
OTHER = f"CREATE STREAM o (id STRING KEY, v INT) WITH (KAFKA_TOPIC = 'o', {JSON})"
ONE = MADE.replace(", t BIGINT", "")
CHANGES = {
    "a column more": (MADE, "ALTER STREAM s ADD COLUMN z INT"),
    "the columns in another order": (MADE, AGAIN.replace("v INT, t BIGINT", "t BIGINT, v INT")),
    "times of a column": (MADE, AGAIN.replace(JSON, f"{JSON}, TIMESTAMP = 't'")),
    "times of no column": (MADE.replace(JSON, f"{JSON}, TIMESTAMP = 't'"), AGAIN),
    "another format of keys": (MADE, AGAIN.replace(JSON, f"{JSON}, KEY_FORMAT = 'JSON'")),
    "another format of values": (MADE, AGAIN.replace("'JSON'", "'DELIMITED'")),
    "values without an object": (ONE, AGAIN.replace(", t BIGINT", "").replace(JSON, f"{JSON}, WRAP_SINGLE_VALUE = false")),
}  # fmt: skip


def session(log):
    return sk.SqlSession(log, engine="local", settings={"streamkit.sql.dialect": "ksql"})


def results(change, is_restarted):
    """What queries of a source write before and after it is changed: in one run, or in two."""
    made, changed = CHANGES[change]
    columns, values = ("id, v", "5") if made == ONE else ("id, v, t", "5, 5000")
    rows = [f"INSERT INTO s (rowtime, {columns}) VALUES (1000, '{key}', {values})" for key in "abc"]
    log = sk.open_log(":memory:")
    with session(log) as sql:
        sql.execute(f"{made}; {OTHER}; {TEXTS}; {COUNTS}; {INSERTS}; {rows[0]}")
        assert sql.catch_up(60)
        sql.execute(changed)
        if not is_restarted:
            sql.execute(rows[1])
            assert sql.catch_up(60)
    if is_restarted:
        with session(log) as sql:
            sql.execute(rows[1])
            assert sql.catch_up(60)
    with session(log) as sql:
        sql.execute(rows[2])
        assert sql.catch_up(60)
        failures = {one["failure"] for one in sql.queries().to_pylist()}
        times = sql.execute("SELECT id, rowtime FROM r")[0].table.to_pylist()
    return {"times": times} | {name: log.read(name).to_pylist() for name in ("R", "G", "o")}, failures


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_source_is_read_as_it_is_declared_at_once(change):
    """Queries that run when their source is changed write what they write if they are started after the change."""
    running, failures = results(change, is_restarted=False)
    restarted, _ = results(change, is_restarted=True)

    assert {len(rows) for rows in running.values()} == {3}
    assert running == restarted
    assert failures == {""}


def version(log):
    """The version of the only query."""
    (query,) = log.catalog.sql.objects().queries
    return query.version


def test_the_same_declaration_ends_no_run():
    """A source that is declared as it is, by another text, leaves its readers alone; one that is declared otherwise does not."""
    log = sk.open_log(":memory:")
    with session(log) as sql:
        sql.execute(f"{MADE}; {TEXTS}")
        before = version(log)
        sql.execute(AGAIN.replace(" (id", "\n(id"))
        assert version(log) == before
        sql.execute("ALTER STREAM s ADD COLUMN z INT")
        assert version(log) > before


def test_what_is_built_beside_a_query_begins_again_too():
    """A source that only the changed query will read counts for what is built of it."""
    log = sk.open_log(":memory:")
    with session(log) as sql:
        sql.execute(f"{MADE}; {MADE.replace('STREAM s', 'STREAM b')}; {TEXTS}; PAUSE csas_r_1")
        sql.execute(
            TEXTS.replace("STREAM r WITH (", "STREAM r WITH (BACKFILL = true, ")
            .replace("FROM s", "FROM b")
            .replace("CREATE", "CREATE OR REPLACE")
        )
        before = version(log)
        sql.execute("ALTER STREAM b ADD COLUMN z INT")
        assert version(log) > before
        sql.execute("INSERT INTO b (id, v) VALUES ('a', 1); RESUME csas_r_1")
        assert sql.catch_up(60)
        assert sql.execute("SELECT id, v FROM r")[0].table.to_pylist() == [{"ID": "a", "V": 1}]
