"""
Topics as DataFrames: `spark.read`, `readStream`, `write` and `writeStream` with `format("streamkit")`.

Spark imports this file in a Python process for each step of planning, so what does the work is imported by the methods that do it.
"""

from __future__ import annotations

import sys

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

# Spark refuses a reader that takes filters where they are switched off, and asks for filters in a process of another module.
_PROCESS_OF_FILTERS = "pyspark.sql.worker.data_source_pushdown_filters"


class TopicSource(DataSource):
    """A topic of a log as a table: options name both. See docs/connectors/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "streamkit"

    def schema(self) -> str:
        """The columns that are read, as SQL text: the topic's, then `_timestamp`, `_partition`, `_offset`, `_deleted`."""
        from streamkit.spark.dataframe.options import table_options
        from streamkit.spark.dataframe.table import table_ddl

        return table_ddl(table_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from streamkit.spark.dataframe.batch_reader import FilteringReader, TopicReader
        from streamkit.spark.dataframe.options import read_options

        chosen = FilteringReader if _PROCESS_OF_FILTERS in sys.modules else TopicReader
        return chosen(read_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from streamkit.spark.dataframe.options import stream_options
        from streamkit.spark.dataframe.stream_reader import TopicStreamReader

        return TopicStreamReader(stream_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from streamkit.spark.dataframe.batch_writer import TopicWriter
        from streamkit.spark.dataframe.options import write_options

        return TopicWriter(write_options(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from streamkit.spark.dataframe.options import stream_write_options
        from streamkit.spark.dataframe.stream_writer import TopicStreamWriter

        return TopicStreamWriter(stream_write_options(self.options, overwrite=overwrite), schema)
