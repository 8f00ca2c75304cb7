"""A change of a log's storage: which folders hold copies of its files from now on, and in how many copies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from streamkit.errors import ConfigError
from streamkit.log.catalog import Catalog
from streamkit.log.location import absolute_folder
from streamkit.log.repair import has_whole_copy
from streamkit.log.replicated_storage import ReplicatedStorage, open_storage
from streamkit.log.replication import Replication, StorageRoot
from streamkit.log.sqlite import IN_MEMORY
from streamkit.log.storage import Storage
from streamkit.log.storage_root import Owner, claim_root, place_of, release_root


@dataclass(frozen=True)
class StorageChange:
    """
    What is wanted: all folders beside the log's own, copies of each file, the least that count.

    Numbers that are not given stay as they are on record, as far as there are folders for them; at first it is one copy per folder.
    `adopt`: the log has moved, and roots that belong to it at its old place are its own now; so are roots on record that have slabs,
    but have lost their marker. `force`: leave out a root even if slabs have no whole copy elsewhere.
    """

    roots: Sequence[str]
    factor: int | None = None
    min_insync: int | None = None
    adopt: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.roots, list | tuple):
            raise ConfigError(f'found {self.roots!r} as the storage roots; expected a list of folders, as in ["/disk2/log"]')

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders by their absolute paths."""
        return tuple(absolute_folder(root, "storage root") for root in self.roots)

    def replication(self, before: Replication) -> Replication:
        """The replication that is wanted, its roots not yet claimed; ConfigError for numbers that do not fit."""
        folders = 1 + len(self.roots)
        kept = min(before.factor, folders) if before.roots else folders
        copies = Replication(
            kept if self.factor is None else self.factor, 1, tuple(StorageRoot(path, "") for path in self.folders)
        )
        least = min(before.min_insync, copies.factor) if self.min_insync is None else self.min_insync
        return replace(copies, min_insync=least)


def change_storage(root: str, catalog: Catalog, change: StorageChange) -> Storage:
    """Put the change of the log at `root` on record and return its storage; ConfigError, and nothing on record, if it cannot be."""
    if root == IN_MEMORY:
        raise ConfigError("a log in memory has no copies on disks; open one in a folder")
    before = catalog.replication()
    wanted = change.replication(before)
    _check_distinct(root, change.folders)
    known = {found.path: found for found in before.roots}
    owner = Owner(catalog.standing().log_id, place_of(root))
    roots = tuple(claim_root(folder, owner, known.get(folder), adopt=change.adopt) for folder in change.folders)
    if len({claimed.token for claimed in roots}) < len(roots):
        raise ConfigError(
            f"two of the folders {', '.join(change.folders)} have the same marker file; one is a copy of the other, empty it"
        )
    replication = replace(wanted, roots=roots)
    left_out = [one for one in before.roots if one.path not in change.folders]
    if left_out and not change.force:
        _check_left_out(ReplicatedStorage(root, replication), catalog, before, left_out)
    catalog.change_replication(replication)
    for one in left_out:
        release_root(one, owner)
    return open_storage(root, replication)


def _check_distinct(root: str, folders: Sequence[str]) -> None:
    """ConfigError if two of the folders, the log's own included, are one under different names, or one lies in the log's own."""
    for first, second in combinations((root, *folders), 2):
        if _is_same(first, second):
            raise ConfigError(f"{first} and {second} are the same folder; name each once, and beside the log's own")
    for folder in folders:
        if os.path.realpath(folder).startswith(os.path.join(os.path.realpath(root), "")):
            raise ConfigError(f"{folder} lies in the log's own folder, and would be lost with it; name one on another disk")


def _is_same(first: str, second: str) -> bool:
    if os.path.realpath(first) == os.path.realpath(second):
        return True
    try:
        return os.path.samefile(first, second)  # mounted twice
    except OSError:  # one does not exist yet, or cannot be looked at
        return False


def _check_left_out(storage: ReplicatedStorage, catalog: Catalog, before: Replication, left_out: Sequence[StorageRoot]) -> None:
    """ConfigError if slabs have no whole copy under the folders that stay; StorageFailedError if that cannot be told."""
    usable = storage.usable()
    count = sum(not has_whole_copy(usable, path) for path in catalog.slabs())
    if count:
        folders = 1 + len(before.roots)
        first = f"set --factor {folders} with the roots that are on record, then " if before.factor < folders else ""
        raise ConfigError(
            f"{count} slabs would have no whole copy without {', '.join(root.path for root in left_out)}; {first}run "
            "`streamkit storage repair`, or leave it out all the same, with --force"
        )
