"""Promises of heartbeats: ages by a clock that never goes back, shared by processes, disposable."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager, suppress

import apsw
import pytest

from streamkit.clock import HandClock
from streamkit.errors import StorageFullError, StreamKitError
from streamkit.log.database import heartbeats
from streamkit.log.database.heartbeats import BUSY_TIMEOUT_MS, ENDED_MS, FileHeartbeats, MemoryHeartbeats, heartbeats_at
from streamkit.log.opening import open_log
from streamkit.names import HEARTBEATS_FILE
from tests.kit.program import Program


@pytest.fixture
def clock():
    return HandClock(5_000)


@pytest.fixture(params=["file", "memory"])
def found(request, tmp_path, clock):
    return FileHeartbeats(str(tmp_path / "h.db"), clock) if request.param == "file" else MemoryHeartbeats(clock)


def test_ages_grow_until_the_next_beat(found, clock):
    """An age is the time since the last beat, for the names that begin so; unknown and forgotten names have none."""
    found.beat("g/a", "g/b", "other/a")
    clock.advance(70)
    found.beat("g/b")
    clock.advance(5)
    assert found.ages_ms("g/") == {"g/a": 75, "g/b": 5}

    found.forget("g/a", "g/never")
    assert found.ages_ms("") == {"g/b": 5, "other/a": 75}
    assert found.ages_ms("%/") == {}


def test_what_has_ended_is_years_old(found, clock):
    """An end is told from a heartbeat that was never heard of, and lasts until the next beat."""
    found.beat("a", "b")
    found.end("a", "c")
    clock.advance(3)
    assert found.ages_ms("") == {"a": ENDED_MS + 3, "b": 3, "c": ENDED_MS + 3}

    found.beat("a")
    assert found.ages_ms("a") == {"a": 0}


def test_processes_share_a_log_s_heartbeats(tmp_path):
    """Another process of the host sees the beats, and they are young."""
    code = f"from streamkit.log.database.heartbeats import heartbeats_at; heartbeats_at({str(tmp_path)!r}).beat('g/other')"
    assert Program(None, code=code).wait() == 0

    (age,) = heartbeats_at(str(tmp_path)).ages_ms("g/").values()
    assert 0 <= age < 10_000
    assert [path.name for path in tmp_path.iterdir()] == [HEARTBEATS_FILE]


@pytest.mark.parametrize("damage", [b"", b"no database" * 999, None])
def test_damage_makes_it_anew(tmp_path, clock, damage):
    """A file that is cut, is not a database, or is gone, is made again without an error."""
    path = tmp_path / "h.db"
    found = FileHeartbeats(str(path), clock)
    found.beat("g/a")
    path.unlink() if damage is None else path.write_bytes(damage)

    assert found.ages_ms("") == {}
    found.beat("g/a")
    assert found.ages_ms("") == {"g/a": 0}


def test_beats_before_a_restart_of_the_host_do_not_count(tmp_path, clock, monkeypatch):
    """The clock started from scratch with the host, so older ages mean nothing, and neither does a beat from the future."""
    found = FileHeartbeats(str(tmp_path / "h.db"), clock)
    found.beat("g/a")
    monkeypatch.setattr(heartbeats, "_boot_id", lambda: "another")
    after = FileHeartbeats(str(tmp_path / "h.db"), HandClock(10))

    assert after.ages_ms("") == {}
    after.beat("g/a")
    assert after.ages_ms("") == {"g/a": 0}
    assert FileHeartbeats(str(tmp_path / "h.db"), HandClock(9)).ages_ms("") == {}


def test_a_place_that_cannot_be_used_is_named(tmp_path):
    """Where no file can be, the error names it and says that it is disposable."""
    with pytest.raises(StreamKitError, match=r"h.db cannot be used: .*may be deleted at any time"):
        FileHeartbeats(str(tmp_path / "missing" / "h.db")).beat("a")


class FullDisk(apsw.Connection):
    """A database that cannot grow to a table's size."""

    def __init__(self, path):
        super().__init__(path)
        self.pragma("max_page_count", 1)


@pytest.mark.parametrize("is_there", [False, True])
def test_reading_needs_no_room(tmp_path, monkeypatch, is_there):
    """On a full disk, where no table can be made, nobody was heard of, and a beat says that there is no room."""
    path = tmp_path / "h.db"
    if is_there:
        path.touch()
    monkeypatch.setattr(apsw, "Connection", FullDisk)
    found = FileHeartbeats(str(path))
    assert found.ages_ms("") == {}
    found.forget("a")
    assert path.exists() == is_there

    with pytest.raises(StorageFullError, match=r"no room in .*h.db: .*; free disk space"):
        found.beat("a")


@contextmanager
def locked(path):
    """Somebody holds the file for himself."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def unusable(path):
    """There is something in its place that can be neither read, nor written, nor removed."""
    path.unlink()
    path.mkdir()
    yield
    path.rmdir()


@contextmanager
def garbled(path):
    path.write_bytes(b"no database" * 999)
    yield


def beating(membership):
    """A thread, begun, that is about to say that the member is alive, and waits for the file."""

    def beat():
        with suppress(StreamKitError):
            membership.beat()

    thread = threading.Thread(target=beat)
    thread.start()
    time.sleep(0.05)
    return thread


@pytest.mark.parametrize("hindrance", [locked, unusable, garbled])
def test_commits_do_not_wait_for_heartbeats(tmp_path, hindrance):
    """Whatever happens to the file of heartbeats, also while a beat waits for it, producers and consumers commit and are not refused."""
    with open_log(tmp_path / "log") as log, log.producer() as producer:
        log.create_topic("t", "v bigint", partitions=1)
        producer.send("t", {"v": 1})
        producer.flush()
        with log.consumer("t", group="g") as consumer:
            assert len(consumer.poll(0) or ()) == 1
            with hindrance(tmp_path / "log" / HEARTBEATS_FILE):
                beat = beating(consumer._assignment)
                begun = time.monotonic()
                producer.send("t", {"v": 2})
                producer.flush()
                assert consumer.commit() == {("t", 0): 1}
                seconds = time.monotonic() - begun
            beat.join()
            assert len(consumer.poll(5) or ()) == 1
            consumer.commit()
    assert seconds < BUSY_TIMEOUT_MS / 2000


def test_a_damaged_file_that_cannot_be_made_anew_is_named(tmp_path, monkeypatch):
    """If a file that is not a database cannot be removed either, that is one clear error."""
    path = tmp_path / "h.db"
    path.write_bytes(b"no database" * 999)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.unlink", refuse)
    with pytest.raises(StreamKitError, match=r"h.db cannot be used: .*Permission denied.*may be deleted at any time"):
        FileHeartbeats(str(path)).beat("a")
