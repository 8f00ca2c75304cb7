"""The run of an hour measures what it says, and tells what grew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.endurance import PARTS, grown, readings

EVEN = {"p50_ms": 30.0, "memory_mib": 400.0, "files": 1000.0, "slabs_mib": 50.0}


def test_a_moment_is_measured(tmp_path: Path) -> None:
    """Latency, memory, handles and files are told of each period."""
    found = list(readings(tmp_path / "log", "local", 100, periods=2, period_seconds=0.5))
    assert [set(reading) for reading in found] == [set(found[0])] * 2
    for reading in found:
        assert 0 < reading["p50_ms"] <= reading["p99_ms"]
        assert reading["memory_mib"] > 10 and reading["handles"] > 3 and reading["files"] > 1
        assert reading["catalog_mib"] > 0 and reading["journal_mib"] > 0 and reading["other_mib"] < 1


@pytest.mark.parametrize("name", EVEN)
def test_what_grows_is_told(name: str) -> None:
    """A kind whose largest reading has grown by more than a quarter and its margin is told; one that goes up and down is not."""
    count = 5 * PARTS
    saw = [{**EVEN, name: EVEN[name] * (1 + 0.5 * (place % 3))} for place in range(count)]
    assert grown(saw) == []
    slow = [{**EVEN, name: EVEN[name] * (1 + place / 20)} for place in range(count)]
    (line,) = grown(slow)
    assert line.startswith(f"{name}: at most ")
    late = [*saw[:-1], {**EVEN, name: EVEN[name] * 4}]
    assert [line.split(":")[0] for line in grown(late)] == [name]
