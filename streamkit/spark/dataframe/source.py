"""
Topics as DataFrames: `spark.read`, `readStream`, `write` and `writeStream` with `format("streamkit")`; and stores, by `spark.read`.

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
    """A topic of a log as a table, or a store of an application: options name them. See docs/connectors/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "streamkit"

    def schema(self) -> str:
        """The columns that are read, as SQL text: the topic's, then `_timestamp`, `_partition`, `_offset`, `_deleted`; or the store's."""
        from streamkit.spark.dataframe.options import names_store, store_options, table_options
        from streamkit.spark.dataframe.table import table_ddl

        if names_store(self.options):
            from streamkit.spark.dataframe.store_table import store_ddl

            return store_ddl(store_options(self.options))
        return table_ddl(table_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from streamkit.spark.dataframe.batch_reader import FilteringReader, TopicReader
        from streamkit.spark.dataframe.options import names_store, read_options, store_options

        takes_filters = _PROCESS_OF_FILTERS in sys.modules
        if names_store(self.options):
            from streamkit.spark.dataframe.store_reader import FilteringStoreReader, StoreReader

            return (FilteringStoreReader if takes_filters else StoreReader)(store_options(self.options), schema)
        return (FilteringReader if takes_filters else TopicReader)(read_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from streamkit.spark.dataframe.options import refuse_store, stream_options
        from streamkit.spark.dataframe.stream_reader import TopicStreamReader

        refuse_store(self.options, "a stream")
        return TopicStreamReader(stream_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from streamkit.spark.dataframe.batch_writer import TopicWriter
        from streamkit.spark.dataframe.options import refuse_store, write_options

        refuse_store(self.options, "a write")
        return TopicWriter(write_options(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from streamkit.spark.dataframe.options import refuse_store, stream_write_options
        from streamkit.spark.dataframe.stream_writer import TopicStreamWriter

        refuse_store(self.options, "a write")
        return TopicStreamWriter(stream_write_options(self.options, overwrite=overwrite), schema)
