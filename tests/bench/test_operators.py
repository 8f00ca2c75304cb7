"""Promises about the benchmark of operators: its rows exist, and its topologies do the work that they are compared by."""

from __future__ import annotations

from functools import partial

import pyarrow.compute as pc
import pytest

import streamkit as sk
from streamkit.engine.runs.compile import compile_with_settings
from tests.bench import hopping_memory, session_windows, stream_join, table_join, windowed, windowed_sql, word_count
from tests.bench.__main__ import WORKS, chosen_works
from tests.bench.one_key import fill_table
from tests.bench.operators import OPERATORS
from tests.bench.rates import EPOCHS, FILES_AN_EPOCH, medians, part_of
from tests.bench.rows import Rows, fill
from tests.kit.engine_run import fresh_log


def run(app, log, *, drain=False):
    sk.run(app, log=log, tasks=2, trigger=None if drain else "available_now", drain=drain, engine="local").wait()


def test_every_operator_has_its_row():
    """Without names all works run; `operators` stands for the seven of this page; each is one of them by its own name."""
    assert len(chosen_works([])) == len(WORKS) + len(OPERATORS)
    expected = {"word_count", "table_join", "stream_join", "session_windows", "emissions", "hopping_memory", "windowed_sql"}
    assert set(OPERATORS) == expected
    chosen = chosen_works(["operators", "word_count", "--fraction", "0.02"])
    sized = [work for work in chosen if isinstance(work, partial)]
    assert [work.func for work in sized] == list(OPERATORS.values())
    assert [work.keywords for work in sized] == [{"fraction": 0.02}] * len(chosen)
    connectors = chosen_works(["connect", "connect_memory", "--fraction", "0.5"])
    assert [work.keywords for work in connectors if isinstance(work, partial)] == [{"fraction": 0.5}] * 2


@pytest.mark.parametrize("arguments", [["windowed", "--fraction", "0.5"], ["operators", "--fraction", "0"], ["no_such_work"]])
def test_refused(arguments, capsys):
    """A fraction of works that take none, no records at all, and an unknown name end the program before it measures."""
    with pytest.raises(SystemExit):
        chosen_works(arguments)
    assert "expected" in capsys.readouterr().err


def test_parts():
    """A fraction of the records fills the files of all epochs evenly, and is never nothing."""
    assert part_of(5_000_000, 0.02) == 100_000
    assert part_of(5, 0.02) == EPOCHS * FILES_AN_EPOCH
    assert part_of(1_234_567, 1) % (EPOCHS * FILES_AN_EPOCH) == 0


def test_medians():
    """Sides take turns, either one first in every other round, and the first round is left out."""
    turns, values = [], iter((100, 100, 30, 3, 1, 10, 20, 2))

    def side(name):
        turns.append(name)
        return next(values)

    assert medians(side, side) == (2, 20)
    assert turns[:6] == ["ours-0", "theirs-0", "theirs-1", "ours-1", "ours-2", "theirs-2"]


def test_word_count():
    """Lines have eight words each, are made alike again, and all words are counted."""
    lines = word_count.Lines(500)
    (first, *_), (again, *_) = lines.batches(), lines.batches()
    assert first == again
    with fresh_log() as log:
        word_count.fill(log, lines)
        run(word_count.topology("words"), log)
        counts = log.read("words-counts")
    assert sum(counts["count"].to_pylist()) == 500 * word_count.WORDS_A_LINE
    assert counts.sort_by([("count", "descending")])["word"][0].as_py() == "w00000"


def test_table_join():
    """Every record finds its user."""
    with fresh_log() as log:
        fill(log, Rows(500, keys=20), partitions=2)
        fill_table(log, table_join.TABLE, 20)
        run(table_join.topology("table"), log)
        joined = log.read("table-joined")
    assert joined.num_rows == 500
    assert joined["users_name"].null_count == 0


def test_stream_join():
    """The pairs are those of the same user at most five seconds apart, which Spark's side joins too."""
    sides = [Rows(300, keys=10, seconds=100, seed=seed) for seed in (1, 2)]
    with fresh_log() as log:
        for topic, rows in zip(stream_join.SIDES, sides, strict=True):
            fill(log, rows, partitions=2, topic=topic)
        run(stream_join.topology("pairs"), log)
        joined = log.read("pairs-joined").num_rows
    left, right = (list(zip(*(column.to_pylist() for column in next(rows.batches()).columns), strict=True)) for rows in sides)
    pairs = [1 for user, _, at in left for other, _, then in right if user == other and abs((at - then).total_seconds()) <= 5]
    assert joined == len(pairs) > 0


def test_session_windows():
    """Each record is in one session, and some sessions have several."""
    with fresh_log() as log:
        fill(log, Rows(500, keys=20, seconds=600), partitions=2)
        run(session_windows.topology("sessions"), log, drain=True)
        sessions = log.read("sessions-totals")
    assert pc.sum(sessions["payments"]).as_py() == 500
    assert 20 < sessions.num_rows < 500


def test_windowed_in_sql():
    """The script makes the steps of the file of Python, which read and write the same topics."""
    with fresh_log() as log:
        fill(log, Rows(500, keys=5, seconds=120), partitions=2)
        script, python = (compile_with_settings(one.topology("same"), log) for one in (windowed_sql, windowed))
    assert script.fingerprint == python.fingerprint


def test_emissions():
    """`every` gives a row for each record that passes the filter; `latest` ends with the same totals."""
    with fresh_log() as log:
        fill(log, Rows(500, keys=5, seconds=120), partitions=2)
        for emission in ("every", "latest"):
            run(windowed.topology(emission, emission), log)
        every, latest = (log.read(f"{emission}-totals") for emission in ("every", "latest"))
    passing = sum(amount > 10 for amount in next(Rows(500, keys=5, seconds=120).batches())["amount"].to_pylist())
    assert every.num_rows == passing > latest.num_rows
    assert pc.sum(latest["payments"]).as_py() == passing


@pytest.mark.parametrize("windows", [1, hopping_memory.WINDOWS])
def test_hopping_memory(windows):
    """Each record is in as many windows as the row says, and late for none."""
    with fresh_log() as log:
        fill(log, hopping_memory.payments(50), partitions=2)
        run(hopping_memory.topology(hopping_memory.SIZE_SECONDS // windows, "every"), log)
        assert log.read("totals").num_rows == 50 * windows
