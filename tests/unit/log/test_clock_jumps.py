"""Promises of a log whose clock jumps, stands still and goes back: nothing that is to stay is lost, and nothing comes twice."""

from __future__ import annotations

import os
from random import Random

import pytest

from streamkit.clock import HandClock
from streamkit.errors import FencedError, StreamKitError
from streamkit.log.catalog.catalog import CatalogManifest, CatalogProducers
from streamkit.log.catalog.noun import writes_now
from streamkit.log.maintenance import compaction, survivors
from streamkit.log.opening import open_log
from streamkit.log.rescue.findings import ERROR
from streamkit.log.topic.settings import SettingValue
from tests.unit.log.conftest import NOW_MS

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
JUMPS = {
    "an hour on": lambda now_ms: now_ms + HOUR_MS,
    "an hour back": lambda now_ms: now_ms - HOUR_MS,
    "a year on": lambda now_ms: now_ms + YEAR_MS,
    "a year back": lambda now_ms: now_ms - YEAR_MS,
    "to 1970": lambda _: 0,
    "to 2038": lambda _: (1 << 31) * 1000,
    "to 2106": lambda _: (1 << 32) * 1000,
    "to the right time": lambda _: NOW_MS,
    "a millisecond on": lambda now_ms: now_ms + 1,
}
STEPS, SEEDS = (400, 60) if os.environ.get("STREAMKIT_TORTURE") else (120, 1)
TOPICS = {"kept": "delete", "keyed": "compact"}


class Model:
    """A log under a clock that jumps, and what its topics hold."""

    def __init__(self, folder, seed):
        self.random = Random(seed)
        self.clock = HandClock(NOW_MS)
        self.log = open_log(folder, self.clock)
        self.sent: dict[str, list[dict[str, int]]] = {topic: [] for topic in TOPICS}
        self.delivered: list[int] = []
        for topic, policy in TOPICS.items():
            settings: dict[str, SettingValue] = {
                "cleanup.policy": policy,
                "retention.ms": -1,
                "min.cleanable.dirty.ratio": 0,
                "segment.ms": 1,
            }
            self.log.create_topic(topic, "k int, v int", key="k", partitions=1, config=settings)
        self.producers = [self.log.producer(), self.log.producer("named")]
        self.consumer = self.log.consumer("kept", group="readers")

    def send(self):
        """A producer without a name that maintenance took for silent, by a clock far ahead, is told so; its rows go with a new one."""
        number = self.random.randrange(2)
        rows = {topic: [{"k": self.random.randrange(5), "v": len(sent)}] for topic, sent in self.sent.items()}
        try:
            self.send_with(self.producers[number], rows)
        except FencedError:
            assert number == 0
            self.producers[number] = self.log.producer()
            self.send_with(self.producers[number], rows)
        for topic, sent in self.sent.items():
            sent += rows[topic]

    def send_with(self, producer, rows):
        for topic, batch in rows.items():
            producer.send_batch(topic, batch)
        producer.flush()

    def jump(self):
        self.clock.time_ms = max(0, self.random.choice(list(JUMPS.values()))(self.clock.time_ms))

    def maintain(self):
        self.log.maintain()

    def reopen_named(self):
        """A new start of the named producer deletes what its last one has left."""
        self.producers[1].close()
        self.producers[1] = self.log.producer("named")

    def poll(self):
        rows = self.consumer.poll(timeout=0)
        self.delivered += [] if rows is None else rows["v"].to_pylist()
        self.consumer.commit()

    def check(self):
        """Rows and folds are what was sent; the check of the log finds nothing."""
        for topic, sent in self.sent.items():
            rows = self.log.read(topic).to_pylist()
            found = {row["_offset"]: row["v"] for row in rows}
            assert found.items() <= dict(enumerate(range(len(sent)))).items()
            assert {row["k"]: row["v"] for row in rows} == {row["k"]: row["v"] for row in sent}
            assert topic != "kept" or len(rows) == len(sent)
        assert self.log.catalog.manifest.check() == ()

    def finish(self):
        while len(self.delivered) < len(self.sent["kept"]):
            before = len(self.delivered)
            self.poll()
            assert len(self.delivered) > before
        assert self.delivered == list(range(len(self.sent["kept"])))
        for producer in self.producers:
            producer.close()
        self.consumer.close()
        assert [finding for finding in self.log.fsck(deep=True).findings if finding.severity == ERROR] == []
        self.log.close()


def play(folder, seed):
    model = Model(folder, seed)
    steps = [model.send, model.jump, model.maintain] * 4 + [model.poll, model.reopen_named]
    for _ in range(STEPS):
        model.random.choice(steps)()
        model.check()
    model.finish()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost(seed, tmp_path, record_property):
    """Whatever the clock says while rows are sent, read, merged, compacted and collected, all of them are there, once."""
    play(tmp_path / "log", seed)
    record_property("tried", {"steps under a clock that jumps": STEPS})


def believe_the_clock_about_slabs(patch):
    """What was appended later than now does not count yet."""

    def by_now(noun, *_):
        statement, now_ms = "SELECT path FROM slab WHERE appended_ms <= ?", noun.transactions.now_ms()
        return {path for (path,) in noun.transactions.read(lambda transaction: transaction.execute(statement, (now_ms,)))}

    patch(CatalogManifest, "referenced", by_now)
    patch(CatalogManifest, "slabs", by_now)


def believe_the_clock_about_keys(patch):
    """Of each key the record with the latest time stays, not the last one."""
    original = survivors.select_survivors

    def select_survivors(storage, topic, extents, *arguments):
        by_time = sorted(extents, key=lambda extent: extent.max_timestamp)
        selections = original(storage, topic, by_time, *arguments)
        return sorted(selections, key=lambda selection: selection.extent.base_offset)

    patch(compaction, "select_survivors", select_survivors)


def believe_the_clock_about_producers(patch):
    """Whoever was silent for long by the clock is retired, with a name or without."""

    def retire_silent(transaction, now_ms, silent_ms):
        transaction.execute("UPDATE producer SET epoch = epoch + 1, seen_ms = ? WHERE seen_ms < ?", (now_ms, now_ms - silent_ms))

    patch(CatalogProducers, "retire_silent", writes_now(retire_silent))


BUGS = {
    "a slab of later than now is an orphan": believe_the_clock_about_slabs,
    "compaction keeps the latest instead of the last": believe_the_clock_about_keys,
    "a producer with a name is retired too": believe_the_clock_about_producers,
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_log_that_believes_the_clock_is_caught(bug, tmp_path, monkeypatch):
    """Each place that would take the clock's word for what came first, or for who is gone, loses something."""
    BUGS[bug](monkeypatch.setattr)
    with pytest.raises((AssertionError, StreamKitError)):
        play(tmp_path / "log", 0)
