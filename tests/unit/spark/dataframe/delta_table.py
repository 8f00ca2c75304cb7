"""The last life of a query into a Delta table: it is finished, a batch is appended twice, and both tables are compared with the topic."""

from __future__ import annotations

import sys

from chispa import assert_df_equality
from pyspark.sql import SparkSession

from topologies.connectors.spark_delta import append_once, read_topic, stream_into


def main() -> None:
    log, table, records_max = sys.argv[1], sys.argv[2], int(sys.argv[3])
    session = SparkSession.builder.getOrCreate()
    stream_into(session, log, "orders", table, records_max)
    topic = read_topic(session, log, "orders")
    assert_df_equality(session.read.format("delta").load(table), topic, ignore_row_order=True, ignore_nullable=True)
    for version in (3, 3, 2):
        append_once(topic, f"{table}-batch", "nightly", version)
    found = session.read.format("delta").load(f"{table}-batch")
    assert_df_equality(found, topic, ignore_row_order=True, ignore_nullable=True)
    print("equal", found.count())


if __name__ == "__main__":
    main()
