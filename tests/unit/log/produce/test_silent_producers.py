"""Promises about slabs that nobody will commit: they are never visible, and they are collected."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamkit.errors import FencedError
from streamkit.log.maintenance.orphans import collect_all_orphans, collect_orphans
from streamkit.log.produce.draft import Draft, split
from streamkit.log.produce.receipt import Settlement
from streamkit.log.rows.records import records_of
from streamkit.names import producer_writer
from tests.kit.sampling import TAKES_ALL

pytestmark = pytest.mark.usefixtures("slabs_in_files")

DAY_MS = 86_400_000
ABANDONED = 1_000 if TAKES_ALL else 200


@pytest.fixture
def log(empty_log):
    empty_log.create_topic("t", "n bigint", partitions=1)
    return empty_log


def collect(log):
    return collect_all_orphans(log.storage, log.catalog)


def died_staging(log, number, name=None):
    """A producer that staged a slab and is never heard of again."""
    producer = log.producer(name)
    producer.send("t", {"n": number})
    producer._outbox._stage(producer._outbox._draft)
    return producer


def producers_in(log):
    return log.catalog.read(lambda transaction: transaction.execute("SELECT id, name, epoch FROM producer ORDER BY id"))


def test_slabs_of_the_dead_are_collected(log):
    """Many transactions are abandoned: no reader sees or waits for them, and after a day their slabs go; what was committed stays."""
    with log.producer() as producer:
        producer.send("t", {"n": 1})
    kept = log.storage.list("slabs")
    for number in range(ABANDONED):
        died_staging(log, number)
    assert log.read("t")["n"].to_pylist() == [1] and len(log.storage.list("slabs")) == 1 + ABANDONED
    log.clock.advance(DAY_MS)
    assert collect(log) == ()

    log.clock.advance(1)
    assert len(collect(log)) == ABANDONED
    assert log.storage.list("slabs") == kept and log.read("t")["n"].to_pylist() == [1]


def test_the_living_are_left_alone(log):
    """Whoever opened or committed within the day keeps its slabs, named or not; a named one keeps them for ever."""
    named = died_staging(log, 1, "p")
    quiet = log.producer()
    quiet.send("t", {"n": 2})
    quiet.flush()
    log.clock.advance(DAY_MS - 1)
    quiet.send("t", {"n": 3})
    quiet.flush()
    fresh = died_staging(log, 4)
    log.clock.advance(2)

    assert collect(log) == ()
    for producer in (named, fresh, quiet):
        producer.send("t", {"n": 5})
        producer.flush()
    assert sorted(log.read("t")["n"].to_pylist()) == [1, 2, 3, 4, 5, 5, 5]


@pytest.mark.every_catalog
def test_the_retired_are_fenced(log):
    """A producer that wakes up after it was retired cannot commit what it had staged: it is told, and its slab goes."""
    sleeper = died_staging(log, 1)
    log.clock.advance(DAY_MS + 1)
    collect(log)
    with pytest.raises(FencedError, match="was silent for so long that it was retired"):
        sleeper.flush()
    assert log.storage.list("slabs") == () and log.read("t").num_rows == 0


def test_the_retired_are_forgotten_in_time(log):
    """A slab that a retired producer still leaves is found; after a second day the producer is forgotten, and still fenced."""
    sleeper = died_staging(log, 1)
    draft = Draft(Settlement(), 100)
    log.clock.advance(DAY_MS + 1)
    collect(log)
    topic = log.topic("t")
    draft.add(topic, [split_of(topic, 2)], 1, None, 0)
    sleeper._session._seen_ms = log.clock.now_ms()  # it was stopped behind the look at its age
    sleeper._outbox._stage(draft)
    assert len(collect(log)) == 1 and len(producers_in(log)) == 1

    log.clock.advance(DAY_MS + 1)
    collect(log)
    assert producers_in(log) == []
    with pytest.raises(FencedError):
        sleeper._session.commit(draft)
    assert log.read("t").num_rows == 0


def split_of(topic, number):
    return split(topic, records_of(topic, [{"n": number}], 0)[0], 0)


def test_an_idle_producer_opens_anew(log):
    """A producer without a name that sends again after days of silence is not fenced by its retirement."""
    producer = log.producer()
    producer.send("t", {"n": 1})
    producer.flush()
    log.clock.advance(3 * DAY_MS)
    collect(log)
    producer.send("t", {"n": 2})
    producer.flush()
    assert log.read("t")["n"].to_pylist() == [1, 2]


def test_a_stage_that_comes_late_is_never_visible(log):
    """A slab that lands after its transaction was aborted belongs to no commit: later transactions do not adopt it, and it is collected."""
    producer = log.producer("p")
    late = Draft(Settlement(), 100)
    topic = log.topic("t")
    with pytest.raises(ZeroDivisionError), producer.transaction():
        producer.send("t", {"n": 1})
        1 / 0
    late.add(topic, [split_of(topic, 1)], 1, None, 0)
    producer._outbox._stage(late)
    with producer.transaction():
        producer.send_batch("t", pa.table({"n": [2]}))
    assert log.read("t")["n"].to_pylist() == [2] and len(log.storage.list("slabs")) == 2

    state = producer._session.open()
    assert collect_orphans(log.storage, log.catalog, producer_writer(state.id), state.epoch, state.serial) == (
        late.slabs[0].path,
    )
    assert log.read("t")["n"].to_pylist() == [2]
