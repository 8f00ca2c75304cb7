"""
Windows of another size, or sessions of another gap, by a rebuild or a second version: what waits in them comes, and no window twice.

Windows of another size are others, so it does not count what those before have given. Sessions may be the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs import following
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.following import Succession, follow
from streamkit.engine.runs.rebuild import Rebuild, rebuild_stores
from streamkit.errors import OrphanedStateError
from streamkit.log.log import Log
from tests.kit.engine_run import Run, append, execute, fresh_log, written
from tests.kit.sampling import first

SEEDS = range(48)
KINDS = ("tumbling", "sessions", "hopping", "sliding")
SIZES_S = (10, 30, 60)
GRACES_S = (0, 5, 60)
Windows = tuple[int, int, int]  # size or gap, advance, and grace, in seconds
Result = tuple[str, int, int]  # key, start and end


def topology(kind: str, windows: Windows, name: str = "t") -> sk.Topology:
    app, (size, advance, grace) = sk.Topology(name), (f"{one} s" for one in windows)
    made: Mapping[str, Any] = {
        "tumbling": lambda: sk.tumbling(size, grace=grace, retention="1 hour"),
        "hopping": lambda: sk.hopping(size, advance=advance, grace=grace, retention="1 hour"),
        "sessions": lambda: sk.session(size, grace=grace, retention="1 hour"),
        "sliding": lambda: sk.sliding(size, grace=grace, retention="1 hour"),
    }
    rows = app.stream("in").group_by("k").windowed_by(made[kind]())
    rows.agg(n=F.count("*"), store="A").emit("final").to("out")
    return app


def records(chance: random.Random, first_s: int, count: int) -> list[dict[str, Any]]:
    times_s = accumulate((chance.choice([4, 4, 4, 25]) for _ in range(count)), initial=first_s)
    return [{"k": chance.choice("ab"), "ts": (time_s - chance.choice([0, 0, 0, 9])) * 1000} for time_s in times_s]


def windows_of(chance: random.Random) -> Windows:
    size = chance.choice(SIZES_S)
    return size, chance.choice([one for one in (5, 10, 30) if size % one == 0]), chance.choice(GRACES_S)


def given(log: Log) -> list[Result]:
    rows = [one.row for one in written(log, "out")] if "out" in log.topics() else []
    return [(row["k"], row["window_start"], row["window_end"]) for row in rows]


def run(log: Log, app: sk.Topology, *, drain: bool = False) -> None:
    execute(log, compile(app, log), Run(drain=drain))


def fill(log: Log, kind: str, windows: Windows, *, is_followed: bool) -> sk.Topology:
    """Let these windows take the place of others, by a rebuild or a second version; the topology that goes on."""
    if not is_followed:
        app = topology(kind, windows)
        rebuild_stores(log, compile(app, log), Rebuild(("A",), records_max=5))
        return app
    app, looks = topology(kind, windows, "second"), iter(range(40))
    try:
        follow(log, compile(app, log), Succession("t", is_stopped=lambda: next(looks, None) is None))
    except OrphanedStateError:
        if "second" in [one.name for one in log.catalog.applications.every()]:
            log.catalog.applications.reset("second")
        raise
    log.catalog.applications.hand_over("second")
    assert follow(log, compile(app, log), Succession("t"))
    return app


def fresh(kind: str, windows: Windows, parts: Sequence[Sequence[Mapping[str, Any]]]) -> list[Result]:
    """What a new application gives of the last part, behind the others."""
    with fresh_log() as log:
        log.create_topic("in", "k string", key="k", partitions=1)
        *before, last = parts
        for part in before:
            append(log, "in", part)
        run(log, topology(kind, windows))
        known = given(log)
        append(log, "in", last)
        run(log, topology(kind, windows))
        return given(log)[len(known) :]


@pytest.mark.parametrize("seed", first(16, SEEDS))
def test_windows_of_another_size_come_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a new application would still give comes, but what was given before; a refusal says that windows may be the same."""
    monkeypatch.setattr(following, "WAIT_SECONDS", 0.01)
    chance, kind = random.Random(seed), KINDS[seed % len(KINDS)]
    old, new = windows_of(chance), windows_of(chance)
    with fresh_log() as log:
        log.create_topic("in", "k string", key="k", partitions=1)
        parts = [records(chance, 100, 12)]
        append(log, "in", parts[0])
        is_drained, is_followed, has_more = (chance.random() < 0.5 for _ in range(3))
        run(log, topology(kind, old), drain=is_drained)
        if has_more:
            parts.append(records(chance, parts[0][-1]["ts"] // 1000 + 4, 3))
            append(log, "in", parts[1])
            run(log, topology(kind, old))
        before = given(log)
        try:
            app = fill(log, kind, new, is_followed=is_followed)
        except OrphanedStateError:
            is_cut_otherwise = kind == "hopping" and old[:2] != new[:2]
            assert new[2] < old[2] or (is_drained and has_more) or (is_cut_otherwise and (is_drained or new[2] > old[2]))
            return
        assert given(log) == before, "what is read again gives nothing"
        parts.append([{"k": "z", "ts": 1_000_000}])
        append(log, "in", parts[-1])
        run(log, app)
        found = given(log)
        assert len(set(found)) == len(found), "a window came twice"
        missing = set(fresh(kind, new, parts)) - set(found)
        if kind == "sessions":  # whose records have all come in sessions before
            missing = {
                (k, start, end) for k, start, end in missing if not any(k == key and end <= last for key, _, last in before)
            }
        same = old[:2] == new[:2] or (kind in ("tumbling", "sliding") and old[0] == new[0])
        assert not missing or (same and is_drained), "a window that is open never comes"


@pytest.mark.parametrize("gap_s", [1, 30])
def test_sessions_that_are_the_same_come_once(gap_s: int) -> None:
    """By a longer gap a session is open again that had come; by a shorter one it closes sooner."""
    with fresh_log() as log:
        log.create_topic("in", "k string", key="k", partitions=1)
        append(log, "in", [{"k": k, "ts": time_s * 1000} for k, time_s in (("a", 0), ("a", 1), ("b", 29), ("b", 30))])
        run(log, topology("sessions", (10, 10, 5)))
        assert given(log) == [("a", 0, 1000)]
        app = fill(log, "sessions", (gap_s, 10, 5), is_followed=False)
        append(log, "in", [{"k": "z", "ts": 500_000}])
        run(log, app)
        assert given(log) == [("a", 0, 1000), ("b", 29_000, 30_000)]


@pytest.mark.parametrize("has_more", [True, False])
def test_windows_that_may_be_the_same_are_refused(has_more: bool) -> None:
    """Of windows with another advance some are as before, and some are not; which of them a drain has given is not known."""
    with fresh_log() as log:
        log.create_topic("in", "k string", key="k", partitions=1)
        append(log, "in", [{"k": "a", "ts": 5000}])
        run(log, topology("hopping", (10, 10, 5)), drain=True)
        if has_more:
            append(log, "in", [{"k": "b", "ts": 500_000}])
            run(log, topology("hopping", (10, 10, 5)))
            fill(log, "hopping", (10, 5, 5), is_followed=False)
            return
        with pytest.raises(OrphanedStateError, match="some windows may be the same as before"):
            fill(log, "hopping", (10, 5, 5), is_followed=False)
