"""Queries of the ksql dialect on Spark, beside the same in this process."""

from __future__ import annotations

from typing import Any

import streamkit as sk
from streamkit.testing import TopologyTestDriver

STATEMENTS = """
CREATE STREAM S (K INT KEY, V INT, T STRING) WITH (KAFKA_TOPIC = 's', PARTITIONS = 2, VALUE_FORMAT = 'JSON');
CREATE TABLE O WITH (VALUE_FORMAT = 'DELIMITED') AS SELECT T, COUNT(*), SUM(V) + 1 AS X FROM S WHERE NOT (V = 0) GROUP BY T;
CREATE STREAM P WITH (TIMESTAMP = 'B') AS SELECT K, V * 10 AS V, CAST(V AS BIGINT) AS B FROM S WHERE V IS NOT NULL;
"""


def test_queries_of_the_ksql_dialect(spark: Any) -> None:
    """Formats, aggregates and functions of ksqlDB give on Spark what they give here."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(STATEMENTS)
        for query, written in (("CTAS_O_1", "O"), ("CSAS_P_2", "P")):
            with TopologyTestDriver(sql.topology(query), log=log) as driver:
                rows: list[dict[str, Any]] = [{"key": row % 3, "value": {"v": row, "t": "ab"[row % 2]}} for row in range(8)]
                driver.pipe("s", [*rows, {"key": 9, "value": None}], timestamp=10)
                driver.run_on_spark(spark)
                assert driver.read_all(written)
