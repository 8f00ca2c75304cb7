"""Rows between operators become one batch, whatever their encoding and whichever record columns they have."""

from __future__ import annotations

import pyarrow as pa

from streamkit.engine.rows.rows import concatenate

PLAIN = pa.array(["a", "b", None])


def test_batches_with_and_without_dictionaries_become_one():
    """Frames of one topic may differ in encoding; together their column is plain, or has one dictionary."""
    plain, encoded = pa.record_batch({"k": PLAIN}), pa.record_batch({"k": PLAIN.dictionary_encode()})
    other = pa.record_batch({"k": pa.array(["c", "a"]).dictionary_encode()})
    assert concatenate([plain, encoded])["k"].to_pylist() == ["a", "b", None] * 2
    together = concatenate([encoded, other])["k"]
    assert pa.types.is_dictionary(together.type)
    assert together.to_pylist() == ["a", "b", None, "c", "a"]
