"""Epochs that are bounded in bytes, and rows that are counted on their way: none is lost where texts are too long together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import chunks
from streamkit.clock import HandClock
from streamkit.engine.epoch import frame_sizes, frame_times
from streamkit.engine.rows import exchange
from streamkit.engine.rows.rows import concatenate
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.errors import ColumnTooLargeError, EpochFailedError
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.opening import open_log
from streamkit.log.slab.slab import read_rows
from tests.kit.sampling import TAKES_ALL, in_turn

PATIENT = {"retention.ms": "-1"}
START = 1_600_000_000_000


def log_with(batches, schema="k string, v string", **config):
    """A log in memory with these batches in a topic, a frame each."""
    log = open_log(IN_MEMORY, HandClock(START))
    log.create_topic("texts", schema, key="k", partitions=1, config={**PATIENT, "max.message.bytes": 2**31 - 1, **config})
    with log.producer() as producer:
        for batch in batches:
            producer.send_batch("texts", batch, timestamp_ms=START)
            producer.flush()
    return log


def copied():
    """Texts that are counted by key, and copied."""
    app = sk.Topology("copy")
    app.stream("texts").to("copies")
    app.stream("texts").group_by("k").count(store="counts").emit("every").to("counts")
    return app


def epochs_of(log, bytes_max, tasks=1, app=None, records_max=None):
    """How many records each epoch took, with such bounds."""
    program = compile_with_settings(app or copied(), log, None)
    settings = replace(log.settings, max_bytes_per_epoch=bytes_max)
    planner = start(log.catalog, log.storage, program, tasks=tasks, settings=settings, clock=log.clock, records_max=records_max)
    run_available(planner)
    state = log.catalog.applications.get("copy")
    return [epoch.metrics.get("records", 0) for epoch in log.catalog.epochs.last(state.id)]


def rows(lengths):
    return [{"k": f"k{number % 3}", "v": "x" * length} for number, length in enumerate(lengths)]


@pytest.mark.parametrize(("frame", "compression"), in_turn([1, 3, 100], ["none", "zstd"]))
def test_an_epoch_takes_as_many_bytes_as_it_may(frame, compression):
    """Each epoch takes records while they have room, at least one; all arrive, whatever the frames, their compression and dictionaries."""
    lengths = [1_000] * 40 + [9_000] + [1_000] * 9
    sent = rows(lengths)
    with log_with([sent[at : at + frame] for at in range(0, 50, frame)], **{"compression.type": compression}) as log:
        taken = epochs_of(log, 5_200)
        assert sum(taken) == 50 and all(count <= 5 for count in taken)
        assert 1 in taken  # the large one is alone
        assert log.read("copies")["v"].to_pylist() == [row["v"] for row in sent]


def test_repeated_texts_count_for_each_row():
    """An entry of a dictionary counts for each row that has it, since operators may make plain columns of it."""
    sent = [{"k": f"k{number % 3}", "v": "x" * 10_000} for number in range(300)]
    with log_with([sent]) as log:
        assert max(epochs_of(log, 1_000_000)) <= 100


@pytest.mark.parametrize(("bytes_max", "for_sizes"), [(1 << 30, 0), (50_000, 0), (39_999, 1), (2_100, 1)])
def test_many_small_epochs_open_a_frame_once(bytes_max, for_sizes, monkeypatch):
    """Its times are read once, however many epochs are cut off it; its sizes only if there may be no room for all of its rows."""
    opened: Counter[str] = Counter()

    def counting(kind, *arguments):
        opened[kind] += 1
        return read_rows(*arguments)

    monkeypatch.setattr(frame_times, "read_rows", partial(counting, "times"))
    monkeypatch.setattr(frame_sizes, "read_rows", partial(counting, "sizes"))
    with log_with([rows([1_000] * 40)]) as log:
        taken = epochs_of(log, bytes_max, records_max=3)
        assert sum(taken) == 40 and max(taken) == (2 if bytes_max < 3_000 else 3)
        assert opened["times"] == 1
        assert min(opened["sizes"], 1) == for_sizes


@pytest.mark.parametrize("tasks", [1, 3])
def test_results_do_not_depend_on_the_bound(tasks):
    """The same rows come out with any bound."""
    found = []
    for bytes_max in (1, 3_000, 1 << 30) if TAKES_ALL else (1 if tasks == 3 else 3_000, 1 << 30):
        with log_with([rows(range(0, 900, 30 if TAKES_ALL else 60))]) as log:
            epochs_of(log, bytes_max, tasks)
            kept = [{name: row[name] for name in ("k", "count")} for row in log.read("counts").to_pylist()]
            found.append((sorted(map(str, kept)), sorted(log.read("copies")["v"].to_pylist())))
    assert all(one == found[0] for one in found)


def test_texts_that_are_too_long_together_are_an_error(monkeypatch):
    """If a column would overflow all the same, the run ends with an error that names the setting, and nothing is lost or committed."""
    monkeypatch.setattr(chunks, "COLUMN_BYTES_MAX", 20_000)
    with log_with([rows([1_000] * 20), rows([1_000] * 20)]) as log:
        with pytest.raises(ColumnTooLargeError, match="max_bytes_per_epoch"):
            epochs_of(log, 1 << 30)
        assert log.catalog.applications.get("copy").epoch == 0
    with log_with([rows([1_000] * 20), rows([1_000] * 20)]) as log:
        assert sum(epochs_of(log, 10_000)) == 40


def test_rows_that_do_not_arrive_are_an_error(monkeypatch):
    """Rows of which a kernel takes fewer than were sent fail the epoch, and so do rows that an operator gave and no slab has."""
    with log_with([rows([10] * 20)]) as log:
        monkeypatch.setattr(exchange, "concatenate", lambda batches: concatenate(batches).slice(1))
        with pytest.raises(EpochFailedError, match=r"rows were sent to task 0 by edge \d, and it received"):
            epochs_of(log, 1 << 30)
        assert log.catalog.applications.get("copy").epoch == 0


def test_chunks_are_gathered_whole():
    """Gathering gives all rows or an error, and pieces of any column where one batch has no room."""
    table = pa.concat_tables([pa.table({"a": ["x" * 10] * 3, "b": [[1, 2]] * 3})] * 4)
    assert chunks.one_batch(table).num_rows == 12
    assert chunks.one_batch(table.slice(0, 0)).num_rows == 0
    assert [batch.num_rows for batch in chunks.few_batches(table)] == [12]


@pytest.mark.parametrize("name", ["a", "b"])
def test_chunks_without_room_are_an_error(name, monkeypatch):
    """The error names the column; in few batches all rows are there, in their order."""
    monkeypatch.setattr(chunks, "COLUMN_BYTES_MAX", 50)
    table = pa.table({name: pa.chunked_array([[text * 10] if name == "a" else [[text] * 10] for text in "abcdefghijkl"])})
    with pytest.raises(ColumnTooLargeError, match=f"of {name} in 12 rows"):
        chunks.one_batch(table)
    pieces = chunks.few_batches(table)
    assert len(pieces) > 1 and pa.Table.from_batches(pieces).equals(table.combine_chunks())


@pytest.mark.skipif(not TAKES_ALL, reason="it takes 10 GiB: only under torture")
def test_more_than_two_gib_of_texts():
    """42,000 texts of 64 KiB in one task are all there, in one epoch of a bound beyond 2 GiB an error."""
    batches = [[{"k": f"k{number % 3}", "v": chr(97 + number % 7) * 65_536} for number in range(500)] for _ in range(84)]
    with log_with(batches) as log:
        assert sum(epochs_of(log, 1 << 30)) == 42_000
        assert sum(log.read("counts", columns=["count"])["count"].to_pylist()) > 0
