"""Rows folded one by one: pieces, in which many of them are folded and handed on, change no result."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from itertools import islice, product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.folding import every_row
from streamkit.engine.folding.every_row import GroupNumbers
from streamkit.engine.folding.windows import RowsInWindows
from streamkit.engine.operators import write
from streamkit.engine.runs.compile import compile
from streamkit.engine.stage import kernel
from streamkit.errors import EvaluationError
from streamkit.log.slab.frame import encode
from streamkit.log.storage.storage import FileStorage, MemoryStorage
from streamkit.plan.windows import Windowing
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import Run, append, execute, fresh_log, placed
from tests.kit.sampling import TAKES_ALL, chosen, first, in_turn

Row = dict[str, Any]
SCHEMA = "user string, share double, v bigint, text string"
MANY = sk.hopping("40 ms", "1 ms", grace="0 ms")
WINDOWS = {
    "none": None,
    "tumbling": sk.tumbling("10 ms", grace="4 ms"),
    "hopping": sk.hopping("10 ms", "3 ms", grace="4 ms"),
    "many": sk.hopping("40 ms" if TAKES_ALL else "12 ms", "1 ms", grace="0 ms"),
}
ROWS = 60 if TAKES_ALL else 24
EMISSIONS = ("every", "every and the others", "old", "several rows a record")
PIECES = (1, 3, 50)
WHOLE = Run()
PARTS = 12  # of a slab: a header, then three a frame
NUMBERED: dict[str, dict[str, int]] = {"close together": {}, "far apart": {"TABLE_SHARE": 0}, "not at all": {"NUMBERS_MAX": 0}}


def events(seed: int, count: int = 60) -> list[Row]:
    """Records at random, some late, some equal in time; some columns of the key are null, zeros have either sign."""
    chance, now, found = random.Random(seed), 100, []
    for number in range(count):
        now += chance.choice([0, 1, 2, 9])
        user, share = chance.choice(["ann", "bob", None]), chance.choice([0.0, -0.0, 1.5, None])
        text = chance.choice(["x", "yy", None])
        found.append({"user": user, "share": share, "v": number, "text": text, "ts": now - chance.choice([0, 0, 5, 30])})
    return found


def topology(window: Any, emission: str) -> sk.Topology:
    app = sk.Topology("pieces")
    stream = app.stream("events")
    if emission == "several rows a record":  # which stand at one place, so that windows of one stand between those of another
        stream = stream.merge(stream.filter("v % 3 = 0"), stream.filter("v % 5 < 3"))
    groups = stream.group_by("user", "share")
    groups = groups.windowed_by(window) if window is not None else groups
    table = groups.agg(
        rows=F.count("*"),
        total=F.sum("v"),
        mean=F.avg("v"),
        longest=F.max("text"),
        all=F.collect_list("v"),
        latest=F.last("text"),
        different=F.count_distinct("text"),
        spread=F.stddev_pop("v"),
        highest=F.top_k("v", 2),
        median=F.percentile("v", 0.5),
    )
    if emission == "old":
        table.emit("every", old=True).to("changes")
        return app
    table.emit("every").to("changes")
    if emission == "every and the others":
        table.emit("latest").to("newest")
        if window is not None:
            table.emit("final").to("closed")
    return app


def results(app: sk.Topology, rows: list[Row], *runs: Run, on_disk: bool = False) -> Any:
    """What the topics hold, with partitions and offsets; of several runs a list."""
    program, found = None, []
    for run in runs or (WHOLE,):
        with fresh_log(on_disk=on_disk) as log:
            log.create_topic("events", SCHEMA, key="user", partitions=2)
            append(log, "events", rows)
            program = program or compile(app, log)
            execute(log, program, run)
            found.append({output.topic: placed(log, output.topic) for output in program.outputs})
    return found if len(runs) > 1 else found[0]


WAYS = chosen(
    [*product(WINDOWS, EMISSIONS, PIECES, NUMBERED)],
    lambda way: {way[0], way[1], (way[2], way[3] == "close together")},  # all pairs of a window and an emission would be eighteen
)


@pytest.mark.parametrize(("window", "emission", "piece", "numbered"), WAYS)
def test_pieces_change_no_result(monkeypatch: Any, window: str, emission: str, piece: int, numbered: str) -> None:
    """Every result, its place in its topic and its time are those of rows that are folded at once, in one epoch and in several."""
    rows, runs = events(7, ROWS), first(1, (Run(tasks=2, records_max=ROWS // 2 - 1), Run(tasks=2)))
    app = topology(WINDOWS[window], emission)
    wanted = results(app, rows, *runs)
    assert all(len(found["changes"]) > ROWS // 2 for found in (wanted if TAKES_ALL else [wanted]))
    monkeypatch.setattr(every_row, "PIECE_ROWS", (piece, piece))
    for name, value in NUMBERED[numbered].items():
        monkeypatch.setattr(every_row, name, value)
    assert repr(results(app, rows, *runs)) == repr(wanted)  # also the sign of a zero


def test_a_piece_is_in_its_file_before_the_next_is_made(monkeypatch: Any) -> None:
    """Memory is that of a piece, not of all results: what takes one row at a time, and the slab, have a piece when the next is made."""
    happened: list[str] = []

    def noted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            if happened[-1:] != [what]:
                happened.append(what)
            return function(*given)

        return call

    monkeypatch.setattr(every_row, "PIECE_ROWS", (100, 100))
    monkeypatch.setattr(kernel, "FRAME_ROWS_MIN", 1)
    monkeypatch.setattr(every_row, "each_result", noted("made", every_row.each_result))
    monkeypatch.setattr(write, "_log_rows", noted("given", write._log_rows))
    monkeypatch.setattr("streamkit.log.slab.slab.SHARED_ROWS_MAX", 1)  # as if they were as many rows as share no frame
    monkeypatch.setattr("streamkit.log.slab.slab.encode", noted("encoded", encode))
    app = sk.Topology("pieces")
    counts = app.stream("events").group_by("user").windowed_by(MANY).count()
    counts.emit("every").filter("count > 0").select(twice=F.col("count") + F.col("count")).to("changes")
    results(app, events(1), on_disk=True)
    assert happened[0] == "encoded"  # the records themselves
    assert happened[1:] == ["made", "given", "encoded"] * (len(happened) // 3)
    assert len(happened) > 30


@pytest.mark.parametrize("partitions", first(1, [4, 1]))
def test_pieces_make_no_small_frames(monkeypatch: Any, partitions: int) -> None:
    """However many partitions share the rows of a piece, frames have some rows on average, and none is far beyond that."""
    monkeypatch.setattr(every_row, "PIECE_ROWS", (8, 8))
    monkeypatch.setattr(kernel, "FRAME_ROWS_MIN", 20)
    app = sk.Topology("pieces")
    counts = app.stream("events").group_by("v").windowed_by(sk.hopping("10 ms", "2 ms", grace="1 day")).count()
    counts.emit("every").to("changes", partitions=partitions)
    with fresh_log() as log:
        log.create_topic("events", SCHEMA, key="user", partitions=2)
        append(log, "events", events(2, 400))
        execute(log, compile(app, log), WHOLE)
        topic = log.topic("changes")
        extents = [extent for partition in range(partitions) for extent in log.catalog.manifest.extents(topic.id, partition)]
    frames = [extent.next_offset - extent.base_offset for extent in extents]
    assert sum(frames) == 2_000
    assert 20 <= sum(frames) / len(frames) < 40
    assert max(frames) < 40 * partitions


def test_what_could_not_be_written_is_made_again(monkeypatch: Any) -> None:
    """A file that fails in the middle, when some pieces are gone into it, is written again whole, under another name."""
    app, rows, run = topology(MANY, "every"), events(4, ROWS), Run(tasks=2)
    wanted = results(app, rows, run)
    monkeypatch.setattr(every_row, "PIECE_ROWS", (100, 100))
    monkeypatch.setattr(kernel, "FRAME_ROWS_MIN", 1)
    create, created, failed = FileStorage.create, list[str](), list[str]()

    def fails_once(storage: FileStorage, path: str, parts: Any) -> int:
        if not failed and sum(1 for _ in islice(parts, PARTS)) == PARTS:
            failed.append(path)
            raise OSError(errno.EIO, "the disk")
        created.append(path)
        return create(storage, path, parts)

    monkeypatch.setattr(FileStorage, "create", fails_once)
    assert results(app, rows, run, on_disk=True) == wanted
    assert len(failed) == 1
    assert failed[0] not in created


def test_changes_of_a_file_that_failed_are_forgotten(monkeypatch: Any) -> None:
    """In memory a task remembers what it wrote last, not what it wrote into a file that could not be synced."""
    app = sk.Topology("counts")
    app.stream("events", schema=SCHEMA, key="user").group_by_key().count().emit("every").to("changes")
    create, failed = MemoryStorage.create, list[str]()

    def fails_once(storage: MemoryStorage, path: str, parts: Any) -> int:
        size = create(storage, path, parts)
        if path.startswith("slabs/a") and not failed:
            failed.append(path)
            raise OSError(errno.EIO, "the disk")
        return size

    monkeypatch.setattr(MemoryStorage, "create", fails_once)
    monkeypatch.setenv("STREAMKIT_INLINE_SLAB_BYTES", "0")
    with TopologyTestDriver(app) as driver:
        for _ in range(3):
            driver.pipe("events", {"user": "ann", "share": None, "v": 1, "text": None})
        assert [row["count"] for row in driver.read("changes")] == [1, 2, 3]
    assert failed


def test_what_takes_all_rows_at_once_gets_all_of_them(monkeypatch: Any) -> None:
    """An aggregation, a merge and a suppress behind every result take what all pieces gave, beside an output that takes each."""

    def app() -> sk.Topology:
        app = sk.Topology("pieces")
        counts = app.stream("events").group_by("user").windowed_by(MANY).count()
        every = counts.emit("every").filter("count > 1")
        every.to("changes")
        every.select("user", "count").group_by("count").agg(users=F.count("*"), last=F.last("user")).emit("every").to("by_count")
        every.filter("count > 2").merge(every).to("merged")
        every.filter("count > 3").to("changes")
        return app

    wanted = results(app(), events(3, 2 * ROWS), Run(tasks=2))
    assert all(len(rows) > 50 for rows in wanted.values())
    monkeypatch.setattr(every_row, "PIECE_ROWS", (7, 7))
    monkeypatch.setattr(kernel, "FRAME_ROWS_MIN", 1)
    assert results(app(), events(3, 2 * ROWS), Run(tasks=2)) == wanted


@pytest.mark.parametrize(("piece", "is_merged"), in_turn([1, 10, 10**6], [False, True]))
def test_an_error_names_its_record_whatever_the_pieces(monkeypatch: Any, piece: int, is_merged: bool) -> None:
    """A value, a sum that leaves its range, and an expression behind it that fail name the record that brought them about."""
    rows = [{"user": "ann", "share": 0.0, "v": number, "text": "x", "ts": 100 + number} for number in range(20)]
    monkeypatch.setattr(every_row, "PIECE_ROWS", (piece, piece))
    for added, found, offset in (("10 div (v - 3)", "total", 3), (f"{2**62} + v", "total", 1), ("1", "total div (5 - rows)", 4)):
        app = sk.Topology("pieces")
        stream = app.stream("events")
        stream = stream.merge(stream.filter("v = 19")) if is_merged else stream
        sums = stream.group_by("user").windowed_by(MANY).agg(total=F.sum(F.expr(added)), rows=F.count("*"))
        sums.emit("every").select(found=F.expr(found)).to("changes")
        with pytest.raises(EvaluationError) as caught:
            results(app, rows)
        assert f"offset {offset}" in str(caught.value), (added, found, str(caught.value))


def in_windows(keys: list[str], oldest: list[int], windows: list[int]) -> RowsInWindows:
    """Rows with so many windows of 2 ms each, a millisecond apart, from the oldest on."""
    rows = pa.record_batch({"user": keys})
    return RowsInWindows(rows, Windowing(2, 1, 0, (0,), "store"), np.array(oldest), np.array(windows))


@pytest.mark.parametrize("rows_max", [1, 3, 7, 100])
def test_pieces_are_all_rows_in_order(rows_max: int) -> None:
    """Every row is in one piece; a piece has so many rows once a window, but for the windows of one row."""
    chance = random.Random(rows_max)
    for count in (1, 2, 30):
        windows = [chance.choice([0, 0, 1, 2, 5]) for _ in range(count)]
        pieces = in_windows(["ann"] * count, [0] * count, windows).in_pieces(rows_max)
        assert [row for piece in pieces for row in range(piece.start, piece.stop)] == list(range(count))
        for piece in pieces:
            assert sum(windows[piece]) < rows_max + max(windows)


def test_a_piece_grows_with_the_records_and_not_with_their_windows() -> None:
    """Rows that are many because their records are many come in larger pieces; those that are many because of windows in small ones."""
    least, most = every_row.PIECE_ROWS
    sizes = [every_row.piece_rows(records) for records in (1, 2 * least, 3 * least, 2 * most, 100 * most)]
    assert sizes == [least, least, 3 * least // 2, most, most]


def test_a_number_is_a_key_and_a_window() -> None:
    """Rows have the number of their group, each window the next; groups that are too far apart have none."""
    rows = in_windows(["ann", "bob", "ann"], [5, 7, 6], [2, 1, 2])
    numbers = GroupNumbers.of(cast(Any, SimpleNamespace(key=("user",))), rows)
    assert numbers is not None
    assert numbers.of_piece(slice(0, 3)).tolist() == [0, 1, 5, 1, 2]
    assert numbers.used([slice(0, 2), slice(2, 3)]).tolist() == [0, 1, 2, 5]
    far = in_windows(["ann", "bob", "cat", "dan"], [0, 1, 2, 2**61], [1, 1, 1, 1])
    assert GroupNumbers.of(cast(Any, SimpleNamespace(key=("user",))), far) is None


def test_a_piece_may_be_empty(monkeypatch: Any) -> None:
    """Records that are late for all their windows, in front of one that alone is more than a piece, are a piece without rows."""
    app = topology(MANY, "every")
    rows = [
        {"user": "ann", "share": 0.0, "v": number, "text": "x", "ts": ts}
        for number, ts in enumerate([500, 501, 502, 100, 120, 510])
    ]
    wanted = results(app, rows, Run(records_max=1))
    monkeypatch.setattr(every_row, "PIECE_ROWS", (1, 1))
    assert results(app, rows, Run(records_max=3)) == wanted
