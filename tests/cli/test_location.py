"""Promises of --log and STREAMKIT_LOG: what they may name, and that looking makes nothing."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import ConfigError
from streamkit.spark.run import run
from tests.places import open_postgres

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
    with pytest.raises(ConfigError, match=r"leave it out, and put it into ~/.pgpass, or into PGPASSWORD") as refused:
        run(sk.Topology("any"), log=url)
    assert "secret" not in str(refused.value)
