"""
Topics as DataFrames: `spark.read`, `readStream`, `write` and `writeStream` with `format("streamkit")`; and stores, by `spark.read`.

Spark imports this file in a Python process for each step of planning, so what does the work is imported by the methods that do it.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


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
        """
        A reader of a topic or a store. None takes the filters that Spark pushes (`pushFilters`).

        Spark 4.2 plans a read once for a DataFrame, with the filters of its first action, and reads by that plan in all later ones, which
        would then miss the rows that those filters leave out. The option `where` says it once for all actions.
        """
        from streamkit.spark.dataframe.batch_reader import TopicReader
        from streamkit.spark.dataframe.options import names_store, read_options, store_options

        if names_store(self.options):
            from streamkit.spark.dataframe.store_reader import StoreReader

            return StoreReader(store_options(self.options), schema)
        return TopicReader(read_options(self.options), schema)

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
