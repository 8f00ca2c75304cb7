"""
Results that wait for stream time come once where stores are filled again, or a second version takes over, whatever has changed.

A random topology changes how long its results wait, or what moves its stream time. Either that is refused, and everything is as it was, or
the old and the new program together give each result once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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

SEEDS = 36  # each change of each kind
WINDOWS: Mapping[str, Callable[[str], Any]] = {
    "tumbling": lambda grace: sk.tumbling("10 s", grace=grace, retention="1 hour"),
    "sessions": lambda grace: sk.session("2 s", grace=grace, retention="1 hour"),
}
KINDS = (*WINDOWS, "closing", "limit", "join", "versioned")
STORES = {
    "limit": ("A", "S"),
    "closing": ("A",),
    "join": ("J-left", "J-right", "J-left-waiting"),
    "versioned": ("V-waiting",),
}


@dataclass(frozen=True)
class Version:
    """What the versions of a topology differ by: how long results wait, what is merged, how far the time of a record may jump."""

    wait_s: int = 5
    is_merged: bool = False
    jump: str | None = None


CHANGES: Sequence[tuple[Version, Version]] = (
    (Version(), Version()),
    (Version(wait_s=0), Version(wait_s=20)),
    (Version(wait_s=20), Version(wait_s=5)),
    (Version(), Version(is_merged=True)),
    (Version(is_merged=True), Version()),
    (Version(), Version(jump="100 s")),
)
AHEAD_MS = 100_000  # of a record that another topic has
FAR_AHEAD_MS = 2_000_000  # of one that should not have been sent


def topology(kind: str, version: Version, name: str = "t") -> sk.Topology:
    app, wait = sk.Topology(name), f"{version.wait_s} s"
    rows, other = app.stream("in", max_jump=version.jump), app.stream("ahead")
    other.filter("n < 0").to("ignored")  # in both versions, so that it is read
    if version.is_merged:
        rows = rows.merge(other.filter("n < 0"))
    if kind in ("tumbling", "sessions", "closing"):
        table = (
            rows.group_by("k").windowed_by(WINDOWS[kind if kind in WINDOWS else "tumbling"](wait)).agg(c=F.max("n"), store="A")
        )
        found = table.suppress(until=sk.window_closes(), name="S").to_stream() if kind == "closing" else table.emit("final")
        found.to("out")
    elif kind == "limit":
        table = rows.group_by("k").agg(c=F.max("n"), store="A")
        table.suppress(until=sk.time_limit(wait), name="S").to_stream().to("out")
    elif kind == "join":
        none = app.stream("none").select("k", r="n")
        rows.join(none, within=sk.within("1 s", grace=wait), how="left", name="J").to("out")
    else:
        table = app.table("names", versioned="1 hour").select("k", r="n")
        rows.join(table, on="k", how="left", grace=wait, name="V").to("out")
    return app


def result(kind: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a result is of: a window of a key, a value of a table's row, or a record."""
    if kind == "sessions":
        return row["k"], row["window_start"], row["window_end"]
    return row["k"], row["window_start"] if "window_start" in row else row["c"] if kind == "limit" else row["n"]


def given(log: Log, kind: str) -> Counter[tuple[Any, ...]]:
    """How often each result came."""
    return Counter(result(kind, one.row) for one in written(log, "out")) if "out" in log.topics() else Counter()


def expected(kind: str, sent: Sequence[Mapping[str, Any]]) -> set[tuple[Any, ...]]:
    """Results that must come: those of the records that are the newest when they come, for by no grace are these late."""
    times = list(accumulate((row["ts"] for row in sent), max))
    newest = [row for row, time in zip(sent, times, strict=True) if row["ts"] == time]
    if kind == "sessions":  # late records may make one of two
        return set()
    if kind == "limit":
        return {(row["k"], row["n"]) for row in {row["k"]: row for row in sent}.values()}  # the last of each key
    return {(row["k"], row["ts"] // 10_000 * 10_000 if kind in ("tumbling", "closing") else row["n"]) for row in newest}


def records(chance: random.Random, first: int, count: int) -> list[dict[str, Any]]:
    """Records of some keys, in the order of time but for some, each with a number of its own."""
    late = [chance.choice([0, 0, 0, 3_000]) for _ in range(count)]
    return [{"k": chance.choice("ab"), "n": first + at, "ts": (first + at) * 700 - late[at]} for at in range(count)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_results_come_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result comes once from both programs together, or the change is refused and the old program goes on."""
    monkeypatch.setattr(following, "WAIT_SECONDS", 0.01)
    chance, kind = random.Random(seed), KINDS[seed % len(KINDS)]
    (old, new), is_followed = CHANGES[seed // len(KINDS) % len(CHANGES)], chance.random() < 0.5
    with fresh_log() as log:
        for name in ("in", "ahead", "none", "names"):
            log.create_topic(name, "k string, n bigint", key="k", partitions=1, config={"retention.ms": "-1"})
        sent = records(chance, 10, 60)
        append(log, "in", sent)
        append(log, "ahead", [{"k": "a", "n": 1, "ts": AHEAD_MS}])
        if new.jump or chance.random() < 0.2:
            append(log, "in", [{"k": "z", "n": 0, "ts": FAR_AHEAD_MS}])
        run(log, topology(kind, old))
        before, goes_on = given(log, kind), topology(kind, new, "second" if is_followed else "t")
        try:
            (take_over if is_followed else rebuild)(log, goes_on, kind)
        except OrphanedStateError:
            assert new != old, "what has not changed can be read again"
            if "second" in [one.name for one in log.catalog.applications.every()]:
                log.catalog.applications.reset("second")
            goes_on = topology(kind, old)
        assert given(log, kind) == before, "what is read again gives nothing"

        later = records(chance, 80, 20)
        append(log, "in", later)
        run(log, goes_on, drain=True)
        found = given(log, kind)
        assert max(found.values()) == 1, "a result came twice"
        assert expected(kind, [*sent, *later] if kind == "limit" else sent) <= set(found), "a result never came"


def run(log: Log, app: sk.Topology, *, drain: bool = False) -> None:
    execute(log, compile(app, log), Run(drain=drain))


def rebuild(log: Log, app: sk.Topology, kind: str) -> None:
    rebuild_stores(log, compile(app, log), Rebuild(STORES.get(kind, ("A",)), records_max=7))


def take_over(log: Log, app: sk.Topology, kind: str) -> None:
    """Follow until a while has passed in which nothing came, so that a refusal would have been seen; then take over."""
    looks = iter(range(40))
    follow(log, compile(app, log), Succession("t", records_max=7, is_stopped=lambda: next(looks, None) is None))
    log.catalog.applications.hand_over(app.name)
    assert follow(log, compile(app, log), Succession("t"))
