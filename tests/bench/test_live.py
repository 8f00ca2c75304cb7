"""Promises about the row from `send` to `poll`, as far as they need neither a JVM nor half a minute."""

from __future__ import annotations

import pytest

from tests.bench import kafka, live, maven
from tests.bench.live_kafka_streams import VARIANTS, kafka_streams_latencies

JAVA = """#!/bin/sh
echo "p50 12.500"
echo "p99 30.250"
echo "results 7"
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder that alone has programs."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_absent(tmp_path, programs):
    """Without Java and Maven there are no latencies of Kafka Streams."""
    assert kafka_streams_latencies(tmp_path, 1_000, 10, 1, 1) is None


def test_each_variant_is_told(tmp_path, programs, monkeypatch):
    """Each way to run Kafka Streams has its p50 and p99."""
    for name, text in (("java", JAVA), ("javac", "#!/bin/sh\n"), ("mvn", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setattr(kafka, "_is_up", lambda process, port: True)
    monkeypatch.setattr(maven, "jars", lambda folder, artifacts: folder)
    assert kafka_streams_latencies(tmp_path, 1_000, 10, 1, 1) == dict.fromkeys(VARIANTS, (12.5, 30.25))


def test_a_moment_in_one_process(tmp_path, monkeypatch):
    """Producer, application and consumer work together: results come, and say how long they took."""
    monkeypatch.setattr(live, "WARM_UP_SECONDS", 0.5)
    monkeypatch.setattr(live, "MEASURED_SECONDS", 1.0)
    found = live.latencies(tmp_path / "log", "local", 100)
    assert found.results and 0 < found.p50_ms <= found.p99_ms and found.epochs_per_second > 0
