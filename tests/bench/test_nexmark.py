"""Promises about Nexmark beside Flink, as far as they need no JVM."""

from __future__ import annotations

import datetime as dt
import struct

import pytest

from streamkit.log.opening import open_log
from tests.bench.nexmark import flink, run
from tests.bench.nexmark.cost import SECONDS_MIN, Run, costs
from tests.bench.nexmark.events import FILES, KINDS, write_log, write_packed
from topologies.nexmark import q2
from topologies.nexmark.generator import generate

EVENTS = 2_000


def unpacked(data: bytes, schema):
    """The rows of packed bytes, by the format's own words."""
    place = 0
    while place < len(data):
        (length,) = struct.unpack_from("<i", data, place)
        row: dict[str, object] = {}
        for number, field in enumerate(schema):
            (slot,) = struct.unpack_from("<q", data, place + 4 + 8 * number)
            if str(field.type) == "string":
                begin = place + (slot >> 32)
                row[field.name] = data[begin : begin + (slot & 0xFFFFFFFF)].decode()
            elif str(field.type).startswith("timestamp"):
                row[field.name] = dt.datetime.fromtimestamp(slot / 1000, dt.timezone.utc)
            else:
                row[field.name] = slot
        yield row
        place += length


def test_packed_events(tmp_path):
    """The files have all events, each row in one of them, in order."""
    write_packed(tmp_path / "packed", EVENTS)
    made = generate(EVENTS)
    for kind in KINDS:
        expected = getattr(made, kind)
        found = [
            list(unpacked((tmp_path / "packed" / f"{kind}-{number}.bin").read_bytes(), expected.schema))
            for number in range(FILES)
        ]
        in_turn = [found[place % FILES][place // FILES] for place in range(sum(map(len, found)))]
        assert in_turn == expected.to_pylist()


def test_run(tmp_path):
    """A run takes processor time, and writes the query's results."""
    write_log(tmp_path / str(EVENTS), EVENTS)
    assert run.seconds(q2.app, tmp_path / str(EVENTS), 500) > 0
    with open_log(tmp_path / str(EVENTS)) as log:
        assert log.read("nexmark_q2").num_rows == sum(
            auction % 123 == 0 for auction in generate(EVENTS).bid["auction"].to_pylist()
        )


def test_costs():
    """A query costs what more events take, whatever a start takes; a query that failed has no cost, and nothing costs less than can be told."""
    sizes = (100, 500_000, 1_500_000)
    runs = [Run("q1", events, 3 + events * 2e-6) for events in sizes] + [Run("q3", events, 1.0) for events in sizes]
    runs += [Run("q2", 100, 1.0), Run("q2", 500_000, failed="no"), Run("q2", 1_500_000, 2.0)]
    assert costs(runs) == {"q1": pytest.approx(2), "q3": SECONDS_MIN}


@pytest.mark.parametrize(
    ("texts", "programs", "reason"),
    [
        (False, (), "NEXMARK_QUERIES names no folder"),
        (True, (), "java and javac and mvn cannot be found"),
        (True, flink.PROGRAMS, "from Maven"),
    ],
)
def test_flink_cannot_be_had(tmp_path, monkeypatch, texts, programs, reason):
    """Without the texts, Java and Maven, or what Maven gets, Flink is not measured, and the reason is told."""
    if texts:
        (tmp_path / "q0.sql").write_text("SELECT 1")
    monkeypatch.setenv("NEXMARK_QUERIES", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in programs:
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    assert reason in flink.flink_runs(tmp_path, ["q0"], [1_000])
