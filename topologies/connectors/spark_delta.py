"""
A topic in a Delta table by Spark alone, exactly once: no connector, no foreachBatch.

Delta notes in each of its commits which query made it and of which batch (application id and version), and leaves out a batch
that it has. The topic gives a batch that Spark repeats the same rows. So the table has each row once, whatever dies when.

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 \
        --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \
        --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog \
        topologies/connectors/spark_delta.py orders /tables/orders --log .streamkit
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession


def read_topic(session: SparkSession, log: str, topic: str) -> DataFrame:
    """All rows of a topic, and where each stands."""
    return session.read.format("streamkit").option("log", log).option("topic", topic).load()


def stream_into(session: SparkSession, log: str, topic: str, table: str, records_max: int) -> None:
    """Bring what the topic has and the table has not into the table; begun again after any death, it goes on."""
    rows = session.readStream.format("streamkit").option("log", log).option("topic", topic)
    rows = rows.option("maxRecordsPerTrigger", records_max)
    query = rows.load().writeStream.format("delta").option("checkpointLocation", f"{table}/_checkpoint")
    query.trigger(availableNow=True).start(table).awaitTermination()


def append_once(rows: DataFrame, table: str, application: str, version: int) -> None:
    """Append a batch under a name and a number that grows: the same one again appends nothing."""
    write = rows.write.format("delta").option("txnAppId", application).option("txnVersion", version)
    write.mode("append").save(table)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("topic")
    parser.add_argument("table")
    parser.add_argument("--log", default=".streamkit")
    parser.add_argument("--records-max", type=int, default=1_000_000)
    given = parser.parse_args()
    stream_into(SparkSession.builder.getOrCreate(), given.log, given.topic, given.table, given.records_max)


if __name__ == "__main__":
    main()
