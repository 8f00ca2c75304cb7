"""ksqlDB's aggregates, a family a file, where they mean something else than Spark's or Spark has none."""

from __future__ import annotations
