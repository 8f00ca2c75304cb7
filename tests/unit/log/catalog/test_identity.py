"""Promises of the pair of a catalog on a server and a storage: bound once, never mixed up, never taken for another."""

from __future__ import annotations

import os
import shutil

import pytest

from streamkit.errors import ConfigError
from streamkit.log.catalog import identity
from streamkit.log.opening import open_log
from streamkit.log.storage.storage import FileStorage
from tests.kit.places import open_postgres


@pytest.fixture
def url(postgres, tmp_path):
    return postgres.url(storage=tmp_path / "shared")


@pytest.fixture
def shared(url, tmp_path):
    """A log with a row, closed again: its storage."""
    with open_log(url) as log:
        log.create_topic("t", "n bigint", partitions=1)
        with log.producer() as producer:
            producer.send("t", {"n": 7})
    return tmp_path / "shared"


def at(url, storage):
    return url.split("&storage=")[0] + f"&storage={storage}"


def files(folder):
    return sorted(os.path.relpath(os.path.join(place, name), folder) for place, _, names in os.walk(folder) for name in names)


def rows(location):
    with open_log(location) as log:
        return log.read("t")["n"].to_pylist()


def test_a_log_is_found_again_by_its_url(url, shared):
    """The same URL opens the same log; its root is the storage and its location the URL."""
    assert rows(url) == [7]
    with open_log(url) as log:
        assert (log.root, log.location) == (str(shared), url)
        assert rows(log.location) == [7]


def test_a_host_may_have_the_storage_elsewhere(url, shared, tmp_path, monkeypatch):
    """A URL without storage takes the directory of the setting, so each host can mount it where it likes."""
    monkeypatch.setenv("STREAMKIT_LOG_STORAGE", str(shutil.move(shared, tmp_path / "moved")))
    assert rows(url.split("&storage=")[0]) == [7]
    with pytest.raises(ConfigError, match=r"shared is not the storage of this log"):
        open_log(url)


def test_a_storage_must_be_named(url, monkeypatch):
    """A URL without a storage says how to name one."""
    monkeypatch.delenv("STREAMKIT_LOG_STORAGE", raising=False)
    with pytest.raises(ConfigError, match=r"\?storage=/shared/log in the URL, or set STREAMKIT_LOG_STORAGE"):
        open_log(url.split("&storage=")[0])


def test_a_storage_that_is_not_mounted_is_refused(url, shared, tmp_path):
    """An empty directory where the storage should be is refused, and nothing is written to it."""
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(ConfigError, match=r"is missing there; mount the shared file system"):
            open_log(at(url, folder))
    assert sorted(os.listdir(tmp_path)) == ["empty", "shared"] and os.listdir(tmp_path / "empty") == []
    assert rows(url) == [7]


def test_the_storage_of_another_log_is_refused(url, shared, postgres):
    """A storage belongs to one log: neither a new log nor one that has its own can use it."""
    before = files(shared)
    with pytest.raises(ConfigError, match="holds another log already"):
        open_log(postgres.url(storage=shared))
    other = postgres.url(storage=shared.with_name("other"))
    open_log(other).close()
    with pytest.raises(ConfigError, match="is the storage of another log; expected the directory with identity/"):
        open_log(at(other, shared))
    assert files(shared) == before and rows(url) == [7]


def test_a_log_in_a_directory_is_not_a_storage(postgres, tmp_path):
    """The directory of a log with its catalog inside cannot become the storage of another one."""
    open_log(tmp_path / "log").close()
    with pytest.raises(ConfigError, match="holds another log already"):
        open_log(postgres.url(storage=tmp_path / "log"))


def test_slabs_of_unknown_origin_are_not_adopted(postgres, tmp_path):
    """A directory with slabs, but nothing that says whose they are, is refused."""
    FileStorage(str(tmp_path)).create("slabs/a1/1/x.slab", [b"x"])
    with pytest.raises(ConfigError, match="holds another log already"):
        open_log(postgres.url(storage=tmp_path))


def test_a_storage_is_not_a_log_in_a_directory(shared):
    """Opened as a directory, the storage would be an empty log whose orphans are somebody's slabs: it is refused."""
    before = files(shared)
    with pytest.raises(ConfigError, match="open that by its postgresql:// URL"):
        open_log(shared)
    assert files(shared) == before


def test_death_while_the_two_are_bound(url, tmp_path):
    """A process that dies before or after it has marked the storage leaves what the next one completes."""
    database, storage = open_postgres(url), FileStorage(str(tmp_path / "shared"))
    open_log(at(url, tmp_path / "shared")).close()
    for marked in (True, False):
        with database.write() as transaction:
            transaction.execute("UPDATE identity SET is_claimed = 0")
        if not marked:
            shutil.rmtree(tmp_path / "shared")
        open_log(url).close()
        with database.read() as transaction:
            assert identity.is_claimed(transaction, storage)
    database.close()


def test_a_storage_that_cannot_be_written_is_named(postgres, tmp_path):
    """A storage that is a file, or lies in one, says so."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="cannot be used: "):
        open_log(postgres.url(storage=tmp_path / "file" / "log"))
