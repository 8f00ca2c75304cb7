"""
Inline slabs in the catalog: the bytes of small commits, written by the transaction that makes them visible.

They stay until a merge has put their rows into a file and nobody reads by them any more. docs/log-format.md has the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from streamkit.errors import StreamKitError
from streamkit.log.database.database import Database, Transaction
from streamkit.log.slab.reference import SlabReference
from streamkit.log.storage.inline_storage import InlineStorage
from streamkit.log.storage.storage import Storage
from streamkit.names import is_inline

BYTES_MAX = 64 << 20  # of all of them together: a commit beyond writes a file
PATHS_PER_READ = 500
INSERT = "INSERT INTO inline_slab (path, size, data) VALUES (?, ?, ?)"
FORGET = "DELETE FROM inline_slab WHERE path = ? RETURNING size"


class InlineFullError(StreamKitError):
    """The catalog has no room for more small commits: write their slabs to files, and commit these."""


def insert(transaction: Transaction, slab: SlabReference) -> None:
    """Keep the bytes of a slab, if it is an inline one; InlineFullError if the catalog has no room for more."""
    if slab.data is None:
        return
    ((total,),) = transaction.execute(
        "UPDATE log SET inline_bytes = inline_bytes + ? WHERE id = 1 RETURNING inline_bytes", (slab.size,)
    )
    if total > BYTES_MAX:
        raise InlineFullError(f"the catalog has {total} bytes of small commits; expected {BYTES_MAX} at most: write a file")
    transaction.execute(INSERT, (slab.path, slab.size, slab.data))


def find(transaction: Transaction, paths: Sequence[str]) -> Mapping[str, bytes]:
    """The bytes of those of the slabs that are there, by path."""
    found: dict[str, bytes] = {}
    for first in range(0, len(paths), PATHS_PER_READ):
        some = paths[first : first + PATHS_PER_READ]
        places = ", ".join("?" * len(some))
        found |= transaction.execute(f"SELECT path, data FROM inline_slab WHERE path IN ({places})", some)
    return found


def size(transaction: Transaction, path: str) -> int | None:
    """How large an inline slab is; None if there is none of that path."""
    rows = transaction.execute("SELECT size FROM inline_slab WHERE path = ?", (path,))
    return int(rows[0][0]) if rows else None


def held_bytes(transaction: Transaction) -> int:
    """How many bytes all inline slabs have together."""
    ((held,),) = transaction.execute("SELECT inline_bytes FROM log WHERE id = 1")
    return int(held)


def forget(transaction: Transaction, paths: Iterable[str]) -> None:
    """Drop the bytes of those of the slabs that are inline ones."""
    freed = 0
    for path in filter(is_inline, paths):
        rows = transaction.execute(FORGET, (path,))
        freed += sum(size for (size,) in rows)
    if freed:
        transaction.execute("UPDATE log SET inline_bytes = inline_bytes - ? WHERE id = 1", (freed,))


def storage_of(files: Storage, database: Database) -> InlineStorage:
    """The storage of a log that is not open as one: its files, and the inline slabs in its database."""

    def found(paths: Sequence[str]) -> Mapping[str, bytes]:
        with database.read() as transaction:
            return find(transaction, paths)

    return InlineStorage(files, found)
