"""Which logs a run takes: those that are there, and that Spark's processes can open; decided before Spark starts."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import ConfigError


@pytest.fixture
def app(monkeypatch):
    """A topology that runs nowhere: a session would be asked for first."""

    def started(name, spark_log=None):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("streamkit.spark.spark_run.get_or_create_session", started)
    monkeypatch.setattr("streamkit.spark.command.get_or_create_session", started)
    app = sk.Topology("any")
    app.stream("orders").to("copies")
    return app


def test_a_log_in_memory_is_refused(app):
    """A log that only this process can see is refused in words, whether it is given by name or is open."""
    with pytest.raises(ConfigError, match=r"in memory is seen only by the process that opened it; expected a directory"):
        sk.run(app, log=":memory:")
    with (
        sk.open_log(":memory:") as log,
        pytest.raises(ConfigError, match=r"expected a directory.*Spark's tasks are other processes"),
    ):
        sk.run(app, log=log)


@pytest.mark.parametrize("location", [":memory:", None])
def test_a_file_says_which_log_it_needs(app, location, tmp_path, monkeypatch, capsys):
    """`python FILE` ends with one message where there is no log that it could run on, and makes none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMKIT_LOG", raising=False)
    with pytest.raises(SystemExit) as end:
        sk.main(app, [] if location is None else ["--log", location])

    error = " ".join(capsys.readouterr().err.split())
    assert end.value.code == 1
    assert ("in memory is seen only by" if location else "streamkit topics create") in error
    assert list(tmp_path.iterdir()) == []


def test_a_run_makes_no_log(app, tmp_path, monkeypatch):
    """A run in a folder without a log says so, and leaves the folder as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMKIT_LOG", raising=False)
    with pytest.raises(ConfigError, match=r"there is no log at .*\.streamkit; name one with log=, --log or STREAMKIT_LOG"):
        sk.run(app)

    assert list(tmp_path.iterdir()) == []
