"""With `local_dir` each host keeps the stores of applications on a disk of its own, and the log that they share has none of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import streamkit as sk
from streamkit import functions as F
from streamkit.cli.main import program
from streamkit.engine.runs.standby import WarmCopies
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.names import local_root, store_folder
from streamkit.state.tiered_store import TieredStore
from streamkit.state.verification import verify_stores
from tests.kit.engine_run import append
from tests.kit.stored import put
from tests.kit.waiting import WAIT_SECONDS

PLAYERS = 50
TASKS = 2


def topology() -> sk.Topology:
    app = sk.Topology("points")
    app.stream("games").group_by("player").agg(total=F.sum("points"), store="totals").to("totals_out")
    return app


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log with some games."""
    with sk.open_log(tmp_path / "shared" / "log") as log:
        log.create_topic("games", "player string, points bigint", key="player", partitions=1)
        play(log)
    return tmp_path / "shared" / "log"


@contextmanager
def host(root: Path, local_dir: Path | None) -> Iterator[Log]:
    """The log as a process of a host has it, which keeps stores there."""
    with pytest.MonkeyPatch.context() as patch:
        if local_dir is not None:
            patch.setenv("STREAMKIT_LOCAL_DIR", str(local_dir))
        with sk.open_log(root) as log:
            yield log


def test_a_home_of_nobody_is_refused(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` with a name that no user has makes no folder of that name, wherever a folder is named."""
    monkeypatch.chdir(tmp_path)
    message = r"'~no-such-user/x' cannot be used: there is no user 'no-such-user' here; expected a path .* or ./~no-such-user"
    with host(root, Path("~no-such-user/x")) as log, pytest.raises(ConfigError, match=f"the setting local_dir {message}"):
        run(log)
    with pytest.raises(ConfigError, match=f"the log directory {message}"):
        sk.open_log("~no-such-user/x")
    with pytest.raises(ConfigError, match=message):
        local_root(str(root), "~no-such-user/x")
    assert list(tmp_path.glob("~*")) == []


def play(log: Log) -> None:
    append(log, "games", [{"player": f"p{n}", "points": 1, "ts": n} for n in range(PLAYERS)])


def run(log: Log) -> int:
    """Take what is there; how many changes stores had to apply for that."""
    running = sk.run(topology(), log=log, engine="local", tasks=TASKS, trigger="available_now")
    assert running.wait(WAIT_SECONDS)
    return sum(epoch["restored"] for epoch in running.progress() if epoch["epoch"] == running.status()["epoch"])


def totals(log: Log) -> dict[str, int]:
    return {row["player"]: row["total"] for row in log.store("points", "totals").to_arrow().to_pylist()}


def stores_below(folder: Path) -> list[Path]:
    return sorted(owner.parent for owner in folder.rglob("OWNER"))


def situations(log: Log) -> list[str]:
    return [task.situation for task in verify_stores(log, "points")]


def test_stores_are_where_the_host_has_them(root: Path, tmp_path: Path) -> None:
    """Runs, views and the proof of a store use the folder of the host; below the root there are no stores."""
    with host(root, tmp_path / "disk") as log:
        run(log)
        place = Path(local_root(str(root), str(tmp_path / "disk")))
        assert stores_below(tmp_path / "disk") == [place / store_folder("points", 1, task, TASKS) for task in range(TASKS)]
        assert not (root / "stores").exists()
        play(log)
        run(log)
        assert situations(log) == ["equal", "equal"]
        assert totals(log) == {f"p{n}": 2 for n in range(PLAYERS)}


def test_two_hosts_have_stores_of_their_own(root: Path, tmp_path: Path) -> None:
    """An application that moves to another host restores its stores there, and finds on the first one what it left, for what came since."""
    with host(root, tmp_path / "one") as log:
        run(log)
        play(log)
        assert run(log) == PLAYERS
    with host(root, tmp_path / "other") as log:
        play(log)
        assert run(log) == 2 * PLAYERS
        assert situations(log) == ["equal", "equal"]
    with host(root, tmp_path / "one") as log:
        assert situations(log) == ["equal", "equal"]
        play(log)
        assert run(log) == 2 * PLAYERS  # its files had one epoch of three
        assert totals(log) == {f"p{n}": 4 for n in range(PLAYERS)}
    assert len(stores_below(tmp_path / "one")) == len(stores_below(tmp_path / "other")) == TASKS


def test_a_standby_keeps_copies_on_its_own_host(root: Path, tmp_path: Path) -> None:
    """A process that stands by has stores in the folder of its host, up to date, so that the run begins there without a restore."""
    with host(root, tmp_path / "one") as log:
        run(log)
    with host(root, tmp_path / "other") as log:
        assert WarmCopies(log, "points").refresh() == PLAYERS
        assert len(stores_below(tmp_path / "other")) == TASKS and situations(log) == ["equal", "equal"]
        play(log)
        assert run(log) == 0


def test_who_does_not_know_the_folder_reads_the_changelog(root: Path, tmp_path: Path) -> None:
    """A process without the setting shows the same rows, and has nothing to verify; neither has one of another host."""
    with host(root, tmp_path / "disk") as log:
        run(log)
    for local_dir in (None, tmp_path / "other"):
        with host(root, local_dir) as log:
            assert totals(log) == {f"p{n}": 1 for n in range(PLAYERS)}
            assert situations(log) == ["absent", "absent"]
            assert log.fsck(deep=True).is_clean
    assert not (tmp_path / "other").exists()


def test_what_an_earlier_start_left_below_the_root_is_read_rightly(root: Path, tmp_path: Path) -> None:
    """Stores below the root stay when the setting is made; whoever reads them there takes what is missing from the changelog."""
    with host(root, None) as log:
        run(log)
    with host(root, tmp_path / "disk") as log:
        play(log)
        run(log)
    with host(root, None) as log:
        assert totals(log) == {f"p{n}": 2 for n in range(PLAYERS)}


def test_logs_share_a_local_folder(root: Path, tmp_path: Path) -> None:
    """Two logs with an application of one name have stores of their own in it."""
    other = shutil.copytree(root, tmp_path / "elsewhere" / "log")
    for turn in (1, 2):
        for one in (root, other):
            with host(one, tmp_path / "disk") as log:
                if one is root:
                    play(log)
                play(log)
                run(log)
                assert set(totals(log).values()) == {(2 if one is root else 1) * turn + 1}
    assert len(stores_below(tmp_path / "disk")) == 2 * TASKS


def test_commands_know_where_to_look(root: Path, tmp_path: Path) -> None:
    """The deep check and `store verify` find what is wrong in the folder of the host; a reset removes it."""
    for _ in range(2):
        with host(root, tmp_path / "disk") as log:
            play(log)
            run(log)
    assert asked(root, tmp_path / "disk", "store", "verify", "points").exit_code == 0
    store = TieredStore(stores_below(tmp_path / "disk")[0])
    (key, *_), (value, *_) = store.scan(b"", b"\xff\xff")
    put(store, [key], [value[:-1] + b"\x07"], store.position() or b"")
    store.close()
    assert asked(root, tmp_path / "disk", "store", "verify", "points").exit_code == 1
    assert asked(root, tmp_path / "other", "store", "verify", "points").exit_code == 0
    assert "rows differ" in asked(root, tmp_path / "disk", "fsck", "--deep").output
    assert asked(root, tmp_path / "disk", "apps", "reset", "points", "--yes").exit_code == 0
    assert stores_below(tmp_path / "disk") == []


def asked(root: Path, local_dir: Path, *words: str) -> Any:
    """What a command does on a host."""
    environment = {"STREAMKIT_LOG": str(root), "STREAMKIT_LOCAL_DIR": str(local_dir)}
    return CliRunner().invoke(program, words, env=environment, catch_exceptions=False)


def test_a_log_in_memory_keeps_its_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends with the process needs no folder on any disk."""
    monkeypatch.setenv("STREAMKIT_LOCAL_DIR", str(tmp_path / "disk"))
    with sk.open_log(":memory:") as log:
        log.create_topic("games", "player string, points bigint", key="player", partitions=1)
        play(log)
        run(log)
        assert totals(log) == {f"p{n}": 1 for n in range(PLAYERS)}
    assert not (tmp_path / "disk").exists()


def test_a_folder_that_cannot_be_made_is_refused(root: Path, tmp_path: Path) -> None:
    """A start says which folder it is, and that nothing can be written there, before anything has changed."""
    (tmp_path / "file").write_text("no folder")
    with host(root, tmp_path / "file" / "below") as log:
        with pytest.raises(
            ConfigError, match=r"the setting local_dir is '.*below', and .* cannot be made: .*file is a file; expected a folder"
        ):
            run(log)
        assert not [state.name for state in log.catalog.applications.every()]


@pytest.mark.parametrize("name", ["link", "link/below"])
def test_a_link_to_nothing_is_refused_as_that(root: Path, tmp_path: Path, name: str) -> None:
    """A disk that is not mounted: the link that leads to it is named."""
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with (
        host(root, tmp_path / name) as log,
        pytest.raises(ConfigError, match=f"cannot be made: {tmp_path}/link is a link to {tmp_path}/disk, which does not exist"),
    ):
        run(log)


def test_a_folder_of_the_user_is_below_home(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home of the user, for the run and for who looks; another path is taken from the working folder, as that of a log is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for chosen, found in (("~/disk", "home/disk"), ("disk", "disk")):
        with host(root, Path(chosen)) as log:
            run(log)
            play(log)
            run(log)
            assert len(stores_below(tmp_path / found)) == TASKS and situations(log) == ["equal", "equal"]
    assert not (tmp_path / "~").exists()
