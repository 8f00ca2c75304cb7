"""The row that SELECT without FROM has: one, with no column that a query can name."""

from __future__ import annotations

import pyarrow as pa

COLUMN, TYPE = "row\N{GREEK SMALL LETTER LAMDA}", "int"


def one_row() -> pa.RecordBatch:
    """The row."""
    return pa.record_batch([pa.array([0], pa.int32())], names=[COLUMN])
