"""ksqlDB's functions and operators, where they mean something else than Spark's of that name, or Spark has none."""

from __future__ import annotations
