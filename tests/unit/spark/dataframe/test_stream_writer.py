"""Writing a stream to a topic: each batch of a query is there once, whatever dies and comes again."""

from __future__ import annotations

import pytest

from streamkit.errors import ConfigError, FencedError
from streamkit.failpoints import SimulatedCrash
from streamkit.log.catalog.catalog import CatalogProducers
from tests.unit.connectors.contract import dies
from tests.unit.spark.dataframe.conftest import Query, amounts, batch, write


@pytest.fixture
def query(source):
    """A query that writes to `copy` as the producer `totals`."""
    return Query(source("copy", id="totals"))


def test_batches(log, query):
    """Each batch becomes visible at its commit; one without rows, or without tasks, is no commit."""
    query.run(0, [batch(1)], [batch(2, 3)])
    query.run(1, [], [])
    query.run(2)
    query.run(3, [batch(4)])
    assert amounts(log) == [1, 2, 3, 4]


@pytest.mark.parametrize(("point", "found"), [("dataframe.staged", [1]), ("dataframe.committed", [1, 2])])
def test_death_at_the_commit(log, query, point, found):
    """Killed on either side of the commit, Spark repeats the batch: it is there once, and what lay about is deleted."""
    query.run(0, [batch(1)])
    with dies(point), pytest.raises(SimulatedCrash):
        query.run(1, [batch(2)])
    assert amounts(log) == found
    query.run(1, [batch(2)])
    query.run(2, [batch(3)])
    assert amounts(log) == [1, 2, 3]
    log.maintain()
    assert set(log.storage.list("slabs")) == log.catalog.manifest.referenced()


def test_repeated_batch_is_not_staged_again(log, query):
    """Tasks of a batch that was committed before write nothing."""
    query.run(0, [batch(1)])
    assert [message.slabs for message in query.staged(0, [[batch(1)]])] == [()]


def test_repeated_batch_of_other_rows(log, query):
    """A batch that was committed stays as it is, even if its source gives other rows when it is repeated."""
    planned = query.planned()  # before the commit, so that the tasks do not know of it
    query.run(0, [batch(1)])
    query.commit(0, query.staged(0, [[batch(9)]], planned))
    assert amounts(log) == [1]


def test_new_checkpoint(log, query, source):
    """
    Under the name of another query nothing is written, and the error says so.

    A new checkpoint begins at batch 0, which would be taken for the batch 0 that is written. The query of that name goes on.
    """
    query.run(0, [batch(1)])
    under_way = query.planned()
    other = Query(source("copy", id="totals"), query_id="b2")
    with pytest.raises(
        ConfigError, match="totals belongs to the streaming query a1, and this is the streaming query b2: a new checkpoint"
    ):
        other.run(0, [batch(7)])
    with pytest.raises(ConfigError, match="belongs to"):
        other.run(1, [batch(8)])
    query.commit(1, query.staged(1, [[batch(2)]], under_way))
    assert amounts(log) == [1, 2]


def test_two_new_queries(log, query, source):
    """Of two queries that take a name at the same time, one gets it, and none of the other's rows is there."""
    other = Query(source("copy", id="totals"), query_id="b2")
    ours, theirs = query.staged(0, [[batch(1)]]), other.staged(0, [[batch(2)]])
    query.commit(0, ours)
    with pytest.raises(ConfigError, match="belongs to the streaming query a1"):
        other.commit(0, theirs)
    assert amounts(log) == [1]


def test_batch_writes_under_the_same_name(log, query, source):
    """A batch write cannot take the name of a query, whether it counts or not."""
    query.run(0, [batch(1)])
    for options in ({}, {"sequence": "5"}):
        with pytest.raises(ConfigError, match="belongs to the streaming query a1, and this is batch writes"):
            write(source("copy", id="totals", **options), [batch(5)])
    assert amounts(log) == [1]


def test_zombie(log, query):
    """A driver that was taken for dead, and commits the batch after the one that took over, changes nothing."""
    query.run(0, [batch(1)])
    late = query.staged(1, [[batch(2)]])
    query.run(1, [batch(2)])
    query.commit(1, late)
    query.run(2, [batch(3)])
    stale = query.planned()
    with log.producer(id="totals"):
        pass  # whoever opens the producer fences what is under way
    with pytest.raises(FencedError):
        query.commit(3, query.staged(3, [[batch(4)]], stale))
    assert amounts(log) == [1, 2, 3]


def test_several_topics(log, source):
    """Two queries to two topics have a name each; the owners' topic is not listed among the user's."""
    log.create_topic("other", "user string, amount double")
    Query(source("copy", id="one"), "a1").run(0, [batch(1)])
    Query(source("other", id="two"), "b2").run(0, [batch(2)])
    assert (amounts(log), amounts(log, "other")) == ([1], [2])
    assert sorted(log.topics()) == ["copy", "orders", "other"]


def test_unknown_outcome(log, query, source, monkeypatch):
    """If nobody knows whether the commit took effect, the batch fails, and the repetition finds out."""
    commit = CatalogProducers.commit

    def lost(self, made):
        commit(self, made)
        raise ConnectionError("the answer was lost")

    monkeypatch.setattr(CatalogProducers, "commit", lost)
    with pytest.raises(ConnectionError):
        query.run(0, [batch(1)])
    monkeypatch.undo()
    query.run(0, [batch(1)])
    assert amounts(log) == [1]
