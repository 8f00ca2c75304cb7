"""Records with keys in the topic t, and the files they lie in, for the tests of compaction."""

from __future__ import annotations

import pyarrow as pa


def layout(log):
    topic_id = log.topic("t").id
    return [extent for partition in log.end_offsets("t") for extent in log.catalog.manifest.extents(topic_id, partition)]


def fill(log, keys, rows_each, times):
    """Commits of `rows_each` rows of 1 KiB, with keys from 0 to `keys`."""
    with log.producer() as producer:
        for _ in range(times):
            chosen = [f"k{n % keys}" for n in range(rows_each)]
            producer.send_batch("t", pa.table({"k": chosen, "v": [b"x" * 1024] * rows_each}))
            producer.flush()
