"""
Promises of the log to many processes at once, of which any may be killed or stopped at any moment.

Under torture there are 1,000 blows.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.history.deliveries import check_deliveries
from tests.harness.history.siege import Siege, scratch
from tests.kit.checker import check
from tests.kit.log_bugs import BUGS, MEMBER_BUGS

SOON_SECONDS = 30  # with a bug, groups may never come to the end of the log
BLOWS, BATCHES, SEEDS = (100, 150, 10) if os.environ.get("STREAMKIT_TORTURE") else (16, 14, 1)


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_siege(seed, record_property):
    """
    Eight producers and two readers, killed, stopped, fenced: what was acknowledged is there once, in order, in whole batches.

    Snapshots over all topics hold whole transactions, and all that was acknowledged before. Four members of two groups share
    the same fate: each group is given every row, and again only what nobody had committed; the one that copies in
    transactions copies each row once.
    """
    with scratch() as folder:
        siege = Siege(Path(folder), seed, batches=BATCHES)
        history = siege.run(BLOWS)

    record_property("tried", {"seeds": 1, **siege.tally.events})
    assert check(history) == []
    assert check_deliveries(history) == []
    assert siege.tally.events["batches"] == 8 * BATCHES and siege.tally.events["snapshots"] > 5
    assert siege.tally.events["rows given to members"] >= 2 * sum(map(len, history.log.values())) > 0


@pytest.mark.parametrize("bug", [*BUGS, *MEMBER_BUGS])
def test_a_wrong_log_is_caught(bug):
    """Each way to be wrong shows in the history, or ends a producer or a member, with few blows."""
    members_each = 2 if bug in MEMBER_BUGS else 0
    with scratch() as folder:
        try:
            siege = Siege(
                Path(folder),
                1,
                producers=4,
                readers=1,
                members_each=members_each,
                batches=20,
                bug=bug,
                patience_seconds=SOON_SECONDS,
            )
            history = siege.run(3)
        except AssertionError:
            return

    assert check(history) or check_deliveries(history)
