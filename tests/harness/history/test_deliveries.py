"""Promises of the check of groups: it finds each anomaly in a history that was made to have it, and none in a sound one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.harness.history.deliveries import check_deliveries
from tests.kit.history import Committed, History, Journal, Took, read_journals

PLACE = ("a", 0)
ROWS = [(1, 1), (1, 2), (2, 1), (1, 3)]


def took(first, following, begun_ns, member="one"):
    return Took("g", member, *PLACE, first, ROWS[first:following], begun_ns)


def committed(offset, ended_ns, member="one"):
    return Committed("g", member, *PLACE, offset, ended_ns)


def sound():
    """Member one was given two rows and committed them; it was given two more, and another member again, who committed them."""
    history = History(log={PLACE: list(enumerate(ROWS))}, positions={"g": {PLACE: 4}}, copies={"g": {PLACE: [0, 1, 2, 3]}})
    history.took = [took(0, 2, 10), took(2, 4, 30), took(2, 4, 50, "two")]
    history.committed = [committed(2, 20), committed(4, 60, "two")]
    return history


def test_a_sound_history_is_accepted():
    """What was not committed may be given again, by polls that began before they could know better too."""
    history = sound()
    history.took.append(took(0, 2, 15, "two"))

    assert check_deliveries(history) == check_deliveries(History()) == []


def forgotten(history):
    history.took = history.took[:1]


def other_row(history):
    history.took[0] = replace(history.took[0], rows=[(1, 1), (9, 9)])


def given_again(history):
    history.took.append(took(1, 2, 21, "two"))


def gone_back(history):
    history.positions["g"][PLACE] = 3
    history.copies["g"][PLACE].pop()


def not_copied(history):
    del history.copies["g"][PLACE][2]


def copied_twice(history):
    history.copies["g"][PLACE].append(3)


def copied_early(history):
    history.copies["g"][PLACE].append(4)


def disordered(history):
    history.copies["g"][PLACE][:2] = [1, 0]


BAD = {
    "skipped": forgotten,
    "misread": other_row,
    "again": given_again,
    "rewound": gone_back,
    "uncopied": not_copied,
    "copied twice": copied_twice,
    "unsettled": copied_early,
    "disordered": disordered,
}


@pytest.mark.parametrize(("kind", "change"), BAD.items())
def test_an_anomaly_is_found(kind, change):
    """A history with one thing wrong is refused for that alone."""
    history = sound()
    change(history)

    assert {anomaly.kind for anomaly in check_deliveries(history)} == {kind}


def test_journals_of_members_are_read(tmp_path):
    """What a member wrote down comes back as it was."""
    journal = Journal(tmp_path / "one.jsonl")
    journal.took(took(0, 2, 10))
    journal.committed(committed(2, 20))

    found = read_journals(tmp_path)
    assert [replace(event, rows=[(producer, number) for producer, number in event.rows]) for event in found.took] == [
        took(0, 2, 10)
    ]
    assert found.committed == [committed(2, 20)]
