"""Promises of groups to real processes, which are stopped and killed."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pytest

from streamkit.log.opening import open_log
from tests.kit.program import Program
from tests.kit.waiting import WAIT_SECONDS

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
BLOWS = 40 if IS_TORTURE else 2
SESSION_MS = 1_500 if IS_TORTURE else 600
LONG_MS = 120_000  # no member that anybody still asks is silent for so long, however busy the machine is
SETTLED_SECONDS = 10  # of which the session of a member that dies is three
ROWS = 4_000


class Member:
    """A member of the group g in a process of its own, in which `bugs` are planted."""

    bugs: tuple[str, ...] = ()

    def __init__(self, folder, **options):
        arguments = {"group": "g", "session_timeout_ms": SESSION_MS, "max_poll_records": 50, **options}
        self.process = Program("tests.unit.log.consume.group_process", str(folder), "t", json.dumps(arguments), *self.bugs)

    def tell(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def __call__(self, order):
        self.tell(order)
        return self.answer()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def until(self, is_so, seconds=WAIT_SECONDS):
        """Poll until the answer is so; all numbers that came meanwhile."""
        deadline, numbers = time.monotonic() + seconds, []
        while time.monotonic() < deadline:
            answer = self("poll")
            numbers += answer.get("numbers", [])
            if is_so(answer):
                return numbers
        pytest.fail(f"after {seconds} s the last answer is still {answer}")

    def commits(self, count):
        """Commit for so many partitions; a member that the machine lets sleep for a session has to join and poll once more."""
        while len(self("commit").get("committed", ())) != count:
            self.until(lambda answer: len(answer["partitions"]) == count)


@pytest.fixture
def folder(tmp_path):
    with open_log(tmp_path / "log") as log:
        log.create_topic("t", "n bigint", key="n", partitions=4)
        with log.producer() as producer:
            for start in range(0, ROWS, 500):
                producer.send_batch("t", pa.table({"n": range(start, start + 500)}))
    return tmp_path / "log"


@contextmanager
def members(folder, *options):
    """Members that are gone with the block, stopped or not."""
    with ExitStack() as stack:
        found = []
        for chosen in options:
            found.append(Member(folder, **chosen))
            stack.callback(found[-1].kill)
        yield found


def committed(folder):
    with open_log(folder) as log:
        return log.catalog.groups.committed_offsets("g").get(log.topic("t").id, {})


def test_a_member_stopped_past_its_session_cannot_commit(folder):
    """While it was stopped another has taken over and committed; woken, it is refused, and what was committed stands."""
    with members(folder, {}, {"session_timeout_ms": LONG_MS}) as (first, second):
        assert first("poll")["numbers"]
        first.signal(signal.SIGSTOP)
        second.until(lambda answer: len(answer["partitions"]) == 4)
        assert len(second("commit")["committed"]) == 4
        before = committed(folder)
        first.signal(signal.SIGCONT)

        assert first("commit") == {"error": "MembershipLostError", "partitions": [0, 1, 2, 3]}
        assert committed(folder) == before
        first.until(lambda answer: not answer["partitions"])
        second.until(lambda answer: len(answer["partitions"]) == 2)
        first.until(lambda answer: len(answer["partitions"]) == 2)
        first.commits(2)


def test_a_lone_member_stopped_past_its_session_cannot_commit(folder):
    """Nobody has missed it, and yet it is refused; then it joins again and goes on."""
    with members(folder, {}) as (alone,):
        assert alone("poll")["numbers"]
        alone.signal(signal.SIGSTOP)
        time.sleep(SESSION_MS / 1000 + 0.2)
        alone.signal(signal.SIGCONT)

        assert alone("commit")["error"] == "MembershipLostError"
        assert committed(folder) == {}
        alone.until(lambda answer: len(answer["partitions"]) == 4 and answer["numbers"])
        alone.commits(4)


def test_a_member_stopped_for_less_than_its_session_goes_on(folder):
    """A short pause is nobody's business."""
    with members(folder, {"session_timeout_ms": LONG_MS}, {"session_timeout_ms": LONG_MS}) as (first, second):
        first("poll")
        second("poll")
        first("poll")
        first.signal(signal.SIGSTOP)
        time.sleep(0.3)
        assert len(second("poll")["partitions"]) == 2
        first.signal(signal.SIGCONT)
        assert len(first("commit")["committed"]) == 2


def test_a_static_member_is_restarted_without_a_rebalance(folder):
    """Killed and started again within its session it has the same partitions, from what it committed; the other one notices nothing."""
    static = {"session_timeout_ms": LONG_MS}
    with members(folder, {"instance_id": "one", **static}, {"instance_id": "two", **static}) as (first, second):
        first("poll")
        second.until(lambda answer: first("poll") and len(answer["partitions"]) == 2)
        held, other = first("commit")["partitions"], second("commit")["partitions"]
        before, generation = committed(folder), generation_of(folder)
        first.kill()
        with members(folder, {"instance_id": "one", **static}) as (again,):
            assert again("poll")["partitions"] == held
            assert len(held) == 2 and not set(held) & set(other)
            assert (committed(folder), generation_of(folder)) == (before, generation)
            assert len(second("commit")["committed"]) == 2


def generation_of(folder):
    with open_log(folder) as log:
        return log.groups.describe("g").generation


@pytest.mark.timeout(3_600)
def test_work_goes_on_when_members_are_killed_and_stopped(folder, tmp_path, record_property):
    """Whoever dies or sleeps at whatever moment: every row is processed at least once, and in the end all is committed."""
    record_property("tried", {"members killed or stopped": BLOWS})
    sent, done = work_under_blows(folder, tmp_path, 3, BLOWS)
    assert sent <= done


def work_under_blows(folder, tmp_path, members, blows):
    """The numbers that were sent, and those that some member has processed, once everything is committed."""
    chance = random.Random(20)
    end = tmp_path / "end"
    with ExitStack() as stack:
        playing: list[Member] = []
        for number in range(members + blows):
            if len(playing) == members:
                time.sleep(chance.uniform(0.1, 0.8))
                victim = playing.pop(chance.randrange(members))
                if chance.random() < 0.5:
                    victim.kill()
                else:
                    victim.signal(signal.SIGSTOP)
                    threading.Timer(chance.uniform(0.5, 3), victim.signal, [signal.SIGCONT]).start()
            playing.append(Member(folder, max_poll_records=20))
            stack.callback(playing[-1].kill)
            playing[-1].tell(f"work {tmp_path / f'done-{number}'} {end}")
            produce(folder, ROWS + 500 * number)
        wait_until_committed(folder)
        end.touch()
        for member in playing:
            member.answer()
    done = [line for file in tmp_path.glob("done-*") for line in file.read_text().splitlines()]
    with open_log(folder) as log:
        sent = set(log.read("t", ["n"])["n"].to_pylist())
    return sent, {int(line) for line in done if line.isdigit()}


def produce(folder, start):
    with open_log(folder) as log, log.producer() as producer:
        producer.send_batch("t", pa.table({"n": range(start, start + 500)}))


def wait_until_committed(folder, seconds=WAIT_SECONDS):
    """Until the group has committed all there is; AssertionError if it commits nothing for so long."""
    with open_log(folder) as log:
        topic, before, deadline = log.topic("t").id, None, time.monotonic() + seconds
        while (found := log.catalog.groups.committed_offsets("g").get(topic)) != log.end_offsets("t"):
            if found != before:
                before, deadline = found, time.monotonic() + seconds
            assert time.monotonic() < deadline, log.groups.describe("g")
            time.sleep(0.01)


def test_sixteen_members_settle(tmp_path, record_property):
    """Sixteen members join at once, half of them leave, some die: each time everybody soon has a share, at full count within ten seconds."""
    folder = tmp_path / "log"
    with open_log(folder) as log:
        log.create_topic("t", "n bigint", key="n", partitions=32)
    stops = [threading.Event() for _ in range(16)]
    threads = [threading.Thread(target=take_part, args=(folder, stop, number % 4 == 3)) for number, stop in enumerate(stops)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    seconds = {"sixteen that join": settled_at(folder, 16) - begun}
    begun = time.monotonic()
    for stop in stops[:8]:
        stop.set()
    seconds["eight that stay"] = settled_at(folder, 8) - begun
    for stop in stops:
        stop.set()
    for thread in threads:
        thread.join()
    print("seconds until all have a share:", seconds)
    record_property("tried", {"members that settled": 24})
    if IS_TORTURE:  # else the machine may be busy with anything
        assert max(seconds.values()) <= SETTLED_SECONDS


def take_part(folder, stop, dies):
    """A member that leaves when it is told to, or dies: it is never heard of again, without leaving."""
    with open_log(folder) as log:
        consumer = log.consumer("t", "g", session_timeout_ms=2 * SESSION_MS)
        while not stop.is_set():
            consumer.poll(0.1)
        if dies:
            vars(consumer)["_heart"].stop()
        else:
            consumer.close()


def settled_at(folder, count, seconds=WAIT_SECONDS):
    """The moment when the group is stable, with so many members and an equal share for each."""
    deadline, found = time.monotonic() + seconds, None
    with open_log(folder) as log:
        while "g" not in log.groups.names() or not is_settled(found := log.groups.describe("g"), count):
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
    return time.monotonic()


def is_settled(group, count):
    return group.state == "Stable" and [member.partitions for member in group.members] == [32 // count] * count


def one_member_reads_all(folder):
    sent, done = work_under_blows(folder, folder.parent, 1, 0)
    assert sent <= done


BUGS = {  # and which promise they break
    "a member does not look how long it was silent": test_a_lone_member_stopped_past_its_session_cannot_commit,
    "whoever has been a member may commit": test_a_member_stopped_past_its_session_cannot_commit,
    "a member that takes over passes over a row": one_member_reads_all,
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_member_is_caught(bug, folder, monkeypatch):
    """Members that are wrong in one way break a promise."""
    monkeypatch.setattr(Member, "bugs", (bug,))
    with pytest.raises((AssertionError, KeyError)):  # no "error" where one was due
        BUGS[bug](folder)
