"""Retention drops what is old or too much, never what somebody needs, and nobody jumps over what is gone."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, OffsetOutOfRangeError, StreamKitError
from streamkit.log.catalog.applications import StoreDeclaration
from streamkit.log.catalog.epochs import EpochCommit
from streamkit.log.catalog.retention import EXTENTS_PER_PASS, AgedExtent, Head, expired_before
from streamkit.log.database.heartbeats import MemoryHeartbeats
from streamkit.log.database.pulse import LAPSE_MS
from streamkit.log.opening import open_log
from streamkit.log.topic.topic import declare_topic
from streamkit.log.upkeep import Upkeep
from streamkit.names import application_heartbeat, fresh_token
from tests.kit.sampling import examples
from tests.unit.log.catalog.aged import ANY_TIME, HOUR, NOW, append, offsets, start_of, topic_with

pytestmark = pytest.mark.usefixtures("slabs_in_files")


@pytest.fixture
def log(empty_log):
    return empty_log


def test_old_rows_go(log):
    """Rows older than retention.ms go, from the oldest on; a reader below is told the earliest offset, never given another."""
    topic_with(log, retention_ms=2 * HOUR)
    append(log, 5 * HOUR, 3 * HOUR, 1 * HOUR, 0)
    report = log.maintain()

    assert (report.dropped.extents, offsets(log), start_of(log)) == (2, [2, 3], 2)
    with pytest.raises(OffsetOutOfRangeError, match="offset 1 was deleted by retention; the earliest one left is 2"):
        log.read("t", start=1)
    assert log.catalog.manifest.check() == ()


def test_all_rows_go_if_all_are_old(log, clock, caplog):
    """As in Kafka, not even the newest row outlives retention.ms; the end stays, appending goes on, and a warning is logged."""
    topic_with(log, retention_ms=HOUR)
    append(log, 0, 0)
    clock.advance(2 * HOUR)
    with caplog.at_level(logging.WARNING):
        log.maintain()

    assert (offsets(log), start_of(log), log.end_offsets("t")) == ([], 2, {0: 2})
    assert "even its newest row is older than retention.ms" in caplog.text
    append(log, 0)
    assert offsets(log) == [2]


def test_row_from_the_future_holds_nothing_back(log, clock):
    """The age of a row counts from its commit if it claims to be from later, so a wrong time does not keep what is behind it."""
    topic_with(log, retention_ms=HOUR, **ANY_TIME)
    append(log, -1_000_000 * HOUR, 0)
    clock.advance(HOUR)
    append(log, 0)
    clock.advance(1)
    log.maintain()

    assert offsets(log) == [2]


def test_merge_does_not_make_rows_younger(log, clock):
    """What a merge writes is as old as what it was made of."""
    topic_with(log, retention_ms=HOUR, **ANY_TIME)
    append(log, *[-1_000_000 * HOUR] * 10)
    clock.advance(HOUR)
    log.merge("t")
    append(log, 0)
    clock.advance(1)
    log.maintain()

    assert offsets(log) == [10]


def test_clock_that_jumps_empties_the_log_slowly(log, clock, monkeypatch):
    """Ten years ahead, one pass drops a bounded number of extents, and only of topics with retention."""
    monkeypatch.setattr("streamkit.log.catalog.retention.EXTENTS_PER_PASS", 3)
    topic_with(log, retention_ms=HOUR)
    log.create_topic("kept", "v bigint", partitions=1, config={"retention.ms": -1})
    append(log, *[0] * 7)
    append(log, *[0] * 7, topic="kept")
    clock.advance(10 * 365 * 24 * HOUR)

    assert [log.maintain(["t", "kept"]).dropped.extents for _ in range(4)] == [3, 3, 1, 0]
    assert log.read("kept").num_rows == 7
    assert EXTENTS_PER_PASS == 1_000


def test_bytes_beyond_the_bound_go(log):
    """As in Kafka, as much goes as leaves at least retention.bytes."""
    topic_with(log, retention_ms=-1, retention_bytes=2_000)
    append(log, *range(10))
    sizes = [extent.length for extent in log.catalog.manifest.extents(log.topic("t").id, 0)]
    log.maintain()

    left = log.describe("t")["bytes"]
    assert left >= 2_000 > left - sizes[start_of(log) - 1]
    assert offsets(log)[-1] == 9


def test_compacted_topic_has_no_retention(log):
    """The policy compact keeps rows whatever their age; compact,delete does not."""
    for name, policy in (("kept", "compact"), ("t", "compact,delete")):
        config = {"cleanup.policy": policy, "retention.ms": HOUR}
        log.create_topic(name, "v bigint", "v", partitions=1, config=config)
        append(log, 9 * HOUR, 0, topic=name)
    log.maintain()

    assert log.read("kept").num_rows == 2 and offsets(log) == [1]


def test_lost_heartbeats_cost_an_application_nothing(log, clock):
    """An application that was never heard of, since heartbeats were lost or it only just starts, keeps its inputs for a minute."""
    topic_with(log, retention_ms=HOUR)
    append(log, *[5 * HOUR] * 3, 0)
    application(log)
    log.maintain()
    clock.advance(LAPSE_MS)
    log.maintain()
    assert offsets(log) == [0, 1, 2, 3]

    clock.advance(1)
    log.maintain()
    assert offsets(log) == [3]


def test_an_application_that_ended_holds_nothing_back(log, clock):
    """Once an application has ended, retention takes its unread input at once, and who it was is forgotten when it starts from scratch."""
    topic_with(log, retention_ms=HOUR)
    append(log, *[5 * HOUR] * 3, 0)
    state = application(log)
    with Upkeep(log, state.id, state.generation, 0):
        log.maintain()
        assert offsets(log) == [0, 1, 2, 3]
    log.maintain()
    assert offsets(log) == [3]

    application(log)
    log.maintain()
    assert application_heartbeat(state.id, state.generation) not in log.heartbeats.ages_ms("")


def test_heartbeats_that_cannot_be_kept_cost_nobody_anything(log, monkeypatch):
    """Where no heartbeat can be written for who was not heard of, as on a full disk, they count as alive, and the pass goes on."""
    topic_with(log, retention_ms=HOUR)
    append(log, *[5 * HOUR] * 3, 0)
    application(log)

    def refuse(*_names):
        raise StreamKitError("no room")

    monkeypatch.setattr(log.heartbeats, "beat", refuse)
    assert len(log.maintain().dropped.held_by) == 1
    assert offsets(log) == [0, 1, 2, 3]


def application(log, *, is_whole=False):
    store = StoreDeclaration("s", declare_topic("a-s-changelog", "key binary not null", "key", internal=True))
    return log.catalog.applications.start(
        "a", tasks=None, default_tasks=1, key_groups=1, program_hash="", stores=[store], inputs={log.topic("t").id: is_whole}
    )


def commit_epochs(log, state, *ends):
    """Epochs that move the application from one position in `t` to the next."""
    topic_id, before = log.topic("t").id, 0
    for number, end in enumerate(ends, 1):
        log.catalog.epochs.commit(
            EpochCommit(
                state.id, state.generation, number, fresh_token(), {topic_id: {0: before}}, {topic_id: {0: end}}, None,
                False, (), {}, 0,
            )
        )  # fmt: skip
        before = end


@pytest.mark.every_catalog
def test_running_application_keeps_what_it_needs(log, clock):
    """What an application has not read, or read in its last two epochs, stays while it runs, and only then (crash point 32)."""
    topic_with(log, retention_ms=HOUR)
    append(log, *[5 * HOUR] * 10, 0)
    state = application(log)
    commit_epochs(log, state, 3, 5, 8)
    name = application_heartbeat(state.id, state.generation)
    log.heartbeats.beat(name)
    report = log.maintain()
    assert (offsets(log)[0], report.dropped.held_by) == (3, (name,))

    clock.advance(LAPSE_MS + 1)
    log.maintain()
    assert offsets(log) == [10]


@pytest.mark.parametrize("is_whole", [False, True])
def test_inputs_are_kept_from_the_start(log, clock, is_whole):
    """An application that has not committed an epoch needs all of its inputs, and global tables whole for ever."""
    topic_with(log, retention_ms=HOUR)
    append(log, *[5 * HOUR] * 5)
    state = application(log, is_whole=is_whole)
    log.heartbeats.beat(application_heartbeat(state.id, state.generation))
    log.maintain()
    assert len(offsets(log)) == 5

    if not is_whole:
        commit_epochs(log, state, 3, 4, 5)
    log.maintain()
    assert len(offsets(log)) == (5 if is_whole else 2)


def test_first_epochs_are_kept_whole(log):
    """Up to its second epoch, an application may need everything it has read."""
    topic_with(log, retention_ms=HOUR)
    append(log, *[5 * HOUR] * 5)
    state = application(log)
    commit_epochs(log, state, 3, 5)
    log.heartbeats.beat(application_heartbeat(state.id, state.generation))
    log.maintain()

    assert len(offsets(log)) == 5


def test_delete_records_deletes_exactly_these(log):
    """Rows before the offset go, inside a frame too; the others keep their offsets, and the end stays."""
    topic_with(log)
    with log.producer() as producer:
        producer.send_batch("t", [{"v": number} for number in range(10)])
        producer.flush()
        producer.send_batch("t", [{"v": number} for number in range(10, 15)])

    assert log.delete_records("t", {0: 4}) == {0: 4}
    assert log.read("t")["v"].to_pylist() == list(range(4, 15))
    assert log.delete_records("t", 10) == {0: 10}
    assert log.delete_records("t", 2) == {0: 10}
    assert log.delete_records("t", -1) == {0: 15}
    assert (offsets(log), log.end_offsets("t")) == ([], {0: 15})
    assert log.catalog.manifest.check() == ()


def test_delete_records_asks_those_who_need_them(log):
    """Rows that a pin needs are deleted by force alone; an offset behind the end is refused."""
    topic_with(log)
    append(log, 0, 0, 0)
    with log.pin("t", start=1):
        with pytest.raises(ConfigError, match=r"rows before offset 2 are still needed, from .*pin.* on"):
            log.delete_records("t", 2)
        assert offsets(log) == [0, 1, 2]
        assert log.delete_records("t", 1) == {0: 1}
        assert log.delete_records("t", 2, force=True) == {0: 2}
    with pytest.raises(OffsetOutOfRangeError, match="offset 4 of partition 0"):
        log.delete_records("t", 4)


def test_scan_that_retention_overtakes_is_told(log, clock):
    """A scan whose rows were dropped reads on while their files are there, and is told the earliest offset when they are not."""
    topic_with(log, retention_ms=HOUR)
    append(log, *[0] * 4)
    before, after = log.scan("t"), log.scan("t")
    next(before), next(after)
    clock.advance(2 * HOUR)
    append(log, 0)
    log.maintain()
    assert sum(batch.num_rows for batch in before) == 3

    clock.advance(log.settings.file_delete_delay_ms + 1)
    assert log.maintain().files_deleted == 4
    with pytest.raises(OffsetOutOfRangeError, match="the earliest one left is 4"):
        list(after)


EXTENTS = st.lists(st.builds(AgedExtent, st.just(0), st.integers(1, 100), st.integers(0, 100)), max_size=12)


@examples(200)
@given(EXTENTS, st.integers(-1, 100), st.integers(-1, 500), st.integers(0, 100))
def test_decision_is_kafkas(found, retention_ms, retention_bytes, now_ms):
    """An extent goes if it and all before it are too old, or as many bytes as the bound are behind it."""
    extents = tuple(AgedExtent(number, extent.bytes, extent.time_ms) for number, extent in enumerate(found, 1))
    topic = declare_topic("t", "v int", config={"retention.ms": retention_ms, "retention.bytes": retention_bytes})
    before = expired_before(topic, Head(extents, sum(extent.bytes for extent in extents), 0), now_ms)

    for extent in extents:
        behind = sum(other.bytes for other in extents if other.next_offset > extent.next_offset)
        may_go = 0 <= retention_ms < now_ms - extent.time_ms or 0 <= retention_bytes <= behind
        assert may_go or before < extent.next_offset
        if before < extent.next_offset:
            assert not may_go or any(other.next_offset == before + 1 for other in extents)
            break


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("pin"), st.integers(0, 30)),
        st.tuples(st.just("release"), st.integers(0, 3)),
        st.tuples(st.just("read"), st.integers(1, 9)),
        st.tuples(st.just("merge"), st.just(0)),
        st.tuples(st.just("maintain"), st.integers(0, 2)),
    ),
    max_size=25,
)


@examples(60)
@given(MOVES)
def test_no_floor_is_ever_passed(moves):
    """Whatever is appended, pinned, read and merged: every row that somebody needs is there after each pass."""
    clock = HandClock(NOW)
    with open_log(":memory:", clock) as log:
        log.heartbeats = MemoryHeartbeats(clock)
        topic_with(log, retention_ms=HOUR)
        state, ends, pins = application(log), [0], []
        log.heartbeats.beat(application_heartbeat(state.id, state.generation))
        for move, number in moves:
            end = log.end_offsets("t")[0]
            if move == "append":
                append(log, *[number * HOUR] * number)
            elif move == "pin" and start_of(log) <= min(number, end):
                pins.append((min(number, end), log.pin("t", start=min(number, end))))
            elif move == "release" and number < len(pins):
                pins.pop(number)[1].release()
            elif move == "read" and end > ends[-1]:
                commit_next(log, state, ends, min(end, max(ends[-1], start_of(log)) + number))
            elif move == "merge":
                log.merge("t")
            elif move == "maintain":
                there, needed = (
                    offsets(log),
                    min([*(offset for offset, _ in pins), *ends[-3:-2], *([0] if len(ends) == 2 else [])], default=end),
                )
                clock.advance(number * LAPSE_MS // 4)
                log.heartbeats.beat(*log.heartbeats.ages_ms(""))
                log.maintain()
                assert {offset for offset in there if offset >= needed} <= set(offsets(log))
            assert offsets(log) == list(range(start_of(log), log.end_offsets("t")[0]))
        for _, pin in pins:
            pin.release()


def commit_next(log, state, ends, end):
    topic_id = log.topic("t").id
    log.catalog.epochs.commit(
        EpochCommit(
            state.id,
            state.generation,
            len(ends),
            fresh_token(),
            {topic_id: {0: ends[-1]}},
            {topic_id: {0: end}},
            None,
            False,
            (),
            {},
            0,
        )
    )
    ends.append(end)
