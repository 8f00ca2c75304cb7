"""Promises of --log and STREAMKIT_LOG: what they may name, and that looking makes nothing."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import ConfigError
from streamkit.launch.run import run
from tests.kit.places import open_postgres

PASSWORD = "secret%2F"


@pytest.fixture
def url(postgres, tmp_path):
    return postgres.url(storage=tmp_path / "shared")


def test_a_url_works_like_a_directory(url, streamkit):
    """Commands take the URL of a log in PostgreSQL where they take a directory."""
    with sk.open_log(url) as log, log.producer() as producer:
        log.create_topic("t", "n bigint")
        producer.send("t", {"n": 41})

    assert "41" in streamkit("consume", "t", "--log", url)
    assert "t" in streamkit("topics", "list", "--log", url)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("rebuild",),
            "error: a catalog in PostgreSQL has no rebuild, but PostgreSQL's own backups; this rebuilds one in SQLite",
        ),
        (
            ("rebuild", "--from-slabs"),
            "error: the slabs of a log with its catalog in PostgreSQL are in its storage directory; give",
        ),
    ],
)
def test_a_catalog_in_postgresql_is_rebuilt_by_its_own_tools(as_program, arguments, message):
    """A URL is no folder to rebuild: the error says what is, and not the password."""
    code, out, err = as_program(*arguments, "--log", f"postgresql://user:{PASSWORD}@host/database?storage=/none")

    assert (code, out) == (1, "")
    assert err.startswith(message)
    assert PASSWORD not in err


def test_a_file_url_is_its_folder(streamkit, as_program, root):
    """Every command takes file:// and a directory, those that look at the files alone too."""
    url = f"file://{root}"

    assert "orders" in streamkit("topics", "list", "--log", url)
    assert f"{root} is whole" in streamkit("fsck", "--log", url)
    assert as_program("rebuild", "--log", url)[2].startswith(f"error: the catalog {root}/catalog.db is sound")


@pytest.mark.parametrize("command", [("topics", "list"), ("topics", "create", "t", "--schema", "n int"), ("fsck",), ("rebuild",)])
def test_an_empty_place_is_not_the_folder_one_is_in(as_program, command, tmp_path, monkeypatch):
    """`--log ""`, as of a variable that is not set, is neither the default log nor this folder."""
    monkeypatch.chdir(tmp_path)
    code, out, err = as_program(*command, "--log", "")

    assert code in (1, 2) and out == ""
    assert err.startswith("error: the log directory '' cannot be used: it is not a path; expected one such as /data/log")


def test_looking_makes_no_log(url, postgres, streamkit, tmp_path):
    """A command that reads makes neither tables nor directories where no log is."""
    with pytest.raises(ConfigError, match="storage directory of the catalog's URL holds no log"):
        streamkit("topics", "list", "--log", url)

    assert not (tmp_path / "shared").exists()
    admin = open_postgres(postgres.url(storage="/tmp"))
    with admin.read() as transaction:
        schema = url.split("schema=")[1].split("&")[0]
        assert transaction.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (schema,)) == []
    admin.close()


def test_a_password_does_not_travel_to_spark(postgres, tmp_path):
    """A run on a log whose URL has a password is refused before Spark starts, and says where the password belongs."""
    url = postgres.url(storage=tmp_path).replace("streamkit@", f"streamkit:{PASSWORD}@")
    sk.open_log(url).close()
    with pytest.raises(ConfigError, match=r"leave it out, and put it into ~/.pgpass, or into PGPASSWORD") as refused:
        run(sk.Topology("any"), log=url)
    assert "secret" not in str(refused.value)
