"""Queries of the ksql dialect on Spark, beside the same in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamkit as sk
from streamkit.engine.runs.options import AVAILABLE_NOW
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


FILE = """
SET 'streamkit.sql.dialect' = 'ksql';
CREATE TABLE N WITH (VALUE_FORMAT = 'NATIVE') AS SELECT T, X + 1 AS Y FROM O;
CREATE STREAM S (K INT KEY, V INT, T STRING) WITH (KAFKA_TOPIC = 's', PARTITIONS = 2, VALUE_FORMAT = 'JSON', RETENTION_MS = -1);
CREATE TABLE O WITH (VALUE_FORMAT = 'PROTOBUF') AS SELECT T, COUNT(*) AS X FROM P GROUP BY T;
CREATE STREAM P WITH (TIMESTAMP = 'B', VALUE_FORMAT = 'AVRO', PARTITIONS = 3) AS SELECT K, T, CAST(V AS BIGINT) AS B FROM S;
"""


def test_a_file_whose_queries_read_topics_of_each_other(spark: Any, tmp_path: Path) -> None:
    """A first start on Spark creates the topics between, and the next ones go on until the records have passed all of them."""
    path = tmp_path / "between.sql"
    path.write_text(FILE)
    rows = [{"key": row % 3, "value": {"V": row, "T": "ab"[row % 2]}} for row in range(8)]
    with sk.open_log(tmp_path / "log") as log:
        for start in range(4):
            sk.run(sk.load_sql(str(path)), spark, log, trigger=AVAILABLE_NOW).wait()
            if start == 0:
                with log.producer() as producer:
                    producer.send_batch("s", rows, timestamp_ms=10)
        assert {name: log.topic(name).partitions for name in "PON"} == {"P": 3, "O": 3, "N": 3}
        newest = {row["T"]: row["Y"] for row in log.read("N").to_pylist()}
    assert newest == {"a": 5, "b": 5}

    with TopologyTestDriver(sk.load_sql(str(path))) as driver:
        driver.pipe("s", rows[:4], timestamp=10)
        driver.pipe("s", rows[4:], timestamp=20)
        driver.run_on_spark(spark)
        assert {row["T"]: row["Y"] for row in driver.read_all("N")} == newest
