"""Importing this enters all operators and functions of ksqlDB. A new family needs a line here."""

from __future__ import annotations

from streamkit.expressions.ksql import (  # noqa: F401
    arithmetic,
    arrays,
    bytes,
    casts,
    comparisons,
    conditions,
    failures,
    json,
    lambdas,
    like,
    maps,
    mathematics,
    nested,
    nulls,
    regular_expressions,
    texts,
    times,
    times_of_day,
    urls,
)
