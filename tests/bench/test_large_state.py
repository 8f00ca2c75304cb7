"""Promises about the benchmark of large state: it counts every key, loses the stores, and has a row for each figure."""

from __future__ import annotations

import shutil

from streamkit.log.opening import open_log
from tests.bench import large_state


def test_rows(tmp_path, monkeypatch):
    """Each figure has its row; where Kafka Streams cannot be had, a row says so."""
    monkeypatch.setattr(large_state, "kafka_streams_figures", lambda folder, keys: "this is a test")
    monkeypatch.setattr(large_state, "ROUNDS", 1)
    monkeypatch.setattr(large_state, "SMALL_EPOCHS", 2)
    rows = list(large_state.large_state_rows(tmp_path, 0.0002))
    assert [row.work for row in rows] == [
        "count of 1,000 distinct keys",
        "restore of 1,000 keys, to the first result",
        "restore of 1,000 keys, against Kafka Streams: not measured, since this is a test",
        "rescale from 4 to 8 tasks, to the first result",
        "an epoch that touches 1,000 keys of 20,000",
    ]
    assert rows[0].value > 0 and (rows[-1].ratio or 0) > 0


def test_a_run_counts_what_waits(tmp_path):
    """A run gives a result for each key, also once the stores are lost and the number of tasks is another."""
    root = tmp_path / "log"
    large_state._fill(root, 500)
    assert large_state._run(root, tasks=2) > 0
    shutil.rmtree(root / "stores")
    assert large_state._run_of_one(root, tasks=4) > 0
    with open_log(root) as log:
        assert sum(log.end_offsets("counted").values()) == 501
        assert log.store("count", "counts").get("key000000000") == {"k": "key000000000", "n": 2}
