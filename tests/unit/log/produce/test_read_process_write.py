"""Promises of read, process, write: what a consumer read and what a producer wrote of it are committed together, or neither."""

from __future__ import annotations

import os
import random
import time
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, FencedError, StreamKitError
from streamkit.log.catalog import groups
from streamkit.log.opening import open_log
from streamkit.log.produce.outbox import Outbox
from tests.kit.program import Program

pytestmark = pytest.mark.usefixtures("slabs_in_files")

ROOT = Path(__file__).parents[4]
KILLS = 40 if os.environ.get("STREAMKIT_TORTURE") else 4
RECORDS = 3_000 if os.environ.get("STREAMKIT_TORTURE") else 400


@pytest.fixture
def log():
    found = open_log(":memory:", HandClock(1000))
    found.create_topic("input", "n bigint", key="n", partitions=3)
    found.create_topic("output", "n bigint, source bigint", partitions=2)
    with found.producer() as producer:
        producer.send_batch("input", pa.table({"n": range(100)}))
    return found


def committed(log, group):
    topic = log.topic("input")
    return log.catalog.groups.committed_offsets(group).get(topic.id, {})


def test_offsets_and_rows_are_one_commit(log):
    """Rows and positions of a transaction become visible together; of one that raises neither does, and it can be done again."""
    ends = log.end_offsets("input")
    producer = log.producer("copy")
    with pytest.raises(ZeroDivisionError), producer.transaction():
        producer.send_batch("output", [{"n": 1, "source": 1}])
        producer.send_offsets("g", {"input": ends})
        1 / 0
    assert (committed(log, "g"), log.read("output").num_rows) == ({}, 0)

    with producer.transaction():
        producer.send_batch("output", [{"n": 1, "source": 1}])
        producer.send_offsets("g", {"input": {0: 1}})
        producer.send_offsets("g", {"input": ends})
        assert committed(log, "g") == {}
    assert (committed(log, "g"), log.read("output").num_rows) == (ends, 1)


def test_offsets_alone_are_a_transaction(log):
    """A transaction that only moves positions is committed too; offsets outside of one are refused."""
    producer = log.producer()
    with producer.transaction():
        producer.send_offsets("g", {"input": {1: 5}})
    assert committed(log, "g") == {1: 5}
    with pytest.raises(ConfigError, match="inside a transaction"):
        producer.send_offsets("g", {"input": {1: 6}})
    with pytest.raises(ConfigError, match="has no offsets"), producer.transaction():
        producer.send_offsets("g")


def test_a_lost_partition_ends_the_transaction(log):
    """When the group has members, or the offset cannot be, nothing of the transaction is left: no row, no slab, no position."""
    slabs = log.storage.list("slabs")
    producer = log.producer()
    with log.consumer("input", group="g") as consumer:
        consumer.poll(timeout=5)
        for offsets, error in (({0: 1}, FencedError), ({0: 10_000}, StreamKitError)):
            with pytest.raises(error), producer.transaction():
                producer.send_batch("output", [{"n": 1, "source": 1}])
                producer.send_offsets("g", {"input": offsets})
        with producer.transaction():
            producer.send_batch("output", [{"n": 2, "source": 2}])
            producer.send_offsets(consumer)
    assert log.read("output")["n"].to_pylist() == [2]
    assert len(log.storage.list("slabs")) == len(slabs) + 1


LOOP = """
import sys
from streamkit.errors import FencedError, MembershipLostError
from streamkit.log.opening import open_log
from tests.kit.log_bugs import plant
for bug in sys.argv[2:]:
    plant(bug)
with open_log(sys.argv[1]) as log:
    producer = log.producer("copy")
    with log.consumer("input", group="copiers", instance_id="copy", max_poll_records=7) as consumer:
        print("ready", flush=True)
        while True:
            rows = consumer.poll(timeout=1)
            if rows is None:
                continue
            with producer.transaction():
                for row in rows.to_pylist():
                    producer.send("output", {"n": row["n"], "source": row["_offset"]})
                producer.send_offsets(consumer)
"""


@pytest.mark.timeout(3_600)
def test_a_loop_that_is_killed_copies_every_row_once(tmp_path, record_property):
    """A process that reads, copies and commits is killed again and again at any moment: in the end every row is there exactly once."""
    record_property("tried", {"kills of a loop that reads, processes and writes": KILLS})
    chance = random.Random(4)
    with open_log(tmp_path) as log:
        prepare(log, RECORDS)
        for _ in range(KILLS):
            with loop(tmp_path):
                time.sleep(chance.uniform(0.0, 0.4))
        with loop(tmp_path) as last:
            wait_until_read(log, last)
        assert sorted(log.read("output")["n"].to_pylist()) == list(range(RECORDS))


def prepare(log, records):
    log.create_topic("input", "n bigint", key="n", partitions=3)
    log.create_topic("output", "n bigint, source bigint", partitions=2)
    with log.producer() as producer:
        producer.send_batch("input", pa.table({"n": range(records)}))


@contextmanager
def loop(folder, *bug):
    """A process that copies rows, until it is killed."""
    child = Program(None, str(folder), *bug, code=LOOP)
    try:
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def wait_until_read(log, child):
    """Wait until all input was read, or the process has ended."""
    deadline = time.monotonic() + 120
    while committed(log, "copiers") != log.end_offsets("input") and child.poll() is None:
        assert time.monotonic() < deadline, "the loop does not come to its end"
        time.sleep(0.05)


def commit_what_is_taken_back(patch):
    patch(Outbox, "discard", Outbox.end)


def ask_no_member(patch):
    patch(groups, "_check_unattended", lambda *_: None)


IN_PROCESSES = ("offsets are committed before the rows of their transaction",)  # tests.kit.log_bugs
BUGS = {  # and which promise they break
    "what is taken back is committed": (commit_what_is_taken_back, test_offsets_and_rows_are_one_commit),
    "whoever knows its name may commit for a group": (ask_no_member, test_a_lost_partition_ends_the_transaction),
}


@pytest.mark.parametrize("bug", [*BUGS, *IN_PROCESSES])
def test_a_wrong_log_is_caught(bug, log, tmp_path, monkeypatch):
    """Each way to be wrong breaks a promise, in a process that dies of it too."""
    if bug in BUGS:
        plant, promise = BUGS[bug]
        plant(monkeypatch.setattr)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            promise(log)
    else:
        assert copied_by_wrong_loops(tmp_path, bug) != list(range(30))


def copied_by_wrong_loops(folder, bug):
    """The rows that arrive when the loop dies of its bug and is begun again."""
    with open_log(folder) as log:
        prepare(log, 30)
        while committed(log, "copiers") != log.end_offsets("input"):
            with loop(folder, bug) as child:
                wait_until_read(log, child)
        return sorted(log.read("output")["n"].to_pylist())
