"""A query from the topic `orders` to the topic `copy`, in a process of its own, so that it can be killed."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main() -> None:
    log, checkpoint, records_max = sys.argv[1:]
    session = SparkSession.builder.getOrCreate()
    stream = session.readStream.format("streamkit").options(log=log, topic="orders", maxRecordsPerTrigger=records_max)
    rows = stream.load().select("user", "amount").repartition(2)
    query = rows.writeStream.format("streamkit").options(log=log, topic="copy", id="copying", checkpointLocation=checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
