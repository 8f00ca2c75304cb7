"""Persistent queries on Spark: the same runner, and the same results as in one process."""

from __future__ import annotations

import pytest

from streamkit.errors import ConfigError
from streamkit.log.opening import open_log
from streamkit.sql.running.runner import QueryRunner
from streamkit.sql.session import SqlSession
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM clicks (who STRING KEY, n INT) WITH (PARTITIONS = 2);
CREATE TABLE totals AS SELECT who, count(*) AS c, sum(n) AS s FROM clicks GROUP BY who;
SET 'streamkit.engine' = 'local';
CREATE STREAM large AS SELECT who, n FROM clicks WHERE n > 1;
UNSET 'streamkit.engine';
INSERT INTO clicks VALUES ('ann', 1), ('bob', 2), ('ann', 3);
"""
WAIT_SECONDS = 200


def test_queries_run_on_spark(tmp_path, spark):
    """A runner on Spark runs, pauses, changes and fails queries; one whose setting says so runs in the process beside."""
    told: list[object] = []
    with open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        sql.execute(SCRIPT)
        with QueryRunner(log, "spark", spark, told.append):
            assert sql.catch_up(WAIT_SECONDS)
            assert [query.name.startswith("sql-CTAS_TOTALS_1") for query in spark.streams.active] == [True]
            assert sorted(map(tuple, (row.values() for row in sql.query("SELECT who, c, s FROM totals").to_pylist()))) == [
                ("ann", 2, 4), ("bob", 1, 2),
            ]  # fmt: skip
            sql.execute("PAUSE CTAS_TOTALS_1; INSERT INTO clicks VALUES ('ann', 5)")
            wait_until(lambda: not spark.streams.active)
            assert sql.query("SELECT c FROM totals WHERE who = 'ann'")["c"].to_pylist() == [2]
            sql.execute("RESUME ALL; CREATE STREAM bad AS SELECT who, 10 / (n - 1) AS x FROM clicks")
            assert sql.catch_up(WAIT_SECONDS)
            wait_until(lambda: sql.queries()["state"].to_pylist() == ["RUNNING", "RUNNING", "ERROR"])
        assert not spark.streams.active

        assert sql.query("SELECT c, s FROM totals WHERE who = 'ann'").to_pylist() == [{"c": 3, "s": 9}]
        assert sorted(sql.query("SELECT n FROM large")["n"].to_pylist()) == [2, 3, 5]
        assert any("CSAS_BAD_3, version 1: ERROR" in str(one) and "CSAS_BAD_3:1:" in str(one) for one in told)
        assert log.fsck(deep=True).is_clean


def test_an_engine_that_there_is_not(tmp_path):
    """The setting names an engine, or is an error where it is set."""
    with (
        open_log(tmp_path / "log") as log,
        SqlSession(log) as sql,
        pytest.raises(ConfigError, match="expected 'local' or 'spark'"),
    ):
        QueryRunner(log, "flink")
    with open_log(tmp_path / "log") as log, SqlSession(log) as sql, pytest.raises(Exception, match="engine is 'flink'"):
        sql.execute("SET 'streamkit.engine' = 'flink'")
