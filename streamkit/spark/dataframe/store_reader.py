"""Reading a store as a batch: the driver plans tasks, as of the newest epoch at that moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from streamkit.log.opening import open_existing_log
from streamkit.spark.dataframe.options import StoreOptions
from streamkit.spark.dataframe.store_filters import StoreFilters, pushed
from streamkit.spark.dataframe.store_scan import plan_store_scan, read_store_scan


class StoreReader(DataSourceReader):
    """A store of an application, whole."""

    def __init__(self, options: StoreOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._filters = StoreFilters()

    def partitions(self) -> Sequence[InputPartition]:
        with open_existing_log(self._options.log) as log:
            return list(plan_store_scan(log, self._options, self._schema, self._filters))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_store_scan(partition)


class FilteringStoreReader(StoreReader):
    """A reader that takes filters of keys and windows: where `spark.sql.python.filterPushdown.enabled` is true."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        self._filters = pushed(filters)
        return filters  # Spark checks them once more
