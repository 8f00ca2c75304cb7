"""The promise to who interrupts a producer (`test_interrupts.py`) is broken by one that is wrong."""

from __future__ import annotations

from itertools import count

import pytest

from streamkit.log.produce.outbox import Outbox
from tests.unit.log.produce.test_interrupts import outcome_of_interrupt

STRIDE = 97


def leave_first(patch):
    original = Outbox._deliver

    def deliver(outbox, draft):
        outbox._leave(draft)
        original(outbox, draft)

    patch(Outbox, "_deliver", deliver)


BUGS = {"what is to be committed is forgotten before it is": leave_first}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_producer_is_caught(bug, monkeypatch):
    """A producer that is wrong in one way loses rows without a word when it is interrupted at some line."""
    BUGS[bug](monkeypatch.setattr)
    with pytest.raises((AssertionError, KeyError)):  # a receipt of rows that are not there
        for at in count(1, STRIDE):
            if outcome_of_interrupt(at) is None:
                break
