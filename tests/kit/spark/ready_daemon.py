"""
The process of which Spark forks its Python workers, in the session of the tests: what kernels need is loaded before.

A worker whose task has failed is not used again, and a new one loads for most of a second. Processes that tests start have Spark's own.
"""

from __future__ import annotations

import rocksdict  # noqa: F401
from pyspark.daemon import manager

import streamkit.spark.kernel
import streamkit.spark.reader
import streamkit.spark.sink  # noqa: F401

if __name__ == "__main__":
    manager()
