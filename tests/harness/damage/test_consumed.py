"""
Promises of a consumer over a damaged log: whatever happens to a slab, every row of a whole frame reaches a program that seeks on.

Under torture there are 20,000 damages.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from streamkit.log.consume import fetcher
from tests.harness.damage.children import run
from tests.harness.damage.consumed import SHARED, ConsumedLog, mutation_at

pytestmark = pytest.mark.usefixtures("slabs_in_files")

COUNT = 20_000 if os.environ.get("STREAMKIT_TORTURE") else 120


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("arguments", [[], [SHARED]], ids=["own", SHARED])
def test_every_row_of_a_whole_frame_is_delivered(arguments, record_property):
    """Cuts and flips all over the slab, then any damage: each row of a whole frame comes once, and an error ends where its frame does."""
    tally = run("tests.harness.damage.consumed", 0, COUNT, *arguments)

    record_property("tried", {f"{kind}, by a consumer": count for kind, count in tally.counts.items()})
    assert (tally.signals, tally.failures) == ([], [])
    assert tally.attempts == COUNT
    assert sum(count for kind, count in tally.counts.items() if kind.endswith("passed over")) > COUNT // 2


def silent(piece):
    """Nobody hears of the failure."""
    return None if piece.failure else piece


def jumping(piece):
    """The consumer passes over the frame by itself."""
    return replace(piece, failure=None, following=piece.failure.next_offset) if piece.failure else piece


def exaggerating(piece):
    """The error names an offset behind the next row."""
    if piece.failure:
        piece.failure.next_offset += 1
    return piece


BUGS = {
    "a failure is hidden": silent,
    "a failure is jumped over": jumping,
    "an error misstates where it ends": exaggerating,
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_fetcher_that_passes_over_frames_is_caught(bug, monkeypatch):
    """A consumer that hides a failure, jumps over it, or misstates where it ends, does not pass."""
    consumed = ConsumedLog()
    pieces = fetcher.Fetcher._pieces
    monkeypatch.setattr(fetcher.Fetcher, "_pieces", lambda self, *given: filter(None, map(BUGS[bug], pieces(self, *given))))

    with pytest.raises(AssertionError):
        for number in range(0, 300, 10):
            consumed.verdict(mutation_at(number, len(consumed.data), consumed.frames))
