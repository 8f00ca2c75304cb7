"""The figures of operators, each beside its peer in the same run; all take a fraction of their records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from tests.bench.emissions import emissions
from tests.bench.hopping_memory import hopping_memory
from tests.bench.row import Row
from tests.bench.session_windows import session_windows
from tests.bench.stream_join import stream_join
from tests.bench.table_join import table_join
from tests.bench.windowed_sql import windowed_sql
from tests.bench.word_count import word_count


class OperatorWork(Protocol):
    """The rows of an operator, measured with that fraction of its records."""

    def __call__(self, session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]: ...


OPERATORS: dict[str, OperatorWork] = {
    "word_count": word_count,
    "table_join": table_join,
    "stream_join": stream_join,
    "session_windows": session_windows,
    "emissions": emissions,
    "hopping_memory": hopping_memory,
    "windowed_sql": windowed_sql,
}
