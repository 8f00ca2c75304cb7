"""
Promises of the log to many processes at once, of which any may be killed or stopped at any moment.

Under torture there are 1,000 blows.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.history.bugs import BUGS
from tests.history.checker import check
from tests.history.siege import Siege, scratch

BLOWS, BATCHES, SEEDS = (100, 150, 10) if os.environ.get("STREAMKIT_TORTURE") else (20, 20, 1)


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_siege(seed, record_property):
    """
    Eight producers and two readers, killed, stopped, fenced: what was acknowledged is there once, in order, in whole batches.

    Snapshots over all topics hold whole transactions, and all that was acknowledged before.
    """
    with scratch() as folder:
        siege = Siege(Path(folder), seed, batches=BATCHES)
        history = siege.run(BLOWS)

    record_property("tried", {"seeds": 1, **siege.tally.events})
    assert check(history) == []
    assert siege.tally.events["batches"] == 8 * BATCHES and siege.tally.events["snapshots"] > 5


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_log_is_caught(bug):
    """Each way to be wrong shows in the history, or ends a producer, without a blow."""
    with scratch() as folder:
        try:
            history = Siege(Path(folder), 1, producers=4, readers=1, batches=20, bug=bug).run(3)
        except AssertionError:
            return

    assert check(history)
