"""What a script of SQL changes in the catalog comes whole or not at all, and only if nothing else came in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamkit.errors import TopicExistsError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.catalog.producers import ProducerCommit
from streamkit.log.catalog.sql_changes import CHANGES_KEPT, SqlChange, SqlMovedError, SqlObjects
from streamkit.log.catalog.sql_queries import PAUSED, StoredQuery
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.catalog.sql_types import StoredType
from streamkit.log.rows.records import records_of
from streamkit.log.slab.slab import write_slab
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.topic import declare_topic
from streamkit.names import SlabName, fresh_token, producer_writer
from streamkit.schema import Schema

CLICKS = StoredSource(
    "clicks", "stream", "clicks", ({"name": "user", "type": "string", "role": "key"}, {"name": "page", "type": "string", "role": ""}),
    ("user",), "CREATE STREAM clicks …", "ksql", {"value": "json", "settings": {"a": 1}}, "at", {"kind": "session"}, True,
)  # fmt: skip
COUNTS = StoredSource(
    "counts", "table", "counts", ({"name": "n", "type": "bigint", "role": ""},), ("user",), "CREATE", query="CTAS_COUNTS_1"
)
QUERY = StoredQuery(
    "CTAS_COUNTS_1", 1, "CREATE TABLE counts AS …", "counts", ("clicks",), "sql-1", "ksql", {"a": "b"}, PAUSED, 3, ""
)
MONEY = StoredType("money", "decimal(9,2)")
TOPIC = declare_topic("counts", "user string, n bigint", "user", partitions=2)
pytestmark = pytest.mark.every_catalog


def change(log, **what):
    found = log.catalog.sql.objects()
    return SqlChange(fresh_token(), found.change, found.numbers + len(what.get("queries", ())), **what)


@pytest.fixture
def log(empty_log):
    return empty_log


def test_a_change_is_read_as_it_was_written(log):
    """Sources, queries, types and topics of a script are there behind it, with all that was said of them."""
    assert log.catalog.sql.objects() == SqlObjects()
    log.catalog.sql.commit(change(log, sources=(COUNTS, CLICKS), queries=(QUERY,), types=(MONEY,), created_topics=(TOPIC,)))

    assert log.catalog.sql.objects() == SqlObjects((CLICKS, COUNTS), (QUERY,), (MONEY,), 1, 1)
    assert log.topic("counts").declaration == TOPIC
    assert log.catalog.sql.last_number() == 1


def test_values_take_the_place_of_those_of_their_names(log):
    """A later script replaces what has the name, and drops what it says, with topics and applications."""
    log.catalog.sql.commit(change(log, sources=(CLICKS, COUNTS), queries=(QUERY,), types=(MONEY,), created_topics=(TOPIC,)))
    log.catalog.applications.start("sql-1", tasks=1, default_tasks=1, key_groups=8, program_hash="1", stores=[])
    clicks = replace(CLICKS, columns=CLICKS.columns[:1], is_read_only=False)
    log.catalog.sql.commit(
        change(
            log, sources=(clicks,), dropped_sources=("counts",), dropped_queries=(QUERY.id,), dropped_types=("money",), ended=("sql-1",),
            deleted_topics=("counts",),
        )
    )  # fmt: skip

    assert log.catalog.sql.objects() == SqlObjects((clicks,), (), (), 2, 1)
    assert log.topics() == [] and log.catalog.applications.every() == []


def test_topics_are_altered_with_it(log):
    """A column that a script adds to a topic is there with the script's sources."""
    log.create_topic("counts", "user string, n bigint", key="user", partitions=2)
    log.catalog.sql.commit(
        change(
            log, sources=(COUNTS,), altered_topics=(("counts", Alteration(schema=Schema.parse("user string, n bigint, m int"))),)
        )
    )

    assert log.topic("counts").schema.names == ("user", "n", "m")


def test_rows_are_appended_with_it(log):
    """Rows that a script inserts into a topic that it creates are there with the topic, or neither is."""
    producer = log.catalog.producers.open(None)

    def appended(topics):
        name = SlabName(producer_writer(producer.id), producer.epoch, 1, fresh_token())
        (rows,) = records_of(topics["counts"], [{"user": "ann", "n": 3}], 1_000)
        slab = write_slab(log.storage, name, [(topics["counts"].id, 1, rows)], inline_bytes_max=1 << 20)
        return ProducerCommit(producer.id, producer.epoch, 1, fresh_token(), (slab,))

    planned = change(log, created_topics=(TOPIC,), appended=appended)
    with pytest.raises(SimulatedCrash), armed("sql.written", _die):
        log.catalog.sql.commit(planned)
    assert log.topics() == []
    log.catalog.sql.commit(planned)

    assert log.read("counts", ["user", "n"]).select(["user", "n"]).to_pylist() == [{"user": "ann", "n": 3}]


def _die():
    raise SimulatedCrash


def test_a_script_that_was_checked_before_another_is_refused(log):
    """What another script changed since is not written over; nothing of the refused one is left."""
    first = change(log, sources=(CLICKS,))
    second = change(log, sources=(COUNTS,), created_topics=(TOPIC,))
    log.catalog.sql.commit(first)
    with pytest.raises(SqlMovedError, match="checked against change 0 of the catalog, and 1 has been made since"):
        log.catalog.sql.commit(second)

    assert log.catalog.sql.objects().sources == (CLICKS,) and log.topics() == []


def test_a_change_is_made_once(log):
    """A change that is committed again, as after a lost answer, changes nothing more."""
    planned = change(log, sources=(CLICKS,), queries=(replace(QUERY, sink="clicks"),))
    log.catalog.sql.commit(planned)
    log.catalog.sql.commit(planned)

    assert log.catalog.sql.last_number() == 1


@pytest.mark.parametrize("point", ["sql.dropped", "sql.written"])
def test_death_within_a_change_leaves_nothing(log, point):
    """Whoever dies before the commit has changed nothing: no topic, no source, no application is gone."""
    log.catalog.sql.commit(change(log, sources=(CLICKS,), created_topics=(TOPIC,)))
    before = log.catalog.sql.objects()
    planned = change(
        log,
        sources=(COUNTS,),
        dropped_sources=("clicks",),
        deleted_topics=("counts",),
        created_topics=(replace(TOPIC, name="m"),),
    )
    with pytest.raises(SimulatedCrash), armed(point, _die):
        log.catalog.sql.commit(planned)

    assert log.catalog.sql.objects() == before and log.topics() == ["counts"]


def test_a_topic_that_is_there_and_differs_refuses_all(log):
    """TopicExistsError of one topic leaves nothing of the script."""
    log.create_topic("counts", "other string")
    with pytest.raises(TopicExistsError):
        log.catalog.sql.commit(change(log, sources=(CLICKS,), created_topics=(replace(TOPIC, name="first"), TOPIC)))

    assert log.catalog.sql.objects() == SqlObjects() and log.topics() == ["counts"]


def test_a_failure_is_noted_for_the_version_that_failed(log):
    """What ended a run is on record until the query changes; a runner of an older version notes nothing."""
    log.catalog.sql.commit(change(log, sources=(COUNTS,), queries=(QUERY,)))
    log.catalog.sql.note_failure(QUERY.application, QUERY.id, QUERY.version - 1, "old")
    assert log.catalog.sql.objects().queries == (QUERY,)
    log.catalog.sql.note_failure(QUERY.application, QUERY.id, QUERY.version, "division by zero")

    assert log.catalog.sql.objects().queries == (replace(QUERY, failure="division by zero"),)


def test_old_changes_are_forgotten(log):
    """The catalog remembers the tokens of so many changes, and not of all since the beginning."""
    for _ in range(3):
        log.catalog.sql.commit(change(log))
    with log.catalog.database.write() as transaction:
        transaction.execute("UPDATE sql_change SET number = number + ? WHERE number = 3", (CHANGES_KEPT,))
    log.catalog.sql.commit(change(log))
    with log.catalog.database.read() as transaction:
        numbers = [number for (number,) in transaction.execute("SELECT number FROM sql_change ORDER BY number")]

    assert numbers == [CHANGES_KEPT + 3, CHANGES_KEPT + 4]


def test_a_change_that_was_compared_with_a_state(log):
    """It is made only if no other run has begun since; 0 says that there was none."""
    log.catalog.sql.commit(change(log, types=(MONEY,), seen=(("sql-1", 0),)))
    with pytest.raises(SqlMovedError, match="the application sql-1 has started since"):
        log.catalog.sql.commit(change(log, dropped_types=("money",), seen=(("sql-1", 1),)))
    assert log.catalog.sql.objects().types == (MONEY,)
