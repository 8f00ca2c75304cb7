"""Rows between operators: joined whatever their encoding, sorted as the canonical order says."""

from __future__ import annotations

import pyarrow as pa

from streamkit.engine.rows import RECORD_FIELDS, canonical_order, concatenate
from streamkit.names import ORDER_COLUMNS

PLAIN = pa.array(["a", "b", None])


def test_batches_with_and_without_dictionaries_become_one():
    """Frames of one topic may differ in encoding; together their column is plain, or has one dictionary."""
    plain, encoded = pa.record_batch({"k": PLAIN}), pa.record_batch({"k": PLAIN.dictionary_encode()})
    other = pa.record_batch({"k": pa.array(["c", "a"]).dictionary_encode()})
    assert concatenate([plain, encoded])["k"].to_pylist() == ["a", "b", None] * 2
    together = concatenate([encoded, other])["k"]
    assert pa.types.is_dictionary(together.type)
    assert together.to_pylist() == ["a", "b", None, "c", "a"]


def test_rows_sort_by_order_input_partition_offset_and_rank():
    """Each column decides only where those before it are equal."""
    rows = [(2, 0, 0, 0, 0), (1, 1, 0, 0, 0), (1, 0, 1, 0, 0), (1, 0, 0, 5, 1), (1, 0, 0, 5, 0), (1, 0, 0, 3, 0)]
    columns = [pa.array(values, RECORD_FIELDS[name]) for name, values in zip(ORDER_COLUMNS, zip(*rows, strict=True), strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, names=list(ORDER_COLUMNS))
    assert [rows[index] for index in canonical_order(batch)] == sorted(rows)
