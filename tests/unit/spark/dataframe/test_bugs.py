"""Writers that are wrong on purpose are seen to lose rows, to double them, or to take them from another query."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamkit.errors import ConfigError, FencedError
from streamkit.failpoints import SimulatedCrash
from streamkit.log.catalog import producers
from streamkit.spark.dataframe import batch_reader, commit, scan, stream_writer
from tests.unit.connectors.contract import dies
from tests.unit.spark.dataframe.conftest import ROW, WRITTEN, Query, amounts, batch, read, staged


def keeps_its_promises(log, source):
    """A query that dies on both sides of commits, beside one that must not write and a driver that is late."""
    query = Query(source("copy", id="totals"))
    query.run(0, [batch(1)], [batch(2)])
    for number, point in enumerate(("dataframe.staged", "dataframe.committed"), 1):
        with dies(point), pytest.raises(SimulatedCrash):
            query.run(number, [batch(10 * number)])
        query.run(number, [batch(10 * number)])
    with pytest.raises(ConfigError):
        Query(source("copy", id="totals"), query_id="b2").run(5, [batch(7)])
    late = query.staged(3, [[batch(30)]])
    query.run(3, [batch(30)])
    query.commit(3, late)
    assert amounts(log) == [1, 2, 10, 20, 30]
    (first, messages), (second, others) = (staged(source("copy", id="jobs").writer(WRITTEN, False), [batch(at)]) for at in (3, 4))
    first.commit(messages)
    with pytest.raises(FencedError):
        second.commit(others)
    assert amounts(log) == [1, 2, 3, 10, 20, 30]
    assert len(read(source("orders", endingOffsets='{"0": 2}'), ROW)) == log.read("orders", end={0: 2}).num_rows


def no_sequence(monkeypatch):
    monkeypatch.setattr(producers, "_record_sequence", lambda *given: None)


def no_owner(monkeypatch):
    monkeypatch.setattr(commit, "_check_owner", lambda *given: False)


def no_turn(monkeypatch):
    monkeypatch.setattr(producers, "check_turn", lambda *given: None)


def first_task_only(monkeypatch):
    def committed(log, topic, producer, owner, sequence, slabs):
        return commit.commit_write(log, topic, producer, owner, sequence, slabs[:1])

    monkeypatch.setattr(stream_writer, "commit_write", committed)


def every_batch_known(monkeypatch):
    monkeypatch.setattr(stream_writer, "plan_write", lambda *given: replace(commit.plan_write(*given), last_sequence=99))


def no_end(monkeypatch):
    def planned(log, topic, schema, start, end, *rest):
        return scan.plan_scan(log, topic, schema, start, {}, *rest)

    monkeypatch.setattr(batch_reader, "plan_scan", planned)


BUGS = {
    "a batch is committed without its number": no_sequence,
    "nobody asks whose the name is": no_owner,
    "a job is committed though another was since": no_turn,
    "only the first task's rows are committed": first_task_only,
    "tasks take their batch for one that is known": every_batch_known,
    "a read forgets where to end": no_end,
}


def test_promises(log, source):
    """Without a bug, all that is promised holds."""
    keeps_its_promises(log, source)


@pytest.mark.parametrize("bug", BUGS)
def test_bug_is_seen(log, source, bug, monkeypatch):
    """Each bug breaks a promise."""
    BUGS[bug](monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, FencedError)):
        keeps_its_promises(log, source)
