"""Makes Spark know the source, from one thread at a time."""

from __future__ import annotations

import threading

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamkit.spark.source import EpochSource

_ALREADY_THERE = "DATA_SOURCE_ALREADY_EXISTS"
_lock = threading.Lock()  # the first registration looks for installed sources; a second beside it could find its own among them


def register_source(session: SparkSession) -> None:
    """Register the source in a session, in which it may be already."""
    with _lock:
        try:
            session.dataSource.register(EpochSource)
        except AnalysisException as error:
            if error.getCondition() != _ALREADY_THERE:
                raise
