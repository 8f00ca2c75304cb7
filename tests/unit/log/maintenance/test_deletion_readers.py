"""
Promises to those who read a compacted topic: no deletion goes before they have seen it, and who stayed away too long is told.

Under STREAMKIT_TORTURE=1 with 500 sequences of 60 steps, else with 30 of 30.
"""

from __future__ import annotations

import logging
import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from streamkit.clock import HandClock
from streamkit.errors import StreamKitError
from streamkit.failpoints import armed
from streamkit.log.catalog import cleaning, replacements
from streamkit.log.catalog.cleaning import OFFSETS_RETENTION_MS, Cleaning
from streamkit.log.opening import open_log
from streamkit.log.topic.settings import SettingValue

pytestmark = pytest.mark.usefixtures("slabs_in_files")

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
RETENTION_MS = 1_000
NOW_MS = 10 * OFFSETS_RETENTION_MS
CONFIG: dict[str, SettingValue] = {"cleanup.policy": "compact", "delete.retention.ms": RETENTION_MS}
WARNING = "compaction has removed deletions before offset"


@pytest.fixture
def log():
    with open_log(":memory:", HandClock(NOW_MS)) as log:
        log.create_topic("t", "k string, v bigint", key="k", partitions=1, config=CONFIG)
        yield log


def put(log, *pairs):
    """Append (key, value) in one commit; a value of None deletes."""
    with log.producer() as producer:
        for key, value in pairs:
            producer.delete("t", {"k": key}) if value is None else producer.send("t", {"k": key, "v": value})


def keys(log):
    return log.read("t")["k"].to_pylist()


def commit(log, offset, group="g", topic="t"):
    """What a group's consumer commits when it has read so far."""
    with log.producer() as producer, producer.transaction():
        producer.send_offsets(group, {topic: {0: offset}})


def purge(log):
    """Two passes with the time between them after which nobody has a promise of Kafka's any more."""
    log.compact("t")
    log.clock.advance(RETENTION_MS)
    log.compact("t")


def test_a_lagging_group_keeps_its_deletions(log):
    """A deletion that a group has not read stays, however long ago it was cleaned; when the group has, it goes."""
    put(log, ("a", 1), ("b", 1), ("a", None))
    commit(log, 2)
    for _ in range(3):
        purge(log)
        assert keys(log) == ["b", "a"]
    commit(log, 3)
    purge(log)
    assert keys(log) == ["b"]


def test_every_group_counts(log):
    """The group that lags most decides, and one that has committed the beginning has read nothing and needs nothing."""
    put(log, ("a", 1), ("b", 1), ("a", None), ("b", None))
    for group, offset in (("beginning", 0), ("first", 3), ("second", 4)):
        commit(log, offset, group)
    purge(log)
    assert keys(log) == ["b"]


def test_a_group_that_is_gone_keeps_nothing(log, caplog):
    """Seven days after its last commit, anywhere, a group counts for dead; when it comes back it is warned, once."""
    log.create_topic("other", "v bigint", partitions=1)
    put(log, ("a", 1), ("b", 1), ("a", None), ("c", 1), ("d", 1))
    commit(log, 2)
    log.clock.advance(OFFSETS_RETENTION_MS - 1)
    commit(log, 0, topic="other")
    log.clock.advance(OFFSETS_RETENTION_MS - RETENTION_MS - 1)
    purge(log)
    assert "a" in keys(log)

    log.clock.advance(1)
    purge(log)
    assert "a" not in keys(log)
    with caplog.at_level(logging.WARNING), log.consumer("t", "g", max_poll_records=1) as consumer:
        assert [consumer.poll(0)["k"].to_pylist() for _ in range(2)] == [["c"], ["d"]]
    assert caplog.text.count(f"reading goes on at offset 2, and {WARNING} 3 for good") == 1


def test_a_group_that_comes_meanwhile_counts(log):
    """A group that commits for the first time between the choice of what goes and the swap keeps it."""
    put(log, ("a", 1), ("b", 1), ("a", None))
    log.compact("t")
    log.clock.advance(RETENTION_MS)
    left = [lambda: commit(log, 2)]
    with armed("compaction.slab_durable", lambda: left.pop()() if left else None):
        log.compact("t")

    assert (left, keys(log)) == ([], ["b", "a"])
    assert set(log.storage.list("slabs")) == {*log.catalog.manifest.slabs(), *log.catalog.manifest.trash(1 << 62)}


def test_whoever_begins_at_the_start_is_not_warned(log, caplog):
    """Reading a topic from its beginning misses nothing, in however many polls, and is no cause for a warning."""
    put(log, ("a", 1), ("b", 1), ("a", None), ("c", 1), ("d", None), ("d", None))
    purge(log)
    with caplog.at_level(logging.WARNING):
        with log.consumer("t", max_poll_records=1) as consumer:
            assert [consumer.poll(0)["k"].to_pylist() for _ in range(2)] == [["b"], ["c"]]
            assert consumer.poll(0) is None
        assert keys(log) == ["b", "c"]
        assert log.read("t", start=0).num_rows == 2
    assert WARNING not in caplog.text


def test_a_reader_that_is_overtaken_is_warned(log, caplog):
    """A consumer without a group, and a read that goes on at its own position, are told when deletions went ahead of them."""
    put(log, ("a", 1), ("b", 1))
    put(log, ("c", 1), ("a", None))
    with log.consumer("t", max_poll_records=2) as consumer, caplog.at_level(logging.WARNING):
        assert consumer.poll(0)["k"].to_pylist() == ["a", "b"]
        purge(log)
        assert caplog.text == ""
        assert consumer.poll(0)["k"].to_pylist() == ["c"]
        assert caplog.text.count(f"topic t, partition 0: reading goes on at offset 2, and {WARNING} 4 for good") == 1
        caplog.clear()
        assert log.read("t", start=2)["k"].to_pylist() == ["c"]
        assert caplog.text.count(f"reading goes on at offset 2, and {WARNING} 4 for good") == 1
        caplog.clear()
        assert log.read("t", start=4).num_rows == 0
        assert caplog.text == ""


KEYS = st.sampled_from("abcd")


class ReadersMachine(RuleBasedStateMachine):
    """Puts, deletions and passes, and two groups that keep a table each, one behind the other; the model is a dict."""

    @initialize()
    def open(self):
        self.clock = HandClock(NOW_MS)
        self.log = open_log(":memory:", self.clock)
        self.log.create_topic("t", "k string, v bigint", key="k", partitions=1, config=CONFIG)
        self.model = {}
        self.tables: dict[str, dict[str, int]] = {"quick": {}, "slow": {}}
        self.value = 0

    def teardown(self):
        if hasattr(self, "log"):
            for group, table in self.tables.items():
                self._read(group, 1_000)
                assert table == self.model, group
            self.log.close()

    @rule(key=KEYS)
    def put(self, key):
        """A new value of a key."""
        self.value += 1
        self.model[key] = self.value
        put(self.log, (key, self.value))

    @rule(key=KEYS)
    def delete(self, key):
        """The deletion of a key, whether it is there or not."""
        self.model.pop(key, None)
        put(self.log, (key, None))

    @rule(share=st.sampled_from([1, 2, 3]))
    def wait(self, share):
        """Time passes: a third of what deletions are kept for, up to all of it."""
        self.clock.advance(-(-RETENTION_MS * share // 3))

    @rule()
    def compact(self):
        """A pass over everything."""
        self.log.compact("t")

    @rule()
    def purge(self):
        """Passes with all the time between them that deletions are kept for."""
        purge(self.log)

    @rule()
    def merge(self):
        """Small files become larger ones."""
        self.log.merge("t")

    @rule(records=st.integers(1, 6))
    def read_quickly(self, records):
        """A group reads on for a while."""
        self._read("quick", records)

    @rule()
    def read_slowly(self):
        """The other one reads a record."""
        self._read("slow", 1)

    def _read(self, group, records):
        table = self.tables[group]
        with self.log.consumer("t", group, max_poll_records=records) as consumer:
            found = consumer.poll(0)
            for row in [] if found is None else found.to_pylist():
                table.pop(row["k"], None)
                if not row.get("_deleted"):
                    table[row["k"]] = row["v"]
            consumer.commit()

    @invariant()
    def log_is_the_model(self):
        """Whoever reads from the beginning finds what the model holds."""
        if hasattr(self, "log"):
            found: dict[str, int] = {}
            for row in self.log.read("t", ["k", "v", "_deleted"]).to_pylist():
                found.pop(row["k"], None)
                if not row["_deleted"]:
                    found[row["k"]] = row["v"]
            assert found == self.model


def test_groups_end_where_the_model_is():
    """Whatever is written, deleted, compacted and read in whatever order: a group that reads to the end holds what is there."""
    run_state_machine_as_test(
        ReadersMachine,
        settings=settings(
            max_examples=500 if IS_TORTURE else 10,
            stateful_step_count=60 if IS_TORTURE else 30,
            deadline=None,
            derandomize=not IS_TORTURE,
            suppress_health_check=list(HealthCheck),
        ),
    )


def read_behind_a_deletion(machine):
    """A group reads a value, and goes on when the deletion behind it may long have gone."""
    machine.put("a")
    machine.put("b")
    machine.read_slowly()
    machine.delete("a")
    machine.purge()


def read_between_two_passes(machine):
    """A group begins to read when a pass has put the horizon behind a deletion, and little time has gone by since."""
    machine.put("a")
    machine.put("b")
    machine.read_slowly()
    machine.read_quickly(6)
    machine.delete("a")
    machine.compact()
    machine.compact()


def play(script):
    """A sequence of steps that was chosen by hand, with all that the machine looks at."""
    machine = ReadersMachine()
    machine.open()
    try:
        script(machine)
        machine.log_is_the_model()
    finally:
        machine.teardown()


def forget_groups(patch):
    original = cleaning.readers
    patch(cleaning, "readers", lambda *place: [found for found in original(*place) if not found[0].startswith("consumer group")])


def begin_a_pass_once(patch):
    """Who reads is asked when a pass begins, and not when what it wrote is swapped in."""
    patch(replacements, "_check_readers", lambda *_: None)


def drop_at_once(patch):
    patch(Cleaning, "droppable_below", lambda cleaning, *_: cleaning.next_offset)


BUGS = {  # and where they show
    "groups are not asked what they have read": (forget_groups, lambda log: play(read_behind_a_deletion)),
    "groups that come during a pass are not asked": (begin_a_pass_once, test_a_group_that_comes_meanwhile_counts),
    "deletions go at once": (drop_at_once, lambda log: play(read_between_two_passes)),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_compaction_is_caught(bug, log, monkeypatch):
    """A compaction that is wrong in one way is found out by steps that a sound one takes."""
    plant, harness = BUGS[bug]
    play(read_behind_a_deletion)
    play(read_between_two_passes)

    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError)):
        harness(log)
