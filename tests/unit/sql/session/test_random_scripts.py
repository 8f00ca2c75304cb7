"""Scripts of statements in any order: a session does all of one, or nothing, and says in words why not."""

from __future__ import annotations

import contextlib
import json
import random
import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamkit as sk
from streamkit.errors import SqlError
from streamkit.plan.location import TextLocation
from streamkit.sql.session import SqlSession

STATEMENTS = (
    "CREATE STREAM a (k STRING KEY, n INT)",
    "CREATE STREAM IF NOT EXISTS a (k STRING KEY, n INT)",
    "CREATE OR REPLACE STREAM a (k STRING KEY)",
    "CREATE STREAM b (k STRING KEY, a ARRAY<INT>) WITH (VALUE_FORMAT = 'JSON')",
    "CREATE TABLE t (k STRING PRIMARY KEY, city STRING)",
    "CREATE STREAM d AS SELECT k, n + 1 AS n FROM a WHERE n > 0",
    "CREATE TABLE c AS SELECT k, count(*) AS n FROM a GROUP BY k",
    "CREATE OR REPLACE TABLE c AS SELECT k, count(*) AS n, max(n) AS m FROM a GROUP BY k",
    "CREATE STREAM j AS SELECT a.n, t.city FROM a JOIN t ON a.k = t.k",
    "INSERT INTO d SELECT k, n FROM a",
    "CREATE STREAM every AS SELECT * FROM a",
    "CREATE STREAM A (k STRING KEY, other DOUBLE)",
    "CREATE OR REPLACE STREAM a (k STRING KEY, n INT) WITH (KAFKA_TOPIC = 'z')",
    "CREATE TABLE y AS SELECT k, max(n) AS n FROM z GROUP BY k",
    "CREATE STREAM z (k STRING KEY)",
    "CREATE STREAM Z (k STRING KEY)",
    "CREATE TABLE z (k STRING PRIMARY KEY, n INT)",
    "INSERT INTO z VALUES ('x', 1)",
    "INSERT INTO a VALUES ('x', 1), ('y', 2)",
    "INSERT INTO a (k) VALUES ('x')",
    "INSERT INTO t VALUES ('x', 'Oslo')",
    "DELETE FROM t WHERE k = 'x'",
    "ALTER STREAM a ADD COLUMN m INT",
    "CREATE STREAM f (k STRING KEY, n INT) WITH (VALUE_FORMAT = 'JSON')",
    "CREATE OR REPLACE STREAM f (k STRING KEY, n BIGINT, m INT) WITH (VALUE_FORMAT = 'JSON')",
    "ALTER STREAM f ADD COLUMN m INT",
    "CREATE STREAM g WITH (VALUE_FORMAT = 'JSON') AS SELECT * FROM f",
    "CREATE OR REPLACE STREAM g WITH (VALUE_FORMAT = 'JSON') AS SELECT k, n, 1 AS one FROM f",
    "DROP STREAM g DELETE TOPIC",
    "CREATE OR REPLACE STREAM f (k STRING KEY, n INT) WITH (VALUE_FORMAT = 'JSON')",
    "DROP STREAM a",
    "DROP STREAM IF EXISTS a CASCADE",
    "DROP TABLE c DELETE TOPIC",
    "DROP STREAM d CASCADE DELETE TOPIC",
    "CREATE TYPE money AS DECIMAL(9, 2)",
    "DROP TYPE money",
    "PAUSE ALL",
    "TERMINATE ALL",
    "SET 'streamkit.time.zone' = 'Europe/Oslo'",
    "SET 'no.such' = 'x'",
    "DEFINE x = 'a'",
    "SELECT * FROM ${x}",
    "SELECT k, sum(n) AS s FROM a GROUP BY k",
    "SELECT * FROM t WHERE k = 'x'",
    "SHOW STREAMS",
    "DESCRIBE c",
    "EXPLAIN SELECT * FROM a EMIT CHANGES",
    "SELECT FROM WHERE",
    "",
)
WORDS = re.compile(r"[a-zA-Z]")


def standing(log):
    """All that a script could change."""
    topics = {name: log.describe(name) for name in log.topics()}
    return log.catalog.sql.objects(), topics, {name: log.read(name).to_pylist() for name in topics}


@pytest.mark.parametrize("seed", range(12))
def test_a_script_is_done_whole_or_not_at_all(seed):
    """After a script that fails, catalog, topics, rows and settings are as before; each fault has words, and a place within the text."""
    chance = random.Random(seed)
    with sk.open_log(":memory:") as log, SqlSession(log) as sql:
        log.create_topic("z", "k string, n int", key="k", partitions=1)
        for _ in range(30):
            chosen = [chance.choice(STATEMENTS) for _ in range(chance.randint(1, 3))]
            text = ";\n".join(chosen) + ";" * chance.randint(0, 1)
            before, settings = standing(log), sql.settings
            try:
                results = sql.execute(text)
            except SqlError as error:
                assert standing(log) == before, text
                assert sql.settings is settings, text
                for fault in error.faults:
                    assert WORDS.search(fault.message) and isinstance(fault.at, TextLocation), text
                    assert 1 <= fault.at.line <= text.count("\n") + 1 and fault.at.start <= len(text), text
                    assert "Traceback" not in fault.message and "object at 0x" not in fault.message, text
            else:
                assert len(results) == len([one for one in chosen if one]), text
                assert all(result.message or result.table is not None or result.subscription is not None for result in results), (
                    text
                )


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_declared_each_query_can_be_started(seed):
    """No statement that is accepted leaves a query without a start, whether it has run before or not."""
    changes = [one for one in STATEMENTS if one.startswith(("CREATE", "ALTER", "INSERT", "DROP", "TERMINATE"))]
    settings = {}
    if seed % 4 == 0:  # few that are about the same streams meet more often
        changes = [one for one in changes if re.search(r" [fg] ", one)]
        settings = {"streamkit.sql.dialect": "ksql"}
    chance = random.Random(seed)
    with sk.open_log(":memory:") as log, SqlSession(log, settings=settings) as sql:
        log.create_topic("z", "k string, n int", key="k", partitions=1)
        for number in range(40):
            with contextlib.suppress(SqlError):
                sql.execute(chance.choice(changes))
            for query in sql.queries()["query"].to_pylist():
                topology = sql.topology(query)
                if number % 5 == 4:
                    sk.run(topology, log=log, engine="local", tasks=1, trigger="available_now").wait()
            if settings:
                check_declared(log, sql)


def check_declared(log, sql):
    """A new record of a stream in a format gets what is declared of the stream, and nothing else."""
    if not {"F", "G"} <= set(sql.sources()["name"].to_pylist()):
        return
    columns = set(sql.execute("DESCRIBE f")[0].table["column"].to_pylist())
    sql.insert("F", pa.table({one: pa.array([None if one != "K" else "x"]) for one in columns}))
    for query in sql.queries().filter(pc.equal(sql.queries()["fills"], "G"))["query"].to_pylist():
        sk.run(sql.topology(query), log=log, engine="local", tasks=1, trigger="available_now").wait()
    described = set(sql.execute("DESCRIBE g")[0].table["column"].to_pylist())
    written = [json.loads(value) for value in log.read("G")["value"].to_pylist() if value]
    assert not written or set(written[-1]) <= described, (written[-1], described)
