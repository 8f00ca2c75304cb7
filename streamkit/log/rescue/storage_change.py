"""A change of a log's storage: which folders hold copies of its files from now on, and in how many copies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations

from streamkit.errors import ConfigError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.database.location import absolute_folder
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.maintenance.trash import NEVER_MS
from streamkit.log.rescue.repair import has_whole_copy, whole_copy
from streamkit.log.storage.replicated_storage import ReplicatedStorage, open_storage
from streamkit.log.storage.replication import Replication, StorageRoot
from streamkit.log.storage.storage import FileStorage, Storage
from streamkit.log.storage.storage_root import MarkerChange, Owner, claim_root, is_root_of, place_of, release_root


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
    """
    Put the change of the log at `root` on record and return its storage; ConfigError, and all is as it was, if it cannot be.

    Nothing is written before all was checked. What is left out is closed to writers first, and goes off the record last: whenever this
    stops, every slab that is committed lies under a root on record.
    """
    if root == IN_MEMORY:
        raise ConfigError("a log in memory has no copies on disks; open one in a folder")
    before = catalog.replication()
    wanted = change.replication(before)
    _check_distinct(root, change.folders)
    known = {found.path: found for found in before.roots}
    owner = Owner(catalog.standing().log_id, place_of(root))
    claims = tuple(claim_root(folder, owner, known.get(folder), adopt=change.adopt) for folder in change.folders)
    replication = replace(wanted, roots=_distinct_roots(claims))
    departure = Departure(root, catalog, before, tuple(one for one in before.roots if one.path not in change.folders))
    checked = frozenset() if change.force else departure.check(claims)
    with ExitStack() as undo:
        for claim in claims:
            undo.callback(claim.undo)
            claim.take()
        for one in departure.roots:
            undo.callback(release_root(one, owner).undo)
        if not change.force:
            departure.bring(ReplicatedStorage(root, replication), owner, checked)
        undo.pop_all()  # what may be on record stays
    catalog.change_replication(replication)
    return open_storage(root, replication)


@dataclass(frozen=True)
class Departure:
    """The roots that are to be left out of a log: what lies under them alone is looked for, and brought to the others."""

    root: str
    catalog: Catalog
    before: Replication
    roots: tuple[StorageRoot, ...]

    def check(self, claims: Sequence[MarkerChange]) -> frozenset[str]:
        """
        The slabs of the log; ConfigError if some have no whole copy under the folders that stay, which may not be marked yet.

        StorageFailedError if that cannot be told.
        """
        if not self.roots:
            return frozenset()
        in_place = tuple(claim.root for claim in claims if claim.wanted is None)
        usable = ReplicatedStorage(self.root, Replication(roots=in_place)).usable()
        staying = (*usable, *(FileStorage(claim.root.path) for claim in claims if claim.wanted is not None))
        paths = self.catalog.manifest.slabs()
        self._refuse([path for path in paths if not has_whole_copy(staying, path)])
        return frozenset(paths)

    def bring(self, storage: ReplicatedStorage, owner: Owner, checked: frozenset[str]) -> None:
        """
        Copy to the roots that stay what has come to those left out alone since others were `checked`; ConfigError if it is nowhere whole.

        Also what is not committed yet, by who wrote it before the root was closed. Files are listed before references are read: what
        is committed in between was listed.
        """
        if not self.roots:
            return
        ours = tuple(FileStorage(one.path) for one in self.roots if is_root_of(one.path, owner))
        staged = {path for files in ours for path in files.list("slabs")} - set(self.catalog.manifest.trash(NEVER_MS))
        since = sorted((staged | set(self.catalog.manifest.slabs())) - checked)
        usable = storage.usable()
        self._refuse([path for path in since if not has_whole_copy(usable, path) and not _is_brought(storage, ours, path)])

    def _refuse(self, lacking: Sequence[str]) -> None:
        """ConfigError if the catalog still names one of these slabs, which would be lost."""
        count = len(self.catalog.manifest.slabs(lacking))
        if count:
            folders = 1 + len(self.before.roots)
            first = f"set --factor {folders} with the roots that are on record, then " if self.before.factor < folders else ""
            raise ConfigError(
                f"{count} slabs would have no whole copy without {', '.join(root.path for root in self.roots)}; {first}run "
                "`streamkit storage repair`, or leave it out anyway, with --force"
            )


def _is_brought(storage: ReplicatedStorage, sources: Sequence[FileStorage], path: str) -> bool:
    """Whether one of the sources had a whole copy, which lies in the storage now."""
    data = whole_copy(sources, path)
    if data is None:
        return False
    try:
        storage.create(path, [data])
    except FileExistsError as error:  # by who may yet fail, and count the copy that is left out
        raise ConfigError(
            f"a copy of {path} is still being written, or damaged; run `streamkit storage repair`, then this again"
        ) from error
    return True


def _distinct_roots(claims: Sequence[MarkerChange]) -> tuple[StorageRoot, ...]:
    roots = tuple(claim.root for claim in claims)
    if len({root.token for root in roots}) < len(roots):
        raise ConfigError(
            f"two of the folders {', '.join(root.path for root in roots)} have the same marker file; one is a copy of the other, empty it"
        )
    return roots


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
