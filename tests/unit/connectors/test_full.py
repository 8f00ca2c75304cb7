"""Foreign systems without room, and a log without room: the task says where, waits, and goes on exactly once when there is room."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess

import deltalake
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.delta import DeltaSink
from streamkit.connectors.files import FileSink, FileSource
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import OutcomeUnknownError, StorageFullError
from tests.kit.waiting import wait_until

ROWS = 200


class Disk:
    """A small disk of its own."""

    def __init__(self, folder):
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self):
        """Leave no room, not for a byte."""
        with contextlib.suppress(OSError), open(self._ballast, "ab", buffering=0) as file:
            while True:
                file.write(bytes(1024))

    def empty(self):
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path):
    """A disk of a megabyte; mounting one needs rights that not everybody has."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield Disk(folder)
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("numbers", "n bigint NOT NULL, text string", key="n", partitions=2)
        yield log


def add(log, first):
    with log.producer() as producer:
        producer.send_batch("numbers", [{"n": n, "text": os.urandom(50).hex()} for n in range(first, first + ROWS)])


def trace_of(log, connector):
    """The state of a connector's task, and the error that it waits for."""
    return next(((one.state, one.trace) for one in status.read_status(log) if one.connector == connector), ("", ""))


def of_files(folder):
    lines = [line for path in (folder / "out" / "numbers").glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["n"] for line in lines)


def of_delta(folder):
    path = str(folder / "out")
    return (
        sorted(deltalake.DeltaTable(path).to_pyarrow_table()["n"].to_pylist()) if deltalake.DeltaTable.is_deltatable(path) else []
    )


@pytest.mark.parametrize(
    ("kind", "settings", "kept", "place"),
    [(FileSink, {}, of_files, "the folder"), (DeltaSink, {"batch_linger_ms": 0}, of_delta, "the Delta table")],
    ids=["files", "delta"],
)
def test_a_sink_waits_for_room(log, disk, kind, settings, kept, place):
    """A disk that is full restarts the task until there is room: nothing is half there, and each row comes once."""
    add(log, 0)
    with run([kind("out", path=str(disk.folder / "out"), topics="numbers", **settings)], log):
        wait_until(lambda: len(kept(disk.folder)) == ROWS)
        disk.fill()
        add(log, ROWS)
        wait_until(lambda: trace_of(log, "out")[0] == status.RESTARTING)
        assert f"StorageFullError: connector out: {place} {disk.folder / 'out'} has no room" in trace_of(log, "out")[1]
        assert len(kept(disk.folder)) < 2 * ROWS
        disk.empty()
        wait_until(lambda: len(kept(disk.folder)) >= 2 * ROWS)
    assert kept(disk.folder) == list(range(2 * ROWS))


def test_a_full_disk_is_not_filled_by_halves(log, disk):
    """A sink that cannot write a file whole takes back what it wrote of it, so tries that fail leave nothing behind."""
    disk.fill()
    add(log, 0)
    for _ in range(3):
        with pytest.raises(StorageFullError, match="has no room"):
            SinkTask(FileSink("out", path=str(disk.folder / "out"), topics="numbers"), 0, 1, log, is_once=True).run(Orders())
    assert not [path for path in (disk.folder / "out").rglob("*") if path.is_file()]


def test_a_log_without_room_waits(disk, tmp_path):
    """A source whose log has no room has an error that passes; with room it goes on behind what was committed."""
    folder = tmp_path / "in"
    folder.mkdir()

    def source():
        return FileSource("in", path=str(folder), topic="rows", schema="n bigint")

    with sk.open_log(disk.folder / "log") as log:
        for number in range(2):
            (folder / f"{number}.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(number * ROWS, (number + 1) * ROWS)))
            if number:
                disk.fill()
                with pytest.raises((StorageFullError, OutcomeUnknownError), match="free disk space") as raised:
                    SourceTask(source(), 0, 1, log, is_once=True).run(Orders())
                assert source().is_retryable(raised.value)
                disk.empty()
            SourceTask(source(), 0, 1, log, is_once=True).run(Orders())
        assert sorted(row["n"] for row in log.read("rows").to_pylist()) == list(range(2 * ROWS))
