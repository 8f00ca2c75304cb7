"""Keys whose rows are taken together have the sessions that they have row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from streamkit.arrays import Integers
from streamkit.engine.folding.session import merged_sessions as room
from streamkit.engine.folding.session.merged_sessions import SessionRows, Sessions, Stored, merged_sessions
from streamkit.plan.window_kinds.session import SessionWindowing
from tests.kit.sampling import seeds

KEYS = 2
FAST = ("take_in_order", "take_as_one")


def random_case(random: Random) -> tuple[SessionRows, Stored, SessionWindowing]:
    """Few rows of two keys, late ones among them, and up to two stored sessions of each."""
    gap = random.choice([1, 3, 5, 10])
    window = SessionWindowing(gap + 1, 1, random.choice([0, 0, 2, 6, 20]), (1,), "s")
    count, spread, now = random.randrange(1, 14), random.choice([2, 5, 12, 30]), 50
    times = []
    for _ in range(count):
        now += random.choice([0, 0, 0, 1, 4])
        times.append(max(0, now - random.randrange(spread)))
    before = random.choice([0, 45, 55])
    reached = np.maximum.accumulate(np.maximum(times, before))
    moves = (np.diff(reached, prepend=before) > 0) & (random.random() < 0.5)  # closings without a grace alone ask for it
    rows = SessionRows(np.array([random.randrange(KEYS) for _ in range(count)]), np.array(times), reached, moves)
    stored: list[tuple[int, int, int]] = []
    for key in range(KEYS):
        end = 30
        for _ in range(random.choice([0, 0, 1, 2])):
            start = end + random.choice([gap + 1, gap + 3])
            end = start + random.randrange(6)
            stored.append((key, start, end))
    return rows, Stored(*np.array(stored, np.int64).reshape(-1, 3).T), window


def one_by_one(rows: SessionRows, stored: Stored, window: SessionWindowing) -> Sessions:
    making = room._GrowingSessions.of(rows, stored, window)
    making.take_one_by_one(np.arange(len(rows)), np.arange(len(stored)))
    return making.made()


def test_taken_together_or_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds, what replaces what, deletions, late rows, and which nodes are folded together, are the same; each way is gone."""
    taken: Counter[str] = Counter()
    for name in FAST:
        monkeypatch.setattr(room._GrowingSessions, name, counting(name, taken))
    for seed in seeds(400):
        rows, stored, window = random_case(Random(seed))
        found, wanted = merged_sessions(rows, stored, window, is_each_needed=True), one_by_one(rows, stored, window)
        for field in ("starts", "ends", "replaced_by", "is_deleted", "is_late"):
            assert np.array_equal(getattr(found, field), getattr(wanted, field)), (seed, field)
        assert chains(found, len(stored)) == chains(wanted, len(stored)), seed
    assert all(taken[name] > 100 for name in FAST), taken


def counting(name: str, taken: Counter[str]) -> Callable[[Any, Integers, Integers], None]:
    """The method of a name, which counts the rows that it takes."""
    take = getattr(room._GrowingSessions, name)

    def counted(self: Any, rows: Integers, stored: Integers) -> None:
        taken[name] += len(rows)
        take(self, rows, stored)

    return counted


def chains(sessions: Sessions, stored: int) -> set[tuple[int, ...]]:
    """Which nodes are in one chain, of those that have a row."""
    found: dict[int, list[int]] = {}
    for node, chain in enumerate(sessions.lineage.chains.tolist()):
        if chain >= 0:
            found.setdefault(chain, []).append(node)
    return {tuple(nodes) for nodes in found.values() if nodes[-1] >= stored}


def test_what_is_left_when_nobody_asks_for_each() -> None:
    """The sessions that are there in the end have the same bounds, whichever way keys go."""
    for seed in seeds(400):
        rows, stored, window = random_case(Random(seed))
        found, wanted = merged_sessions(rows, stored, window, is_each_needed=False), one_by_one(rows, stored, window)
        assert np.array_equal(found.is_late, wanted.is_late), seed
        assert left(rows, stored, found) == left(rows, stored, wanted), seed


def left(rows: SessionRows, stored: Stored, sessions: Sessions) -> set[tuple[int, int, int]]:
    keys = np.concatenate([stored.keys, rows.keys])
    there = (sessions.replaced_by == -1) & ~np.concatenate([np.zeros(len(stored), bool), sessions.is_late])
    return {*zip(keys[there].tolist(), sessions.starts[there].tolist(), sessions.ends[there].tolist())}
