"""
The source of the one query: plans epochs on the driver, runs the readers in tasks.

Spark imports this file in six Python processes, one after another, before the first epoch is committed. Most of them ask for a
schema or an object and end, so what does the work is imported by the methods that do it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from streamkit.spark.format import FORMAT, PACKED_DDL

if TYPE_CHECKING:
    import pyarrow as pa

    from streamkit.spark.epochs import Epochs


class EpochSource(DataSource):
    """All inputs of an application as one source, and its commit as the sink."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return PACKED_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return EpochReader(self.options["job"])

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from streamkit.spark.sink import EpochWriter

        return EpochWriter(self.options["job"])


class EpochPartition(InputPartition):
    """One split of an epoch, with its plan."""

    def __init__(self, split: str, plan: str) -> None:
        super().__init__(None)
        self.split = split
        self.plan = plan


class EpochReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Methods without tasks run in one driver-side process, `read` in tasks; see `Epochs` and `read_packed`."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._planned: Epochs | None = None

    @property
    def _epochs(self) -> Epochs:
        from streamkit.spark.epochs import Epochs

        self._planned = self._planned or Epochs(self._job)
        return self._planned

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._epochs.initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The job already says where to stop."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return self._epochs.latest_offset(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [EpochPartition(split, plan) for split, plan in self._epochs.splits(start, end)]

    def stop(self) -> None:
        """End what this process holds; Spark does not always call it, and what is held ends with the process."""
        if self._planned is not None:
            self._planned.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from streamkit.spark.reader import read_packed

        assert isinstance(partition, EpochPartition)
        return read_packed(self._job, partition.split, partition.plan)
