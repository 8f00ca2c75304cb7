"""The promises of the check (`test_fsck.py`) are broken by checks that are wrong."""

from __future__ import annotations

import pytest

from streamkit.log.rescue import fsck, invariants
from tests.unit.log.rescue import test_fsck as promises
from tests.unit.log.rescue.test_fsck import folder, worked

__all__ = ["folder", "worked"]


def compare_no_footers(patch):
    patch(fsck, "_check_footer", lambda *_: None)


def read_no_rows(patch):
    patch(fsck, "_check_rows", lambda *_: None)


def trust_what_is_written(patch):
    """A check that meets what it cannot read is not guarded."""
    patch(invariants, "_guarded", lambda check, transaction, findings: check(transaction, findings))


BUGS = {  # and the damage by which they show
    "footers are not compared": (compare_no_footers, promises.test_damage_is_found, "other checksum"),
    "rows are not read": (read_no_rows, promises.test_deep_damage_is_found_by_a_deep_check, "flipped byte of a payload"),
    "what cannot be read ends the check": (trust_what_is_written, promises.test_damage_is_found, "unreadable sequence"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_check_is_caught(bug, folder, monkeypatch):
    """A check that leaves something out, or ends by what it meets, is found out by damage on purpose."""
    plant, promise, damage = BUGS[bug]
    plant(monkeypatch.setattr)
    with pytest.raises((AssertionError, ValueError)):
        promise(folder, damage)
