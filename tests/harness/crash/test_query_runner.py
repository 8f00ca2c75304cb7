"""
A runner of queries that dies anywhere leaves queries from which the next one comes to the same results.

The runner is `streamkit sql serve` in a process of its own, which ends at a point of its way: in a start, behind one, in an epoch, in a
stop. Statements come while it lives and while it is dead. In the end each topic and table is what the records say.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

import streamkit as sk
from streamkit.failpoints import VARIABLE
from streamkit.sql.session import SqlSession
from tests.kit.program import Program
from tests.kit.waiting import wait_until

CODE = "import os; from streamkit.failpoints import arm_from; arm_from(os.environ); from streamkit.cli.main import main; main()"
SCRIPT = """
CREATE STREAM clicks (who STRING KEY, n INT) WITH (PARTITIONS = 2);
CREATE TABLE totals AS SELECT who, count(*) AS c, sum(n) AS s FROM clicks GROUP BY who;
CREATE STREAM large AS SELECT who, n FROM clicks WHERE n > 5;
CREATE TABLE larges AS SELECT who, count(*) AS c FROM large GROUP BY who;
"""
POINTS = (
    "start.before_commit", "start.after_commit", "sql.starting", "sql.started", "epoch.planned", "kernel.slab_durable",
    "commit.before_commit", "commit.after_commit", "sql.stopped",
)  # fmt: skip


@contextmanager
def server(place: Path, point: str | None = None):
    """A server of the queries of a log; with a point it dies there."""
    environment = {} if point is None else {VARIABLE: f"{point}=tests.kit.faults:end_process"}
    process = Program(None, "sql", "serve", str(place), code=CODE, environment=environment, has_errors=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def insert(sql: SqlSession, random: Random, records: dict[str, list[int]]) -> None:
    rows = [(random.choice("abc"), random.randrange(10)) for _ in range(random.randint(1, 5))]
    sql.execute(f"INSERT INTO clicks VALUES {', '.join(f'({who!r}, {n})' for who, n in rows)}")
    for who, n in rows:
        records.setdefault(who, []).append(n)


def found(sql: SqlSession, text: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in sql.query(text).to_pylist())


def check(sql: SqlSession, records: dict[str, list[int]]) -> None:
    """Each result is what the records say, no more and no less."""
    large = {who: [n for n in numbers if n > 5] for who, numbers in records.items()}
    assert found(sql, "SELECT who, c, s FROM totals") == sorted((who, len(ns), sum(ns)) for who, ns in records.items())
    assert found(sql, "SELECT who, n FROM large") == sorted((who, n) for who, ns in large.items() for n in ns)
    assert found(sql, "SELECT who, c FROM larges") == sorted((who, len(ns)) for who, ns in large.items() if ns)
    assert sql.log.fsck(deep=True).is_clean


@pytest.mark.parametrize("point", POINTS)
def test_the_next_runner_goes_on(tmp_path, point):
    """A runner dies at a point, while its queries are started, changed, paused and resumed; the next one brings all to its end."""
    random, records = Random(point), dict[str, list[int]]()
    with sk.open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        sql.execute(SCRIPT)
        insert(sql, random, records)
        with server(tmp_path / "log", point) as first:
            orders = ["PAUSE CTAS_TOTALS_1", "RESUME CTAS_TOTALS_1", "PAUSE ALL", "RESUME ALL"]
            for number in range(60):  # until it is dead: each statement leads to a stop or a start
                insert(sql, random, records)
                sql.execute(orders[number % 4])
                if first.poll() is not None:
                    break
                wait_until(lambda: first.poll() is not None or sql.catch_up(0.5))
            assert first.poll() is not None, f"the runner has never come to {point}"
        sql.execute("RESUME ALL")
        insert(sql, random, records)
        with server(tmp_path / "log"):
            assert sql.catch_up(120)
        check(sql, records)


@pytest.mark.parametrize("seed", range(3))
def test_runners_that_are_killed_at_any_time(tmp_path, seed):
    """Runners, two at a time, are killed in the midst of whatever they do, over and over, while statements and records come."""
    random, records = Random(seed), dict[str, list[int]]()
    with sk.open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        sql.execute(SCRIPT)
        for _ in range(4):
            with server(tmp_path / "log") as first, server(tmp_path / "log"):
                for _ in range(random.randint(3, 12)):
                    insert(sql, random, records)
                    sql.execute(f"{random.choice(['PAUSE', 'RESUME'])} {random.choice(['CTAS_TOTALS_1', 'CSAS_LARGE_2', 'ALL'])}")
                    sql.catch_up(random.random())
                first.kill()
                sql.catch_up(random.random() * 3)
        sql.execute("RESUME ALL")
        insert(sql, random, records)
        with server(tmp_path / "log"):
            assert sql.catch_up(120)
        check(sql, records)
