"""While an application restores its stores, everybody who waits can see how far it is, and why it does."""

from __future__ import annotations

import io
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import streamkit as sk
from streamkit import functions as F
from streamkit.cli.main import program
from streamkit.engine.runs.progress import progress_line
from streamkit.launch import progress
from streamkit.launch.progress import follow
from streamkit.log.log import Log
from streamkit.state import restoring
from streamkit.state.restoring import RestoreReport
from streamkit.stop_signals import StopSignals
from tests.kit.engine_run import append
from tests.kit.waiting import WAIT_SECONDS, wait_until

PLAYERS = 500


def topology() -> sk.Topology:
    app = sk.Topology("points")
    app.stream("games").group_by("player").agg(total=F.sum("points"), store="totals").to("totals_out")
    return app


def play(log: Log, players: int) -> None:
    append(log, "games", [{"player": f"p{n}", "points": n, "ts": n} for n in range(players)])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log with an application whose local stores are gone, and something for it to do."""
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("games", "player string, points bigint", key="player", partitions=1)
        play(log, PLAYERS)
        assert sk.run(topology(), log=log, engine="local", tasks=2, trigger="available_now").wait(WAIT_SECONDS)
        shutil.rmtree(tmp_path / "log" / "stores")
        play(log, 1)
        yield log


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Restores that tell at once, and stand still once they have told something, until the event is set."""
    goes_on, advance = threading.Event(), RestoreReport.advance

    def told(report: RestoreReport, changes: int) -> None:
        advance(report, changes)
        assert goes_on.wait(WAIT_SECONDS)

    monkeypatch.setattr(restoring, "TELL_SECONDS", 0.0)
    monkeypatch.setattr(RestoreReport, "advance", told)
    yield goes_on
    goes_on.set()


def test_a_run_tells_how_far_its_stores_are(log: Log, held: threading.Event) -> None:
    """Status, progress and the line of a command have changes, rate and time left of each task, and nothing of it when all is restored."""
    running = sk.run(topology(), log=log, engine="local", trigger="available_now")
    try:
        wait_until(lambda: len(running.restoring()) == 2)
        tasks = running.status()["restoring"]
        assert [(one["stage"], one["task"], one["tasks"]) for one in tasks] == [(1, 0, 2), (1, 1, 2)]
        assert sum(one["changes_total"] for one in tasks) == PLAYERS
        assert all(0 < one["changes"] <= one["changes_total"] and one["seconds_left"] is not None for one in tasks)
        *_, last = running.progress()
        assert (last["epoch"], last["timestamp_ms"], last["records"]) == (2, None, 0)
        assert last["restored"] == sum(one["changes"] for one in last["restoring"]) > 0
        assert f", restores {last['restored']:,} of {PLAYERS} changes, " in progress_line(running, 0.0)
        assert "<td>restores</td>" in running._repr_html_()
    finally:
        held.set()
    assert running.wait(WAIT_SECONDS)
    assert running.status()["restoring"] == [] and "restores" not in progress_line(running, 0.0)
    assert [epoch["restored"] for epoch in running.progress()] == [0, PLAYERS]
    assert not list(Path(log.root, "restoring").rglob("*-of-*"))


def test_other_processes_see_it(log: Log, held: threading.Event) -> None:
    """`streamkit apps` shows the restore of a run that it has nothing to do with."""

    def asked(*words: str) -> str:
        result = CliRunner().invoke(program, ["apps", *words], env={"STREAMKIT_LOG": log.root}, catch_exceptions=False)
        assert result.exit_code == 0
        return result.output

    running = sk.run(topology(), log=log, engine="local", trigger="available_now")
    try:
        wait_until(lambda: len(running.restoring()) == 2)
        assert "running, restores its stores: " in asked("list")
        assert "restoring stage" in asked("describe", "points")
        assert sum(one["changes_total"] for one in json.loads(asked("describe", "points", "--json"))["restoring"]) == PLAYERS
        assert log.fsck().findings == ()
    finally:
        held.set()
    assert running.wait(WAIT_SECONDS)
    assert "restor" not in asked("list") + asked("describe", "points")
    assert json.loads(asked("describe", "points", "--json"))["restoring"] == []


def test_the_console_says_so_at_once(log: Log, held: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside a terminal a line comes when a restore begins, long before the next one is due."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 10 * WAIT_SECONDS)
    shown = io.StringIO()
    running = sk.run(topology(), log=log, engine="local", trigger="available_now")

    def watch() -> None:
        wait_until(lambda: "restores" in shown.getvalue())
        held.set()

    watched = threading.Thread(target=watch)
    watched.start()
    follow(running, Console(file=shown, width=300), StopSignals(), is_bounded=True)
    watched.join()
    (line,) = shown.getvalue().splitlines()
    assert f" of {PLAYERS} changes, " in line and "points: epoch 1" in line


def test_a_start_forgets_what_dead_tasks_told(log: Log) -> None:
    """What a process that was killed left of its progress is removed by the next start."""
    left = Path(log.root, "restoring", "points", "1-7-of-8")
    left.parent.mkdir(parents=True)
    left.write_text("{}")
    assert sk.run(topology(), log=log, engine="local", trigger="available_now").wait(WAIT_SECONDS)
    assert not left.exists()
    assert log.fsck().is_clean
