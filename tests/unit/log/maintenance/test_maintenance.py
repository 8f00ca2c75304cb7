"""A pass of maintenance makes room before it needs some, and nothing that goes wrong keeps the rest from its turn."""

from __future__ import annotations

import errno
import logging
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from streamkit.errors import (
    CorruptionError,
    FencedError,
    NotEnoughReplicasError,
    SchemaError,
    StorageFailedError,
    StorageFullError,
    StreamKitError,
    TopicNotFoundError,
)
from streamkit.log.maintenance import maintenance
from streamkit.log.maintenance.merge import Merged, merge_topic
from streamkit.log.opening import open_log
from streamkit.log.storage import storage

pytestmark = pytest.mark.usefixtures("slabs_in_files")

HOUR = 3_600_000
NEVER_MS = 1 << 62


def append(log, topic, count):
    """One commit a row."""
    with log.producer() as producer:
        for number in range(count):
            producer.send(topic, {"v": number})
            producer.flush()


def append_keyed(log, policy):
    """A topic `k` of two partitions that are both to be merged, or compacted in the background at once."""
    settings = {"cleanup.policy": policy, "retention.ms": -1, "min.cleanable.dirty.ratio": 0, "segment.ms": 1}
    log.create_topic("k", "k int, v bigint", "k", partitions=2, config=settings)
    with log.producer() as producer:
        for number in range(40):
            producer.send("k", {"k": number % 20, "v": number})
            producer.flush()
    log.clock.advance(2)


def damage(log, extent):
    """Turn one bit in the middle of a frame."""
    path = Path(log.root) / extent.path
    data = bytearray(path.read_bytes())
    data[extent.position + extent.length // 2] ^= 1
    path.unlink()
    path.write_bytes(data)


@pytest.fixture
def log(tmp_path, clock):
    """A log with eight files that are due in the trash, ten of topic `a` that are to be merged, and a topic `b` that is expired."""
    with open_log(tmp_path / "log", clock) as log:
        for name, retention_ms in (("a", -1), ("b", HOUR)):
            log.create_topic(name, "v bigint", partitions=1, config={"retention.ms": retention_ms})
        append(log, "b", 8)
        log.merge("b")
        clock.advance(2 * HOUR)
        append(log, "a", 10)
        yield log


def extents(log, topic, partition=0):
    return len(log.catalog.manifest.extents(log.topic(topic).id, partition))


def test_a_full_disk_is_freed(log, clock, monkeypatch):
    """Where nothing can be written, the trash goes and retention drops; what was dropped goes in its time, until there is room."""

    def refuse(descriptor, parts):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "_write_fully", refuse)
        with pytest.raises(StorageFullError):
            log.maintain()
        assert (len(log.catalog.manifest.trash(NEVER_MS)), extents(log, "b"), extents(log, "a")) == (1, 0, 10)

        clock.advance(log.settings.file_delete_delay_ms + 1)
        with pytest.raises(StorageFullError):
            log.maintain()
        assert log.catalog.manifest.trash(NEVER_MS) == [] and len(log.storage.list("slabs")) == 10
    assert log.maintain().merged.extents >= 8


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_full_disk_is_not_tried_over_and_over(log, monkeypatch, policy):
    """After the first write that finds no room, a pass writes nothing more, of no other partition and no other topic."""
    append_keyed(log, policy)
    tried = []

    def refuse(path, parts):
        tried.append(path)
        raise StorageFullError("no room")

    monkeypatch.setattr(log.storage, "create", refuse)
    for work in (lambda: log.maintain(["k", "a"]), lambda: log.compact("k") if policy == "compact" else log.merge("k")):
        with pytest.raises(StorageFullError):
            work()
    assert len(tried) == 2


@pytest.mark.parametrize("kind", [NotEnoughReplicasError, SchemaError, CorruptionError, StorageFailedError])
def test_a_topic_that_fails_keeps_no_other(log, monkeypatch, kind):
    """Whatever keeps one topic from being merged, the others are maintained, and the error is raised in the end."""
    append(log, "b", 8)

    def merged(catalog, topic, writer):
        if topic.name == "a":
            raise kind("on purpose")
        return merge_topic(catalog, topic, writer)

    monkeypatch.setattr(maintenance, "merge_topic", merged)
    with pytest.raises(kind, match="on purpose"):
        log.maintain()
    assert (log.read("b")["_offset"].to_pylist(), extents(log, "b")) == (list(range(8, 16)), 1)


def test_the_others_that_failed_are_told_of(log, monkeypatch, caplog):
    """The first error is raised, and a note says what else failed, as does the log of the process; nothing else is printed."""

    def merged(catalog, topic, writer):
        raise CorruptionError(f"topic {topic.name} is damaged")

    monkeypatch.setattr(maintenance, "merge_topic", merged)
    monkeypatch.setattr(maintenance, "empty_trash", lambda *_: merged(None, log.topic("b"), None))
    with caplog.at_level(logging.INFO), pytest.raises(CorruptionError, match="topic b is damaged") as raised:
        log.maintain()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING and "failed" in record.getMessage()]
    assert "the emptying of the trash failed: topic b is damaged" in caplog.text
    if sys.version_info >= (3, 11):
        assert raised.value.__notes__ == ["2 more failed: topic a is damaged; topic b is damaged"]


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_damaged_partition_keeps_no_other(log, policy):
    """One damaged frame in a partition, and the other partitions of its topic are compacted and merged all the same."""
    append_keyed(log, policy)
    before = [extents(log, "k", partition) for partition in (0, 1)]
    damage(log, log.catalog.manifest.extents(log.topic("k").id, 0)[0])

    for work in (log.compact if policy == "compact" else log.merge, lambda name: log.maintain([name])):
        with pytest.raises(CorruptionError, match="topic k, partition 0, offset 0"):
            work("k")
    assert min(before) > 8 and extents(log, "k", 0) == before[0] and extents(log, "k", 1) < 8


def test_heartbeats_that_cannot_be_read_keep_nobody_s_rows_from_staying(log, clock, monkeypatch):
    """Where nobody knows who is gone, everybody counts as alive: what nobody needs goes, the rest of the pass is done, and it is said."""
    append(log, "b", 2)
    clock.advance(2 * HOUR)
    log.catalog.pins.insert("somebody", {log.topic("b").id: {0: 8}})

    def refuse(prefix):
        raise StreamKitError("the heartbeats cannot be used")

    monkeypatch.setattr(log.heartbeats, "ages_ms", refuse)
    with pytest.raises(StreamKitError, match="the heartbeats cannot be used"):
        log.maintain()
    assert log.read("b")["_offset"].to_pylist() == [8, 9] and extents(log, "a") < 10


ENDS = [FencedError("a newer one"), StreamKitError("the catalog cannot be reached")]


@pytest.mark.parametrize("error", [*ENDS, TopicNotFoundError("it was deleted")], ids=lambda error: type(error).__name__)
def test_what_ends_a_pass(log, monkeypatch, error):
    """Fencing, or a catalog that is away, ends a pass at once; a topic that is deleted meanwhile does not, and is no failure."""
    tried = []

    def merged(catalog, topic, writer):
        tried.append(topic.name)
        if topic.name == "a":
            raise error
        return Merged()

    monkeypatch.setattr(maintenance, "merge_topic", merged)
    with pytest.raises(type(error)) if error in ENDS else nullcontext():
        log.maintain()
    assert tried == (["a"] if error in ENDS else ["a", "b"])
