"""Promises about the row from Kafka to Kafka, as far as they need no broker."""

from __future__ import annotations

from tests.bench.live_kafka import live_kafka_rows


def test_absent(tmp_path, monkeypatch):
    """Without Java and Maven there is no broker, and no row."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    assert list(live_kafka_rows(tmp_path)) == []
