"""A shell completes the names that the log has."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from streamkit.cli.main import program


@pytest.fixture
def complete(root):
    def run(*words, log=root):
        """What a shell would offer for the last of the words."""
        environment = {
            "_STREAMKIT_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("streamkit", *words)),
            "COMP_CWORD": str(len(words)),
            "STREAMKIT_LOG": str(log),
        }
        return CliRunner().invoke(program, prog_name="streamkit", env=environment).output.split()

    return run


def test_names_of_topics(complete):
    """Topics that begin with what was typed are offered, after any command that takes one."""
    assert complete("consume", "") == ["customers", "orders"]
    assert complete("topics", "describe", "or") == ["orders"]


def test_commands(complete):
    """So are the commands themselves."""
    assert {"topics", "consume", "groups", "fsck"} <= set(complete(""))


def test_without_a_log_nothing_is_offered(complete, tmp_path):
    """Where there is no log, completion is silent, and makes none."""
    assert complete("consume", "", log=tmp_path / "nowhere") == []
    assert not (tmp_path / "nowhere").exists()
