"""Promises of the checker: it finds each anomaly in a history that was made to have it, and none in a sound one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.kit.checker import check
from tests.kit.history import ABORTED, FAILED, OK, UNKNOWN, History, Journal, Seen, Sent, checksum_of, read_journals

PLACES = ((("a", 0), 2), (("a", 1), 1), (("b", 0), 2))


def sound():
    """Producer 1 sent to two topics in batch 1, and to one in batch 2; a reader saw the first alone, then both."""
    log = {("a", 0): [(0, (1, 1)), (1, (1, 4))], ("a", 1): [(0, (1, 2))], ("b", 0): [(0, (1, 3)), (1, (1, 5))]}
    first = Sent(1, 1, {"a": [1, 2], "b": [3]}, OK, 10, 20, {"a": {"0": [0, 1], "1": [0, 1]}, "b": {"0": [0, 1]}})
    second = Sent(1, 2, {"a": [4], "b": [5]}, OK, 30, 40)
    history = History([first, second], [], log)
    history.seen = [seen_at(history, 25, a=(1, 1), b=(1,)), seen_at(history, 45, a=(2, 1), b=(2,))]
    return history


def seen_at(history, begun_ns, reader=1, **ends):
    by_topic = {topic: {str(partition): end for partition, end in enumerate(chosen)} for topic, chosen in ends.items()}
    checksums = {
        topic: {
            partition: checksum_of(row for offset, row in history.log[topic, int(partition)] if offset < end)
            for partition, end in chosen.items()
        }
        for topic, chosen in by_topic.items()
    }
    return Seen(reader, begun_ns, begun_ns + 1, by_topic, checksums)


def test_a_sound_history_is_accepted():
    """What a sound log gives has no anomaly."""
    assert check(sound()) == []
    assert check(History()) == []


@pytest.mark.parametrize("outcome", [OK, UNKNOWN])
def test_what_is_unknown_may_be_there(outcome):
    """An attempt of unknown outcome that came through is no anomaly, and is none when a later attempt was acknowledged."""
    history = sound()
    history.sent.insert(0, replace(history.sent[1], outcome=UNKNOWN, offsets={}))
    history.sent[2] = replace(history.sent[2], outcome=outcome)

    assert check(history) == []


@pytest.mark.parametrize("outcome", [UNKNOWN, FAILED, ABORTED])
def test_what_was_not_acknowledged_may_be_missing(outcome):
    """A batch that failed, was taken back, or may have been written, need not be there."""
    history = sound()
    history.sent.append(Sent(2, 1, {"a": [1]}, outcome, 50, 60))

    assert check(history) == []


def without_last_batch(history):
    history.log["a", 0].pop()
    history.log["b", 0].pop()
    history.seen.pop()


def half_of_the_last_batch(history):
    history.log["b", 0].pop()
    history.seen.pop()


def twice(history):
    history.log["a", 1].append((1, (1, 2)))


def nobody(history):
    history.log["a", 1].append((1, (7, 1)))


def not_acknowledged(outcome):
    def change(history):
        history.sent[1] = replace(history.sent[1], outcome=outcome)

    return change


def exchanged(history):
    history.sent = [replace(sent, offsets={}) for sent in history.sent]
    history.log["a", 0] = [(0, (1, 4)), (1, (1, 1))]
    history.seen.clear()


def hole(history):
    history.log["a", 0][1] = (2, (1, 4))
    history.seen.pop()


def elsewhere(history):
    history.sent[0].offsets["b"] = {"0": [5, 6]}


def other_rows(history):
    history.seen[0].checksums["a"]["0"] += 1


def half_seen(history):
    history.seen[1] = seen_at(history, 45, a=(2, 1), b=(1,))


def seen_late(history):
    history.seen[1] = replace(history.seen[0], begun_ns=45, ended_ns=46)


def seen_less(history):
    history.sent[1] = replace(history.sent[1], ended_ns=1_000)
    history.seen.append(replace(history.seen[0], begun_ns=50, ended_ns=51))


BAD = {
    "lost": without_last_batch,
    "torn": half_of_the_last_batch,
    "duplicate": twice,
    "phantom": nobody,
    "aborted": not_acknowledged(ABORTED),
    "reordered": exchanged,
    "gap": hole,
    "moved": elsewhere,
    "inconsistent": other_rows,
    "stale": seen_late,
    "backwards": seen_less,
}
MORE = {"phantom": not_acknowledged(FAILED), "torn": half_seen}


def test_looks_that_overlap_may_end_in_any_order():
    """A look that began before another had ended may see less than that."""
    history = sound()
    history.seen[1] = replace(history.seen[1], begun_ns=21, ended_ns=60)
    history.seen[0] = replace(history.seen[0], begun_ns=25, ended_ns=70)

    assert check(history) == []


@pytest.mark.parametrize(("kind", "change"), [*BAD.items(), *MORE.items()])
def test_an_anomaly_is_found(kind, change):
    """A history with one thing wrong is refused for that."""
    history = sound()
    change(history)

    assert kind in {anomaly.kind for anomaly in check(history)}


def test_journals_of_killed_processes_are_read(tmp_path):
    """What a process began and did not end is unknown; a line that was cut is left out."""
    journal = Journal(tmp_path / "one.jsonl")
    first, second = sound().sent
    journal.sent(first)
    journal.write(begun=vars(replace(second, outcome=UNKNOWN)))
    with (tmp_path / "one.jsonl").open("a") as file:
        file.write(json.dumps({"sent": 1})[:-3])

    assert read_journals(tmp_path).sent == [first, replace(second, outcome=UNKNOWN)]
