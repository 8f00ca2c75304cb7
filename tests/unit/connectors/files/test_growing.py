"""Files that are still being written: whatever is there when they are looked at, each record comes once, and whole."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.files import FileSource
from streamkit.connectors.files import source as file_source
from streamkit.errors import ConfigError, SchemaError
from tests.kit.sampling import TAKES_ALL
from tests.kit.waiting import wait_until

CSV = b'id,v\r\n1,x\n2,"a\n""b"\r3,zz\r\n\n4,"q,\r\n"\n5,\n'
JSON = b'{"id": 1, "v": "x"}\n\n{"id": 2, "v": "a\\n\\"b"}\r\n{"id": 3, "v": "zz"}\r{"id": 4, "v": "q,\\r\\n"}\n{"id": 5, "v": null}\n'
ROWS = [(1, "x"), (2, 'a\n"b'), (3, "zz"), (4, "q,\r\n"), (5, None)]
FILES = {"a.csv": CSV, "a.jsonl": JSON, "b.csv": CSV.replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip()}
SCHEMA = "id bigint, v string"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(file_source, "LOOK_SECONDS", 0.0)
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


class Follower:
    """A source without a log: what it polled, and the positions, with which another one goes on."""

    def __init__(self, folder, **settings):
        given = {"path": str(folder), "topic": "rows", "schema": SCHEMA, **settings}
        self.settings = {name: value for name, value in given.items() if value is not None}
        self.rows, self.positions = [], {}
        self.begin()

    def begin(self):
        self.source = FileSource("in", **self.settings)
        self._open()

    def _open(self):
        self.positions = dict.fromkeys(self.source.splits()) | self.positions
        self.source.open(self.positions)

    def poll(self):
        """Poll what is there."""
        if set(self.source.splits()) - set(self.positions):
            self._open()
        while (polled := self.source.poll(0.0)) is not None:
            for table in polled.tables.values():
                assert isinstance(table, pa.Table)
                self.rows += [(row["id"], row["v"]) for row in table.to_pylist()]
            self.positions |= polled.positions
            self.source.committed(polled.positions)


def leave_alone(path):
    """Make a file an hour old: nobody writes to it any more."""
    old = time.time() - 3600
    os.utime(path, (old, old))


def expected(name):
    return [(id, v and v.replace("\r\n", "\n")) if name == "b.csv" else (id, v) for id, v in ROWS]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_new", [False, True], ids=["same_task", "another_task"])
def test_every_cut(folder, name, is_new):
    """A file that is looked at when any part of it is there, by the same task or another, has each record once; then it is moved."""
    data = FILES[name]
    done = folder.parent / "done"
    for cut in (
        range(len(data) + 1) if TAKES_ALL else range(is_new, len(data) + 1, 2)
    ):  # each place by the same task or by another
        follower = Follower(folder, finished_path=str(done))
        with (folder / name).open("wb") as file:
            for piece in (data[:cut], data[cut:]):
                file.write(piece)
                file.flush()
                follower.poll()
                if is_new:
                    follower.begin()
                    follower.poll()
        assert follower.rows == expected(name)[: len(follower.rows)] and len(follower.rows) >= len(ROWS) - 1, cut
        assert (folder / name).exists(), cut
        leave_alone(folder / name)
        follower.poll()
        follower.poll()
        assert follower.rows == expected(name), cut
        assert os.listdir(done) == [name] and not os.listdir(folder), cut
        shutil.rmtree(done)


def test_compressed_and_parquet_files_are_waited_for(folder):
    """Of a compressed file, and of one of Parquet, nothing comes until it is whole, and then all, whatever was there before."""
    pq.write_table(pa.table({"id": [1, 2], "v": ["x", "y"]}), folder.parent / "whole")
    files = {"a.csv.gz": gzip.compress(b"id,v\n1,x\n2,y\n"), "a.parquet": (folder.parent / "whole").read_bytes()}
    for name, data in files.items():
        for cut in random.Random(1).sample(range(len(data)), 12):
            (folder / name).write_bytes(data[:cut])
            follower = Follower(folder)
            follower.poll()
            with (folder / name).open("ab") as file:
                file.write(data[cut:])
            follower.poll()
            assert follower.rows == []
            leave_alone(folder / name)
            follower.poll()
            assert follower.rows == [(1, "x"), (2, "y")], (name, cut)
            (folder / name).unlink()


def test_a_file_without_a_last_line_end_that_goes_on(folder):
    """What was taken for the last record, and was half of it, is an error that says so, since the half is in the topic."""
    (folder / "a.csv").write_bytes(b"id,v\n1,x\n2,y")
    leave_alone(folder / "a.csv")
    follower = Follower(folder)
    follower.poll()
    assert follower.rows == [(1, "x"), (2, "y")]
    with (folder / "a.csv").open("ab") as file:
        file.write(b"z\n")
    with pytest.raises(ConfigError, match=r"a\.csv goes on within its last record, at byte 12; .* left alone for 60000 ms"):
        follower.poll()
    (folder / "a.csv").write_bytes(b"id,v\n1,x\n2,y\n3,z\n")
    follower.begin()
    follower.poll()
    assert follower.rows == [(1, "x"), (2, "y"), (3, "z")]


def be_left_alone_for(path, seconds):
    """Make the last change of a file so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.parametrize("tail", [b"2,y", b'2,"y', b"2", b"2,y\n3", b"", b'2,"y"'])
def test_a_pause_within_the_last_record(folder, tail):
    """A writer that pauses for half a minute has no half of a row stored; what is left alone for a minute is its last record, or refused."""
    path = folder / "a.csv"
    path.write_bytes(b"id,v\n1,x\n" + tail)
    follower = Follower(folder)
    be_left_alone_for(path, 30)
    follower.poll()
    whole = [(1, "x"), *([(2, "y")] if b"\n" in tail else [])]
    assert follower.rows == whole
    with path.open("ab") as file:
        file.write(
            {b"2": b",yz\n", b"2,y\n3": b",z\n", b"": b"2,yz\n", b'2,"y': b'z"\n'}.get(
                tail, b"z\n" if not tail.endswith(b'"') else b"\n"
            )
        )
    follower.poll()
    assert len(follower.rows) == 3 if b"\n" in tail else len(follower.rows) == 2
    assert follower.rows[-1] in ((2, "yz"), (2, "y"), (3, "z"))


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (b'2,"y', "line 3: found a quote that is opened and never closed"),
        (b"2", "line 3: found 1 values, expected 2"),
        (b"2,y", None),
    ],
)
@pytest.mark.parametrize("is_once", [False, True])
def test_the_last_record_of_a_file_that_is_left_alone(folder, tail, message, is_once):
    """Half a row that can be told is refused, and nothing of it stored; a task that ends does not wait for so long."""
    path = folder / "a.csv"
    path.write_bytes(b"id,v\n1,x\n" + tail)
    follower = Follower(folder)
    follower.source.is_bounded = is_once
    be_left_alone_for(path, 10 if is_once else 90)
    if message is None:
        follower.poll()
        assert follower.rows == [(1, "x"), (2, "y")]
    else:
        with pytest.raises(SchemaError, match=message):
            follower.poll()
        assert follower.rows == [(1, "x")]


def test_a_guess_waits_for_the_file(folder):
    """Columns are guessed of a file that nobody writes to any more: its first lines alone would say other types."""
    (folder / "a.csv").write_bytes(b"id,v\n1,2\n")
    follower = Follower(folder, schema=None)
    follower.poll()
    assert follower.rows == []
    with (folder / "a.csv").open("ab") as file:
        file.write(b"2,2.5\n")
    leave_alone(folder / "a.csv")
    follower.poll()
    assert follower.rows == [(1, 2.0), (2, 2.5)]


def test_a_time_that_is_set_later(folder):
    """A file that is copied and then gets the time of what it is a copy of is the same; one whose bytes changed is not."""
    path = folder / "a.csv"
    path.write_bytes(b"id,v\n" + b"".join(b"%05d,x\n" % n for n in range(3000)))
    follower = Follower(folder)
    follower.poll()
    leave_alone(path)
    follower.poll()
    follower.begin()
    follower.poll()
    assert len(follower.rows) == 3000
    data = bytearray(path.read_bytes())
    data[12_005] = ord("y")
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"a\.csv changed after it was read"):
        follower.poll()


def test_a_later_file_that_begins_as_one_that_was_moved(folder):
    """Where finished files are moved, a file of the same name is another one, also if it begins with the same records."""
    done = folder.parent / "done"
    follower = Follower(folder, finished_path=str(done), min_age_ms=0)
    for count in (1, 2, 3):
        (folder / "a.csv").write_text("id,v\n" + "".join(f"{n},x\n" for n in range(count)))
        follower.begin()
        follower.poll()
    assert follower.rows == [(0, "x"), (0, "x"), (1, "x"), (0, "x"), (1, "x"), (2, "x")]
    assert sorted(os.listdir(done)) == ["a.csv", "a.csv.1", "a.csv.2"]


def test_a_worker_follows_a_file(folder, tmp_path):
    """A watched file that is written in pieces of any length comes whole, and others beside it."""
    chance = random.Random(5)
    data = b"id,v\n" + b"".join(b'%d,"line\n%d"\n' % (n, n) for n in range(300))
    (folder / "b.csv").write_bytes(b"id,v\n-1,other\n")
    with sk.open_log(tmp_path / "log") as log, run([FileSource("in", path=str(folder), topic="rows", schema=SCHEMA)], log):
        with (folder / "a.csv").open("wb", buffering=0) as file:
            for _ in range(20):
                piece, data = data[: (length := chance.randrange(400))], data[length:]
                file.write(piece)
                time.sleep(0.01)
            file.write(data)
        wait_until(lambda: "rows" in log.topics() and log.read("rows").num_rows == 301)
        assert sorted(row["id"] for row in log.read("rows").to_pylist()) == list(range(-1, 300))


@pytest.mark.parametrize("begins", [{}, {"schema": None}], ids=["declared", "guessed"])
@pytest.mark.parametrize("before", [b"", b"\n\r\n"], ids=["empty", "blank"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl"])
def test_an_empty_file(folder, name, before, begins):
    """It has no records and stops nothing, whatever is done to its time; what it grows by is read, by the same task or another."""
    record = b'{"id":1,"v":"x"}\n' if "json" in name else b"id,v\n1,x\n"
    path = folder / name
    is_packed = name.endswith("gz")
    path.write_bytes(gzip.compress(before) if is_packed and before else before)
    leave_alone(path)
    (folder / "b.csv").write_bytes(b"id,v\n2,y\n")
    leave_alone(folder / "b.csv")
    follower = Follower(folder, **begins)
    follower.poll()
    assert follower.rows == [(2, "y")]
    os.utime(path, (1_000_000_000, 1_000_000_000))
    follower.poll()
    follower.begin()
    follower.poll()
    with path.open("ab") as file:
        file.write(gzip.compress(record) if is_packed else record)
    leave_alone(path)
    follower.poll()
    assert follower.rows == [(2, "y"), (1, "x")]


@pytest.mark.parametrize("is_new", [False, True], ids=["same_task", "another_task"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_another_file_of_the_same_name(folder, name, is_new):
    """One that is longer has not grown, however it begins; one of the same bytes is a copy, which may grow later."""
    line = b'{"id":%d,"v":"x"}\n' if "json" in name else b"%d,x\n"
    data = (b"" if "json" in name else b"id,v\n") + line % 1
    path, other = folder / name, folder / ".other"
    path.write_bytes(data)
    follower = Follower(folder)
    follower.poll()
    for is_of_the_same_time in (False, True):
        other.write_bytes(data)
        if is_of_the_same_time:
            shutil.copystat(path, other)
        os.replace(other, path)
        if is_new:
            follower.begin()
        follower.poll()
    with path.open("ab") as file:
        file.write(line % 2)
    follower.poll()
    assert follower.rows == [(1, "x"), (2, "x")]
    other.write_bytes(path.read_bytes() + line % 3)
    os.replace(other, path)
    with pytest.raises(
        ConfigError, match=rf"{name} was replaced after it was read: another file has its name .*recreated\.mode=begin"
    ):
        follower.begin() if is_new else follower.poll()
    follower = Follower(folder, recreated_mode="begin")
    follower.poll()
    assert follower.rows == [(1, "x"), (2, "x"), (3, "x")]


@pytest.mark.parametrize("mode", ["fail", "begin"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.csv.gz"])
def test_a_file_that_was_read_and_is_made_again_later(folder, name, mode):
    """A task that has seen that it is gone does as one that has not: it was skipped. The file itself, put back, may grow."""
    line = b'{"id":%d,"v":"x"}\n' if "json" in name else b"%d,x\n"
    head, pack = b"" if "json" in name else b"id,v\n", gzip.compress if name.endswith("gz") else bytes
    path, away = folder / name, folder.parent / name
    follower = Follower(folder, recreated_mode=mode, min_age_ms=0)
    path.write_bytes(pack(head + line % 1))
    follower.poll()
    for _ in range(2):
        os.replace(path, away)
        follower.poll()
        os.replace(away, path)
        follower.poll()
    if not name.endswith("gz"):
        with path.open("ab") as file:
            file.write(line % 2)
        follower.poll()
        assert follower.rows == [(1, "x"), (2, "x")]
    read = len(follower.rows)
    os.replace(path, away)  # so its number is not given again
    follower.poll()
    (folder / f"b{name[1:]}").write_bytes(pack(head + line % 9))  # for which the task opens the source again
    follower.poll()
    path.write_bytes(pack(head + line % 7))
    if mode == "fail":
        with pytest.raises(ConfigError, match=rf"{name} was replaced after it was read: .*recreated\.mode=begin"):
            follower.poll()
        return
    follower.poll()
    assert follower.rows[read:] == [(9, "x"), (7, "x")]


@pytest.mark.parametrize("begun", [b"", b"id,v\n1"], ids=["empty", "half"])
@pytest.mark.parametrize("is_seen", [False, True])
def test_a_file_that_goes_before_a_record_of_it_was_read(folder, begun, is_seen):
    """The next one of its name is read; where the task had looked for files, and for what was still being written, it was skipped."""
    follower = Follower(folder)
    (folder / "a.csv").write_bytes(begun)
    if is_seen:
        follower.poll()
    else:
        follower._open()
    (folder / "a.csv").unlink()
    follower.poll()
    (folder / "a.csv").write_text("id,v\n5,y\n")
    follower.poll()
    assert follower.rows == [(5, "y")]
