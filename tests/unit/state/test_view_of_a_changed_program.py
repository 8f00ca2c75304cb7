"""A view of an application that starts with a changed program, and brings its rows forward in its first epoch."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.evolution.migration import Migration
from streamkit.log.log import Log


def totals(**more: Any) -> sk.Topology:
    """Counts by key, with more aggregates."""
    app = sk.Topology("app")
    app.stream("in").group_by("k").agg(n=F.count("a"), **more, store="totals").emit("latest").to(f"out{len(more)}")
    return app


def run(log: Log, app: sk.Topology, key: int, a: int) -> None:
    """Send a row, and run until it is taken."""
    with log.producer() as producer:
        producer.send("in", {"k": key, "a": a}, timestamp_ms=1)
    sk.run(app, log=log, engine="local", trigger="available_now").wait()


@pytest.mark.parametrize("when", ["before", "between", "behind"])
def test_rows_are_those_of_the_program_that_has_written_them(monkeypatch: Any, when: str) -> None:
    """Whichever moment of the start the view was opened at, and has looked at last: each call reads rows by the program that they are of."""
    seen: list[Any] = []
    with sk.open_log(":memory:") as log:
        log.create_topic("in", "k int, a bigint", key="k", partitions=1)
        run(log, totals(), 1, 5)
        views = [log.store("app", "totals")] if when == "before" else []
        commit = Migration.commit

        def watched(self: Migration, now_ms: int) -> None:
            if when == "between":
                views.append(log.store("app", "totals"))
            seen.extend(view.get(1) for view in views)
            commit(self, now_ms)
            seen.extend(view.get(1) for view in views)

        monkeypatch.setattr(Migration, "commit", watched)
        run(log, totals(s=F.sum("a")), 1, 7)
        if when == "behind":
            views.append(log.store("app", "totals"))
        assert seen == ([] if when == "behind" else [{"k": 1, "n": 1}, {"k": 1, "n": 1, "s": None}])
        assert [view.get(1) for view in views] == [{"k": 1, "n": 2, "s": 7}]
        assert [view.to_rows() for view in views] == [[{"k": 1, "n": 2, "s": 7}]]
