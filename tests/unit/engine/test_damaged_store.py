"""Promises of views over local stores that cannot be read: they show what the changelogs say, and leave the store to its application."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.stage import kernel
from streamkit.errors import CorruptionError, StorageFullError
from streamkit.state import state_reader, task_state
from streamkit.state.stores import ON_DISK
from tests.kit.engine_run import Run, append, execute, ran
from tests.kit.sampling import TAKES_ALL

PLAYERS = 4_000  # more than one block of the store
FEW_PLAYERS = 800
DELETIONS = 3 if TAKES_ALL else 1  # RocksDB takes two seconds to close a folder that is gone


@pytest.fixture(params=[".run", ".sst"])
def suffix(request, monkeypatch):
    """The suffix of the files of a store: in runs, or, as it gets no memory, in RocksDB."""
    if request.param == ".sst":
        monkeypatch.setenv("STREAMKIT_STORE_MEMORY_BYTES", "1")
    return request.param


@pytest.fixture
def log(suffix):
    """A log with an application whose store holds the points of some thousand players; it catches up when the next epoch begins."""
    app = points()
    with ran(app, {"games": "player string, points bigint"}, {"games": games(PLAYERS)}, on_disk=True) as log:
        append(log, "games", [{"player": "p0000", "points": 1, "ts": PLAYERS}])
        execute(log, compile(app, log), Run(), ON_DISK)
        yield log


def points():
    app = sk.Topology("points")
    app.stream("games").group_by("player").agg(total=F.sum("points"), store="totals").to("totals")
    return app


def games(players):
    return [{"player": f"p{n:04}", "points": n, "ts": n} for n in range(players)]


def files(log):
    return {path: path.read_bytes() for path in Path(log.root, "stores").rglob("*") if path.is_file() and path.name != "LOG"}


def garble(log, suffix):
    """Damage the first block of every file; of RocksDB, the position, in the last one, can still be read."""
    found = [path for path in files(log) if path.suffix == suffix]
    assert found
    for path in found:
        path.write_bytes(b"\xff" * 40 + path.read_bytes()[40:])


def test_damaged_blocks_are_read_around(log, suffix, caplog):
    """All rows and each row are there although blocks of the store are damaged; a warning says so, and nothing is written."""
    view = log.store("points", "totals")
    expected = view.to_arrow()
    assert expected.num_rows == PLAYERS
    garble(log, suffix)
    before = files(log)

    assert view.to_arrow() == expected
    for row in expected.slice(0, PLAYERS).to_pylist()[:: PLAYERS // 10]:
        assert view.get(row["player"]) == row
    assert view.get("nobody") is None
    for _ in range(2):
        assert log.store("points", "totals").to_arrow() == expected
    told = [record.getMessage() for record in caplog.records if "until then it is read from the changelog" in record.getMessage()]
    assert told and len(told) == len(set(told)), "each damaged file is told of once"
    assert files(log) == before


def test_a_damaged_changelog_is_no_damaged_store(log, caplog):
    """What is wrong with the changelog behind the store is an error, without a word of reading it instead."""
    view = log.store("points", "totals")
    changelog = next(name for name in log.topics(internal=True) if name.endswith("-changelog"))
    manifest, topic = log.catalog.manifest, log.topic(changelog)
    extent = min((one for at in range(topic.partitions) for one in manifest.extents(topic.id, at)), key=lambda one: one.rows)
    assert extent.rows == 1, "expected the change that the local store lacks"
    with log.catalog.database.write() as transaction:
        transaction.execute("DELETE FROM extent WHERE topic_id = ? AND base_offset = ?", (extent.topic_id, extent.base_offset))

    with pytest.raises(CorruptionError, match="no longer says where the offsets"):
        view.to_arrow()
    assert "read from the changelog" not in caplog.text


def test_a_full_disk_is_read_around(log, monkeypatch):
    """RocksDB writes a log of its own even to read; where there is no room for it, the changelogs answer."""
    view = log.store("points", "totals")
    expected = view.to_arrow()

    def no_room(*_, **__):
        raise StorageFullError("the disk is full")

    monkeypatch.setattr(state_reader, "TieredStore", no_room)
    assert view.to_arrow() == expected


@pytest.mark.parametrize("point", ["state.between_writes", "kernel.in_operator", "kernel.slab_durable", "kernel.finished"])
def test_a_store_that_is_deleted_while_it_is_used_is_rebuilt(monkeypatch, point):
    """Somebody deletes the folder of stores in the middle of an epoch: the run goes on, with what the changelog has, to the same results."""
    seen: list[str] = []

    def delete(name):
        if name == point and len(seen) < DELETIONS:
            seen.append(name)
            shutil.rmtree(folder, ignore_errors=True)

    app = points()
    with ran(app, {"games": "player string, points bigint"}, {"games": games(FEW_PLAYERS)}, on_disk=True) as log:
        folder = Path(log.root, "stores")  # there is none yet: the store is restored, in many writes
        for module in (kernel, task_state):
            monkeypatch.setattr(module, "reach", delete)
        monkeypatch.setattr(task_state, "CHANGES_PER_WRITE", 40)
        for number in range(3):
            more = [{"player": f"p{n:04}", "points": 10_000, "ts": FEW_PLAYERS + number} for n in range(0, FEW_PLAYERS, 7)]
            append(log, "games", more)
            sk.run(app, log=log, engine="local", trigger="available_now", tasks=2).wait()
        assert seen
        totals = {row["player"]: row["total"] for row in log.store("points", "totals").to_arrow().to_pylist()}
    assert len(totals) == FEW_PLAYERS
    assert all(totals[f"p{n:04}"] == n + (30_000 if n % 7 == 0 else 0) for n in range(FEW_PLAYERS))
