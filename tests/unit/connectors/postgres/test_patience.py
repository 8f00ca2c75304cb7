"""How long a poll of changes waits, on a clock that is moved by hand."""

from __future__ import annotations

import pytest

from streamkit.connectors.postgres.patience import BEHIND_SECONDS, SILENCE_SECONDS, Patience

BEGAN = 100.0
NOTHING = {"has_changes": False, "is_within_transaction": False, "has_server_sent_all": False}
BEHIND = {"has_changes": True, "is_within_transaction": False, "has_server_sent_all": False}
CAUGHT_UP = {"has_changes": True, "is_within_transaction": False, "has_server_sent_all": True}
WITHIN = {"has_changes": True, "is_within_transaction": True, "has_server_sent_all": False}


class Poll:
    """A poll whose clock is moved before each question."""

    def __init__(self, linger_seconds=0.05):
        self.now = BEGAN
        self._patience = Patience(0.5, linger_seconds, lambda: self.now)

    def wait(self, state, after_seconds=0.0):
        self.now = BEGAN + after_seconds
        return pytest.approx(self._patience.wait_seconds(**state), abs=1e-9)


def test_a_change_that_comes_alone():
    """A poll waits as long as it may for its first change, and lets it go at once, whole."""
    poll = Poll()
    assert poll.wait(NOTHING) == 0.5
    assert poll.wait(NOTHING, after_seconds=0.2) == 0.3
    assert poll.wait(WITHIN, after_seconds=0.3) == 0.2
    assert poll.wait(BEHIND, after_seconds=0.3) == 0
    assert poll.wait(CAUGHT_UP, after_seconds=0.3) == 0


def test_changes_that_follow_each_other():
    """Where changes are there when a poll begins, it waits for the next ones, in silence not long, and no longer than its linger in all."""
    poll = Poll()
    assert poll.wait(CAUGHT_UP, after_seconds=0.001) == SILENCE_SECONDS
    assert poll.wait(CAUGHT_UP, after_seconds=0.03) == SILENCE_SECONDS
    assert poll.wait(CAUGHT_UP, after_seconds=0.046) == 0.005
    assert poll.wait(CAUGHT_UP, after_seconds=0.051) == 0


def test_a_server_that_has_more_to_send():
    """A poll takes what a server is about to send, beyond its own timeout, but not for ever; a silence of its linger ends it too."""
    poll = Poll()
    assert poll.wait(BEHIND) == 0.05
    assert poll.wait(WITHIN, after_seconds=0.6) == BEHIND_SECONDS - 0.6
    assert poll.wait(BEHIND, after_seconds=BEHIND_SECONDS - 0.01) == 0.01
    assert poll.wait(BEHIND, after_seconds=BEHIND_SECONDS) == 0
    assert poll.wait(WITHIN, after_seconds=BEHIND_SECONDS) == 0


def test_no_linger():
    """With a linger of 0 a poll takes what is there, and the rest of a transaction."""
    poll = Poll(linger_seconds=0)
    assert poll.wait(WITHIN, after_seconds=0.1) == 0.4
    assert poll.wait(BEHIND) == 0
    assert poll.wait(CAUGHT_UP) == 0
