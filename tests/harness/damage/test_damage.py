"""
Promises of stored bytes that were damaged: each damage is noticed or does no harm, and harms nothing beside it.

Under torture there are 100,000 damages.
"""

from __future__ import annotations

import os

import google_crc32c
import pytest

from streamkit.log.slab import frame_reader
from streamkit.log.slab.extent import Extent
from tests.harness.damage.children import run
from tests.harness.damage.mutations import mutation_of
from tests.harness.damage.victim import Victim

COUNT, FILE_COUNT, STRIDE = (100_000, 10_000, 1) if os.environ.get("STREAMKIT_TORTURE") else (1_700, 400, 10)
FILE_STRIDE = 37


@pytest.mark.timeout(1_800)
def test_damage_is_detected_or_harmless(record_property):
    """
    Cuts and flips all over the slab, then any damage: `CorruptionError` with the frame's address, or the rows that were written.

    Frames that the damage does not touch are read as ever, and no process dies. Under torture each byte is cut and flipped.
    """
    tally = run("tests.harness.damage.victim", 0, COUNT, str(STRIDE))

    record_property("tried", dict(tally.counts))
    assert (tally.signals, tally.failures) == ([], [])
    assert tally.attempts == COUNT
    detected = sum(count for kind, count in tally.counts.items() if kind.endswith(": detected"))
    unchanged = sum(count for kind, count in tally.counts.items() if kind.endswith("nothing changed"))
    assert detected == COUNT - unchanged, f"a damage was not noticed: {tally.counts}"


@pytest.mark.timeout(1_800)
def test_damage_of_mapped_files_is_detected_or_harmless(fast_folder, record_property):
    """The same of files as a log has them, mapped into memory: a sample of those damages, cuts and flips among them."""
    tally = run("tests.harness.damage.victim", 0, FILE_COUNT, str(FILE_STRIDE), str(fast_folder / "damaged"))

    record_property("tried", {f"{kind}, in a mapped file": count for kind, count in tally.counts.items()})
    assert (tally.signals, tally.failures) == ([], [])
    assert tally.attempts == FILE_COUNT
    detected = sum(count for kind, count in tally.counts.items() if kind.endswith(": detected"))
    unchanged = sum(count for kind, count in tally.counts.items() if kind.endswith("nothing changed"))
    assert detected == FILE_COUNT - unchanged, f"a damage was not noticed: {tally.counts}"
    assert {kind.partition(":")[0] for kind in tally.counts} >= {"cut", "flip", "zero", "swap", "grow"}


BUGS = {
    "no checksum is checked": lambda patch: patch(google_crc32c, "value", lambda data: 0),
    "the token is not checked": lambda patch: patch(Extent, "token", property(lambda extent: AnyToken())),
    "the position is not checked": lambda patch: patch(frame_reader._FrameReader, "_check_place", lambda reader, found: None),
}


class AnyToken:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


@pytest.mark.parametrize("is_in_files", [False, True])
@pytest.mark.parametrize("bug", BUGS)
def test_a_reader_that_does_not_look_is_caught(bug, is_in_files, fast_folder, monkeypatch):
    """Without any one of the checks, some damage goes unnoticed or is misreported."""
    victim = Victim(folder=str(fast_folder / "unchecked") if is_in_files else None)
    positions = [extent.position for extent in victim.slab.extents]
    size = len(victim.slab.data)
    BUGS[bug](monkeypatch.setattr)

    with pytest.raises(AssertionError):
        for number in range(2 * size, 2 * size + 3_000):
            mutation = mutation_of(number, size, positions)
            if mutation.kind not in ("flips", "garbage") or bug != "no checksum is checked":
                victim.verdict(mutation)
