"""A catalog whose file was deleted while it was open, or changed for another one: nothing is written that would be lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import streamkit as sk
from streamkit.errors import CatalogLostError
from streamkit.log.log import Log


def made(folder: Path) -> Log:
    """A log with a topic and a row."""
    log = sk.open_log(str(folder))
    log.create_topic("t", "a int")
    send(log, 1)
    return log


def send(log: Log, a: int) -> None:
    with log.producer() as producer:
        producer.send("t", {"a": a})


@pytest.mark.parametrize("is_made_again", [False, True])
def test_what_would_be_lost_is_refused(tmp_path: Path, is_made_again: bool) -> None:
    """Each commit is, and the folder stays as others have left it."""
    folder = tmp_path / "log"
    stale = made(folder)
    shutil.rmtree(folder)
    if is_made_again:
        made(folder).close()
    before = sorted(os.listdir(folder)) if is_made_again else []
    for _ in range(2):
        with pytest.raises(CatalogLostError, match="was deleted, or another one took its place"):
            send(stale, 2)
        with pytest.raises(CatalogLostError, match="close the log and open it again"):
            stale.create_topic("u", "a int")
    stale.close()
    assert (sorted(os.listdir(folder)) if is_made_again else []) == before
    with made(folder) if not is_made_again else sk.open_log(str(folder)) as log:
        send(log, 3)
        assert log.read("t")["a"].to_pylist() == [1, 3]


def test_a_file_that_is_moved_back_is_the_same(tmp_path: Path) -> None:
    """As by a backup that moves a folder for a moment."""
    with made(tmp_path / "log") as log:
        (tmp_path / "log").rename(tmp_path / "away")
        with pytest.raises(CatalogLostError):
            send(log, 2)
        (tmp_path / "away").rename(tmp_path / "log")
        send(log, 3)
        assert log.read("t")["a"].to_pylist()[0] == 1
        assert 3 in log.read("t")["a"].to_pylist()
