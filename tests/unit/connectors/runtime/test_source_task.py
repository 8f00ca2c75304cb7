"""A task of a source: what it commits, and when the source hears of it."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.connectors import Polled, Source
from streamkit.connectors.runtime.positions import change_positions, read_positions
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError
from streamkit.failpoints import SimulatedCrash
from tests.unit.connectors.contract import dies

ENDS = [2, 2, 5]  # of the rows, after each poll: the second brings none


class Counting(Source):
    """Brings numbers, in polls that end at `ENDS`; every other poll finds nothing yet."""

    HEARD: ClassVar[list[int]] = []
    OPENED: ClassVar[list[int]] = []

    def splits(self):
        return ["all-0"]

    def open(self, positions):
        self.polls = 0 if positions["all-0"] is None else positions["all-0"]["polls"]
        self.is_silent = False
        self.OPENED.append(self.polls)

    def poll(self, timeout):
        self.is_silent = not self.is_silent
        if self.is_silent or self.is_at_end():
            return None
        first, end = [0, *ENDS][self.polls : self.polls + 2]
        self.polls += 1
        tables = {"numbers": pa.table({"n": range(first, end)})} if end > first else {}
        return Polled(tables, {"all-0": {"polls": self.polls}})

    def is_at_end(self):
        return self.polls == len(ENDS)

    def committed(self, positions):
        self.HEARD.append(positions["all-0"]["polls"])


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setattr(Counting, "HEARD", [])
    monkeypatch.setattr(Counting, "OPENED", [])
    with sk.open_log(tmp_path / "log") as log:
        yield log


def bring(log, **config):
    SourceTask(Counting("in", {"topic": "numbers", **config}), 0, 1, log, is_once=True).run(Orders())


def test_a_poll_without_rows_commits_its_position(log):
    """A position moves also where there was nothing to bring, and the task goes on behind it."""
    with dies("connect.polled", 3), pytest.raises(SimulatedCrash):
        bring(log)
    assert read_positions(log, "in") == {"all-0": {"polls": 2}}
    bring(log)
    assert Counting.OPENED == [0, 2]
    assert log.read("numbers")["n"].to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("point", ["connect.staged", "connect.committed"])
def test_a_source_hears_only_of_what_is_committed(log, point):
    """A source that may forget what is committed is told behind the commit: a task that dies before has told it nothing."""
    with dies(point), pytest.raises(SimulatedCrash):
        bring(log)
    assert Counting.HEARD == []
    bring(log)
    assert Counting.HEARD[-1] == len(ENDS)
    assert log.read("numbers")["n"].to_pylist() == [0, 1, 2, 3, 4]


def test_a_poll_that_is_refused_whole_leaves_its_dead_letters(log):
    """Where no record of a poll comes through, their dead letters are written all the same, with the position."""
    cast = {"transforms": "t", "transforms.t.type": "Cast$Value", "transforms.t.spec": "n:int8"}
    log.create_topic("numbers", "n string")
    bring(log, **cast, **{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"})
    assert log.read("numbers").num_rows == 0
    assert log.read("bad").num_rows == 5
    assert read_positions(log, "in") == {"all-0": {"polls": 3}}


def test_positions_are_a_connector_s_own_until_they_are_forgotten(log):
    """Other connectors have splits of the same names; a position that was reset is not there any more, and all is brought again."""
    bring(log)
    change_positions(log, "other", {"all-0": {"polls": 9}})
    assert read_positions(log, "in") == {"all-0": {"polls": 3}}
    change_positions(log, "in", {"all-0": None})
    assert (read_positions(log, "in"), read_positions(log, "other")) == ({}, {"all-0": {"polls": 9}})
    bring(log)
    assert log.read("numbers").num_rows == 10


class Renewed(Counting):
    """Is another thing from its third poll on."""

    def identities(self, splits):
        return dict.fromkeys(splits, "new" if getattr(self, "polls", 0) > 1 else "old")


@pytest.mark.parametrize(("mode", "error"), [("fail", ConfigError), ("begin", ConnectionError)])
def test_what_is_made_again_while_the_task_runs(log, monkeypatch, mode, error):
    """Nothing that comes from another thing of the name is committed behind the position; the next start decides with that in view."""
    monkeypatch.setattr("streamkit.connectors.runtime.source_task.IDENTITY_SECONDS", 0.0)
    task = SourceTask(Renewed("in", {"topic": "numbers", "recreated.mode": mode}), 0, 1, log, is_once=True)
    with pytest.raises(error, match="was deleted and made again"):
        task.run(Orders())
    assert read_positions(log, "in") == {"all-0": {"polls": 1, "identity": "old"}}
    assert log.read("numbers")["n"].to_pylist() == [0, 1]
