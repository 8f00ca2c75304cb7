"""Reading a store as a batch: the driver plans tasks, as of the newest epoch at that moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from streamkit.log.opening import open_existing_log
from streamkit.spark.dataframe.options import StoreOptions
from streamkit.spark.dataframe.store_scan import plan_store_scan, read_store_scan


class StoreReader(DataSourceReader):
    """A store of an application, whole, or the rows that `where` asks for."""

    def __init__(self, options: StoreOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        with open_existing_log(self._options.log) as log:
            return list(plan_store_scan(log, self._options, self._schema))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_store_scan(partition)
