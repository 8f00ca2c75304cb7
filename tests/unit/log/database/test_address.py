"""Promises of the URL of a log with its catalog on a server."""

from __future__ import annotations

import pytest

from streamkit.errors import ConfigError
from streamkit.log.database.address import is_address, parse_address


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("postgresql://h/d", True), ("postgres://h/d", True), ("postgresql", False), ("./postgresql://x", False),
        ("file:///x", False), ("s3://b/x", False), (".streamkit", False),
    ],
)  # fmt: skip
def test_urls_of_servers_are_told_from_directories(location, expected):
    """Only libpq's two schemes name a server."""
    assert is_address(location) == expected


@pytest.mark.parametrize(
    ("url", "server", "schema", "storage"),
    [
        ("postgresql://u@h:5433/d?storage=/s", "postgresql://u@h:5433/d", "streamkit", "/s"),
        ("postgresql://h/d?schema=a_1&storage=/s&sslmode=require", "postgresql://h/d?sslmode=require", "a_1", "/s"),
        ("postgresql://u@h1,h2:5433/d?storage=/a b", "postgresql://u@h1,h2:5433/d", "streamkit", "/a b"),
        ("postgresql://u@[::1]:5432/d?storage=/s", "postgresql://u@[::1]:5432/d", "streamkit", "/s"),
        ("postgresql:///d?host=/run/pg&storage=/s", "postgresql:///d?host=/run/pg", "streamkit", "/s"),
    ],
)  # fmt: skip
def test_a_url_is_taken_apart(url, server, schema, storage):
    """What is ours is taken out, everything else goes to libpq; the text gives the same address again."""
    address = parse_address(url)
    assert (address.server, address.schema, address.storage, address.has_password) == (server, schema, storage, False)
    assert parse_address(address.text) == address


def test_the_storage_of_the_url_is_stronger_than_the_setting(tmp_path, monkeypatch):
    """The setting counts where the URL names no storage, and a directory is made absolute."""
    monkeypatch.chdir(tmp_path)
    assert parse_address("postgresql://h/d?storage=/url", "/setting").storage == "/url"
    assert parse_address("postgresql://h/d", "setting").storage == str(tmp_path / "setting")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:secret@h/d?storage=/s",
        "postgresql://u@h/d?password=secret&storage=/s",
        "postgresql://u@h/d?sslpassword=secret&storage=/s",
    ],
)
def test_passwords_stay_inside(url):
    """A password is in what libpq gets, and in no text of the address."""
    address = parse_address(url)
    assert address.has_password and "secret" in address.server
    assert "secret" not in address.text and "secret" not in repr(address)
    assert parse_address(address.text).has_password is False


@pytest.mark.parametrize("password", ["ZZ/QQ", "ZZ?QQ", "ZZ@QQ", "ZZ#QQ", "ZZ:QQ@", "1?QQ", "1/QQ", "ZZ QQ?x=y", "ZZ?x=QQ"])
def test_a_url_that_cannot_be_read_is_not_repeated(password):
    """A password that is not percent-encoded breaks the URL, or is taken as it is; no text ever has a part of it."""
    try:
        address = parse_address(f"postgresql://user:{password}@host/db?storage=/s")
        shown = address.text + repr(address)
    except ConfigError as error:
        shown = str(error)
        assert "percent-encoded" in shown
    assert "QQ" not in shown and "ZZ" not in shown


@pytest.mark.parametrize(
    "schema", ["", "1a", "pg_x", "pg_catalog", "information_schema", "A", "a-b", 'a"b', "a;b", "x" * 64, "größe"]
)
def test_schemas_are_plain_names(schema):
    """A schema that would need quotes, or is PostgreSQL's own, is refused."""
    with pytest.raises(ConfigError, match="of a log cannot be used"):
        parse_address(f"postgresql://h/d?storage=/s&schema={schema}")
