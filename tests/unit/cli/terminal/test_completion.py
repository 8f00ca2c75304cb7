"""A shell completes the names that the log has."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

import streamkit as sk
from streamkit.cli.main import program
from streamkit.log.topic.settings import SETTINGS


@pytest.fixture
def run(root):
    """What a shell would get for the last of the words: the program's whole output, on both streams."""

    def run(*words, log=root):
        environment = {
            "_STREAMKIT_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("streamkit", *words)),
            "COMP_CWORD": str(len(words)),
            "STREAMKIT_LOG": str(log),
        }
        result = CliRunner().invoke(program, prog_name="streamkit", env=environment, catch_exceptions=False)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.output

    return run


@pytest.fixture
def complete(run):
    return lambda *words, **log: run(*words, **log).split()


@pytest.fixture
def billing(root):
    """The groups billing and shipping, which have committed."""
    with sk.open_log(root) as log:
        log.groups.reset("billing", {"orders": {0: 1}})
        log.groups.reset("shipping", {"orders": {0: 1}})


def files_of(folder):
    """Files and their bytes, but for those that SQLite's readers share."""
    scratch = ("catalog.db-shm", "catalog.db-wal")
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name not in scratch}


def test_names_of_topics(complete):
    """Topics that begin with what was typed are offered, after any command that takes one."""
    assert complete("consume", "") == ["customers", "orders"]
    assert complete("topics", "describe", "or") == ["orders"]
    assert complete("groups", "reset", "billing", "--topic", "c") == ["customers"]
    assert complete("maintain", "orders", "cu") == ["customers"]


def test_a_new_name_is_not_an_old_one(complete):
    """Names that are taken are not offered for a topic that is to be created."""
    assert complete("topics", "create", "") == []


def test_names_of_groups(complete, billing):
    """Groups are offered as an argument and as the value of an option."""
    assert complete("groups", "describe", "") == ["billing", "shipping"]
    assert complete("consume", "orders", "--group", "b") == ["billing"]


def test_names_of_applications_and_stores(complete, application):
    """An application is offered, and behind it the stores that it has; of one that is not there, none."""
    assert complete("apps", "describe", "") == [application]
    assert complete("store", "get", "") == [application]
    assert sorted(complete("store", "get", application, "")) == ["hourly", "orders_of"]
    assert complete("store", "get", application, "h") == ["hourly"]
    assert complete("store", "get", "nobody", "") == []


def test_names_of_settings(complete):
    """Settings are offered with the sign that their value follows, or alone where they are set back."""
    assert complete("topics", "create", "t", "--config", "retention") == ["retention.ms=", "retention.bytes="]
    assert complete("topics", "alter", "orders", "--delete-config", "") == list(SETTINGS)


def test_words_that_are_always_the_same(complete):
    """Positions and formats are offered as they are written."""
    assert complete("groups", "reset", "g", "--to", "") == ["earliest", "latest"]
    assert complete("consume", "orders", "--offset", "l") == ["latest"]
    assert complete("topics", "create", "t", "--format", "a") == ["avro"]
    assert complete("consume", "orders", "--format", "") == ["table", "json", "csv"]


def test_the_log_of_the_command_line_counts(complete, tmp_path):
    """Names come from the log that --log names, if it was typed before."""
    with sk.open_log(tmp_path / "other") as log:
        log.create_topic("elsewhere", "n int")

    assert complete("consume", "--log", str(tmp_path / "other"), "") == ["elsewhere"]
    assert complete("groups", "reset", "g", "--log", str(tmp_path / "other"), "--topic", "") == ["elsewhere"]


def test_commands(complete):
    """So are the commands themselves."""
    assert {"topics", "consume", "groups", "fsck"} <= set(complete(""))


def test_without_a_log_nothing_is_offered(complete, tmp_path):
    """Where there is no log, completion is silent, and makes none."""
    assert complete("consume", "", log=tmp_path / "nowhere") == []
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("damage", ["catalog", "topic", "file", "settings", "address", "format"])
def test_what_is_broken_is_not_the_shells_business(run, root, tmp_path, monkeypatch, damage):
    """Whatever is wrong with the log or the settings, a completion prints nothing at all."""
    log = str(root)
    if damage == "catalog":
        (root / "catalog.db").write_bytes(b"no database" * 1000)
    if damage == "file":
        shutil.rmtree(root)
        root.write_text("a file where a folder is expected")
    if damage == "settings":
        (tmp_path / "streamkit.toml").write_bytes(b"\xff is no text")
        monkeypatch.setenv("STREAMKIT_CONF", str(tmp_path / "streamkit.toml"))
    if damage == "address":
        log = "postgresql://nobody@nowhere.invalid/db?storage=/nowhere"
    if damage in ("format", "topic"):
        statement = "UPDATE log SET format = 999" if damage == "format" else "UPDATE topic SET declaration = '{'"
        with sk.open_log(root) as opened, opened.catalog.database.write() as transaction:
            transaction.execute(statement)

    assert run("consume", "", log=log).strip() == ""


def test_completion_leaves_the_log_as_it_is(complete, root):
    """The log is opened for looking only: no file of it changes, none is added."""
    (root / "journal").rename(root / "journal-away")  # what opening the log would repair, by a copy of the catalog
    before = files_of(root)

    assert complete("consume", "") == ["customers", "orders"]
    assert files_of(root) == before
