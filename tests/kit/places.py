"""The kinds of place where a catalog, or the files of a log, can live. What holds for one is tested with all of them, so a new kind is added here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkit.log.database.address import parse_address
from streamkit.log.database.database import Database
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.storage.replicated_storage import ReplicatedStorage
from streamkit.log.storage.replication import Replication
from streamkit.log.storage.storage import FileStorage, MemoryStorage, Storage
from streamkit.log.storage.storage_root import Owner, claim_root, place_of
from tests.kit.forgetful import ForgetfulStorage

if TYPE_CHECKING:
    from tests.kit.postgres import Server

KINDS = ("memory", "file", "postgres")
SHARED_KINDS = KINDS[1:]  # those that several connections and processes can open


@dataclass(frozen=True)
class Place:
    """Where a log is, as `open_log` takes it, and how its database is opened, each time by another connection."""

    kind: str
    location: str
    open: Callable[[], Database]


def memory_place() -> Place:
    return Place("memory", ":memory:", lambda: SqliteDatabase(":memory:"))


def file_place(folder: Path) -> Place:
    return Place("file", str(folder), lambda: SqliteDatabase(str(folder / "catalog.db")))


def postgres_place(server: Server, folder: Path) -> Place:
    url = server.url(storage=folder / "shared")
    return Place("postgres", url, lambda: open_postgres(url))


def replicated_storage(folder: Path) -> Storage:
    owner = Owner("log", place_of(str(folder / "log")))
    roots = tuple(claim_root(str(folder / name), owner).take() for name in ("second", "third"))
    return ReplicatedStorage(str(folder / "log"), Replication(3, 2, roots))


STORAGES: dict[str, Callable[[Path], Storage]] = {
    "memory": lambda folder: MemoryStorage(),
    "file": lambda folder: FileStorage(str(folder / "log")),
    "replicated": replicated_storage,
    "forgetful": lambda folder: ForgetfulStorage(str(folder / "log")),
}


@contextmanager
def inline_slabs(bytes_max: int) -> Iterator[None]:
    """Slabs of at most so many bytes are in the catalog, those of the logs that are opened and the runs that start in the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMKIT_INLINE_SLAB_BYTES", str(bytes_max))
        yield


def all_slabs_in_files() -> AbstractContextManager[None]:
    """Each slab is a file, however small."""
    return inline_slabs(0)


def open_postgres(url: str) -> Database:
    from streamkit.log.database.postgres import PostgresDatabase

    return PostgresDatabase(parse_address(url))


def open_place(location: str) -> Database:
    """The database of a shared place, for processes that were only told where it is."""
    return open_postgres(location) if "://" in location else SqliteDatabase(str(Path(location) / "catalog.db"))
