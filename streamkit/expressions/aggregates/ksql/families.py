"""Importing this enters all aggregates of ksqlDB. A new family needs a line here."""

from __future__ import annotations

from streamkit.expressions.aggregates.ksql import kept_values, occurrences, statistics, totals  # noqa: F401
