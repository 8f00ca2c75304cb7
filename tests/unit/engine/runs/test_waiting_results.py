"""
Results that wait for stream time come once where stores are filled again, or a second version takes over, whatever has changed.

A random topology changes how long its results wait, or what moves its stream time. Either that is refused, and everything is as it was, or
the old and the new program together give each result once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
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
from tests.kit.sampling import TAKES_ALL

WINDOWS: Mapping[str, Callable[[str], Any]] = {
    "tumbling": lambda grace: sk.tumbling("10 s", grace=grace, retention="1 hour"),
    "sessions": lambda grace: sk.session("2 s", grace=grace, retention="1 hour"),
}
BEHIND = ("windows behind windows", "join behind windows", "limit behind windows")
KINDS = (*WINDOWS, "closing", "limit", "join", "versioned", *BEHIND)
STORES = {
    "limit": ("A", "S"),
    "closing": ("A",),
    "join": ("J-left", "J-right", "J-left-waiting"),
    "versioned": ("V-waiting",),
    "join behind windows": ("A", "J-left", "J-right", "J-left-waiting"),
    "limit behind windows": ("A", "B", "S"),
    "windows behind windows": ("A", "B"),
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
SEEDS = [  # each change of each kind; in an ordinary run two changes of each kind, each of them of three kinds
    seed for seed in range(len(CHANGES) * len(KINDS)) if TAKES_ALL or (seed // len(KINDS) - seed % len(KINDS)) % 3 == 0
]
AHEAD_MS = 100_000  # of a record that another topic has
FAR_AHEAD_MS = 2_000_000  # of one that should not have been sent


def topology(kind: str, version: Version, name: str = "t") -> sk.Topology:
    app, wait = sk.Topology(name), f"{version.wait_s} s"
    rows, other = app.stream("in", max_jump=version.jump), app.stream("ahead")
    other.filter("n < 0").to("ignored")  # in both versions, so that it is read
    if version.is_merged:
        rows = rows.merge(other.filter("n < 0"))
    windows = WINDOWS.get(kind, WINDOWS["tumbling"])(wait)
    finals = lambda: rows.group_by("k").windowed_by(windows).agg(c=F.max("n"), store="A")  # noqa: E731
    if kind in WINDOWS:
        finals().emit("final").to("out")
    elif kind == "closing":
        finals().suppress(until=sk.window_closes(), name="S").to_stream().to("out")
    elif kind == "limit":
        table = rows.group_by("k").agg(c=F.max("n"), store="A")
        table.suppress(until=sk.time_limit(wait), name="S").to_stream().to("out")
    elif kind == "limit behind windows":
        table = finals().emit("final").group_by("k").agg(c=F.max("c"), store="B")
        table.suppress(until=sk.time_limit("15 s"), name="S").to_stream().to("out")
    elif kind == "windows behind windows":
        between = finals().emit("final")
        between.to("between")
        behind = between.group_by("k").windowed_by(sk.tumbling("30 s", grace="15 s", retention="1 hour"))
        behind.agg(c=F.max("c"), parts=F.count("*"), store="B").emit("final").to("out")
    elif kind == "versioned":
        table = app.table("names", versioned="1 hour").select("k", r="n")
        rows.join(table, on="k", how="left", grace=wait, name="V").to("out")
    else:
        left = rows if kind == "join" else finals().emit("final").select_key("k").select("k", n="c")
        none = app.stream("none").select("k", r="n")
        left.join(none, within=sk.within("1 s", grace=wait if kind == "join" else "2 s"), how="left", name="J").to("out")
    return app


def result(kind: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a result is of: a window of a key, a value of a table's row, or a record."""
    if kind == "sessions":
        return row["k"], row["window_start"], row["window_end"]
    return row["k"], row["window_start"] if "window_start" in row else row["c" if "c" in row else "n"]


def given(log: Log, kind: str) -> Counter[tuple[Any, ...]]:
    """How often each result came."""
    return Counter(result(kind, one.row) for one in written(log, "out")) if "out" in log.topics() else Counter()


def expected(kind: str, sent: Sequence[Mapping[str, Any]]) -> set[tuple[Any, ...]]:
    """Results that must come: those of the records that are the newest when they come, for by no grace are these late."""
    times = list(accumulate((row["ts"] for row in sent), max))
    newest = [row for row, time in zip(sent, times, strict=True) if row["ts"] == time]
    if kind in BEHIND:  # late records may make another greatest number
        return set()
    if kind == "sessions":  # which, late records say as well
        return {(row["k"], row["ts"]) for row in newest}
    if kind == "limit":
        return {(row["k"], row["n"]) for row in {row["k"]: row for row in sent}.values()}  # the last of each key
    return {(row["k"], row["ts"] // 10_000 * 10_000 if kind in ("tumbling", "closing") else row["n"]) for row in newest}


def check_parts(log: Log, kind: str) -> None:
    """No record is in two sessions, and no window in two of the windows behind it."""
    rows = [one.row for one in written(log, "out")]
    if kind == "sessions":
        spans = sorted((row["k"], row["window_start"], row["window_end"]) for row in rows)
        assert all(one[0] != next_[0] or one[2] < next_[1] for one, next_ in pairwise(spans)), "a record came in two sessions"
    if kind == "windows behind windows":
        taken = Counter[str]()
        for row in rows:
            taken[row["k"]] += row["parts"]
        assert taken <= Counter(one.row["k"] for one in written(log, "between")), "a window came in two of the windows behind it"


def records(chance: random.Random, first: int, count: int) -> list[dict[str, Any]]:
    """Records of some keys, in the order of time but for some, each with a number of its own."""
    late = [chance.choice([0, 0, 0, 3_000]) for _ in range(count)]
    return [{"k": chance.choice("ab"), "n": first + at, "ts": (first + at) * 700 - late[at]} for at in range(count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_results_come_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result comes once from both programs together, or the change is refused and the old program goes on."""
    monkeypatch.setattr(following, "WAIT_SECONDS", 0.01)
    chance, kind = random.Random(seed), KINDS[seed % len(KINDS)]
    (old, new), is_followed = CHANGES[seed // len(KINDS)], chance.random() < 0.5
    with fresh_log() as log:
        create(log)
        sent = records(chance, 10, 60)
        append(log, "in", sent)
        append(log, "ahead", [{"k": "a", "n": 1, "ts": AHEAD_MS}])
        has_jumped = new.jump is not None or chance.random() < 0.2
        if has_jumped:
            append(log, "in", [{"k": "z", "n": 0, "ts": FAR_AHEAD_MS}])
        is_drained = chance.random() < 0.5
        run(log, topology(kind, old), drain=is_drained)
        more = records(chance, 70, 5)
        append(log, "in", more)
        run(log, topology(kind, old))
        before, goes_on = given(log, kind), topology(kind, new, "second" if is_followed else "t")
        try:
            (take_over if is_followed else rebuild)(log, goes_on, kind)
        except OrphanedStateError:
            assert new != old or is_drained, "what has not changed can be read again"
            if "second" in [one.name for one in log.catalog.applications.every()]:
                log.catalog.applications.reset("second")
            goes_on = topology(kind, old)
        assert given(log, kind) == before, "what is read again gives nothing"

        later = records(chance, 80, 20)
        append(log, "in", later[:10])
        run(log, goes_on)
        with suppress(OrphanedStateError):  # once more, as what goes on now
            rebuild(log, goes_on, kind)
        append(log, "in", later[10:])
        run(log, goes_on, drain=True)
        found = given(log, kind)
        assert max(found.values()) == 1, "a result came twice"
        check_parts(log, kind)
        is_late = has_jumped or old.is_merged or new.is_merged  # what comes later, by that
        wanted = expected(kind, sent if is_late and kind != "limit" else [*sent, *more, *later])
        if kind == "sessions":
            assert all(any(one == k and start <= ts <= end for one, start, end in found) for k, ts in wanted), (
                "a record is in no session"
            )
        else:
            assert wanted <= set(found), "a result never came"


def run(log: Log, app: sk.Topology, *, drain: bool = False) -> None:
    execute(log, compile(app, log), Run(drain=drain))


def rebuild(log: Log, app: sk.Topology, kind: str) -> None:
    rebuild_stores(log, compile(app, log), Rebuild(STORES.get(kind, ("A",)), records_max=20))


def take_over(log: Log, app: sk.Topology, kind: str) -> None:
    """Follow until a while has passed in which nothing came, so that a refusal would have been seen; then take over."""
    looks = iter(range(40))
    follow(log, compile(app, log), Succession("t", records_max=20, is_stopped=lambda: next(looks, None) is None))
    log.catalog.applications.hand_over(app.name)
    assert follow(log, compile(app, log), Succession("t"))


def create(log: Log) -> None:
    for name in ("in", "ahead", "none", "names"):
        log.create_topic(name, "k string, n bigint", key="k", partitions=1, config={"retention.ms": "-1"})


def append_at(log: Log, *times_s: int, topic: str = "in", key: str = "a") -> None:
    append(log, topic, [{"k": key, "n": time_s, "ts": time_s * 1000} for time_s in times_s])


@pytest.mark.parametrize("kind", ["join", "versioned"])
@pytest.mark.parametrize("is_drained", [True, False])
def test_what_came_ahead_of_stream_time(kind: str, is_drained: bool) -> None:
    """Rows that a drain, or a rebuild with a longer grace, has given ahead are not read again before stream time has passed them."""
    short, long = (topology(kind, Version(wait_s=wait_s)) for wait_s in (0, 20))
    with fresh_log() as log:
        create(log)
        append_at(log, 0, 5, 15, 25, 35)
        run(log, long if is_drained else short, drain=is_drained)
        if not is_drained:
            rebuild(log, long, kind)
        append_at(log, 36)
        run(log, long)
        with pytest.raises(OrphanedStateError, match=r"were given ahead of stream time.*which is 36000 ms, has reached \d{5} ms"):
            rebuild(log, long, kind)
        append_at(log, 100, key="b")
        run(log, long)
        rebuild(log, long, kind)
        run(log, long, drain=True)
        assert sorted(given(log, kind).elements()) == [*(("a", time_s) for time_s in (0, 5, 15, 25, 35, 36)), ("b", 100)]


def test_a_limit_behind_longer_waits() -> None:
    """Rows of suppress() wait since the first of them came, and so wait otherwise behind windows that close later."""
    with fresh_log() as log:
        create(log)
        append_at(log, 0, 5, 15, 25, 35)
        run(log, topology("limit behind windows", Version(wait_s=0)))
        with pytest.raises(OrphanedStateError, match="steps in front of them now wait or move stream time in another way"):
            rebuild(log, topology("limit behind windows", Version(wait_s=20)), "limit behind windows")


def test_a_limit_whose_stream_time_went_another_way() -> None:
    """Where streams in front of suppress() changed at an earlier start, what is read again would wait otherwise, for good."""
    with fresh_log() as log:
        create(log)
        append_at(log, 0, 35)
        append_at(log, 60, topic="ahead")
        run(log, topology("limit", Version(is_merged=True)))
        append_at(log, 36, 90)
        run(log, topology("limit", Version()))
        append_at(log, 900)
        run(log, topology("limit", Version()))
        with pytest.raises(
            OrphanedStateError, match="waited, before an earlier start, behind other streams or other steps that wait"
        ):
            rebuild(log, topology("limit", Version()), "limit")
