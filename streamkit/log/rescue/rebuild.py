"""
Rebuilding a lost or damaged catalog from its newest sound copy and the journal after it, with the very same offsets.

The result is a state that the log really had: entries are executed in the order in which they were committed, and the first
one that is missing or does not do again what it did is the end. Slabs that no commit names are not adopted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import apsw

from streamkit.errors import CatalogLostError, ConfigError, CorruptionError, FormatVersionError, StreamKitError
from streamkit.failpoints import reach
from streamkit.log.catalog import history, tables
from streamkit.log.catalog.history import Standing
from streamkit.log.catalog.journal import FoundJournal, JournalEntry, JournalPlace, read_journal
from streamkit.log.catalog.recording import CHANGES, RecordedStatement, is_change
from streamkit.log.database.address import is_address
from streamkit.log.database.database import Transaction
from streamkit.log.database.location import log_directory
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.database.system_error import is_refusal
from streamkit.log.rescue.copies import catalog_copies, copy_catalog, standing_of
from streamkit.log.rescue.findings import ERROR, Findings
from streamkit.log.rescue.invariants import check_catalog
from streamkit.log.rescue.loss import check_present, known_commits
from streamkit.log.storage import replication
from streamkit.log.storage.replicated_storage import open_storage
from streamkit.log.storage.storage import Storage, sync_folder
from streamkit.names import CATALOG_FILE, SlabName, damaged_catalog, fresh_token, is_inline, unfinished_file


@dataclass(frozen=True)
class LostCommit:
    """A commit the journal has but that could not be made again, and the slabs it made visible."""

    timeline: int
    number: int
    slabs: tuple[str, ...]


@dataclass(frozen=True)
class Rebuilt:
    """
    What a rebuild did: from where (a path below the log's folder, or None for nothing), how many entries it executed, how far
    it came, and why it ended there if the journal goes further. `lost` are the commits that are not in the new catalog,
    `unadopted` slabs that may hold committed rows without a commit that says so. `missing` are slabs that the new catalog names
    and that are gone: since the commit it came to, maintenance may have rewritten their rows and deleted them; `salvage` finds
    these rows. `damaged` is the old catalog's new name.
    """

    base: str | None
    base_commit: int
    executed: int
    standing: Standing
    end: str | None
    lost: tuple[LostCommit, ...]
    unadopted: tuple[str, ...]
    missing: tuple[str, ...]
    damaged: str | None
    notes: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the new catalog has every commit that the journal knows, and the log every slab that it names."""
        return self.end is None and not self.lost and not self.missing

    def to_json(self) -> dict[str, Any]:
        """What a rebuild did as plain dicts, lists and scalars."""
        return asdict(self)


def rebuild(root: str) -> Rebuilt:
    """
    Rebuild the catalog of the log at `root`, whose processes must all be stopped; returns what could be rebuilt and what not.

    ConfigError if its catalog is sound and as far as its journal, or if there is nothing to rebuild it from; CorruptionError if
    what was rebuilt is not sound. Until the new catalog is complete, checked and durable the old one stays as it is; then it is
    kept under another name.
    """
    if is_address(root):
        raise ConfigError("a catalog in PostgreSQL has no rebuild, but PostgreSQL's own backups; this rebuilds one in SQLite")
    root = log_directory(root)
    reason = _why(root)
    journal = read_journal(root)
    base, notes = _base(root)
    if base is None and not journal.entries:
        raise ConfigError(
            f"{root} has neither a sound catalog, nor a copy of one, nor a journal: nothing says which offsets its slabs have; restore a backup, "
            "or write the rows of its slabs into a new log: `streamkit rebuild --from-slabs`"
        )
    _remove_unfinished(root)
    unfinished = os.path.join(root, unfinished_file(CATALOG_FILE, fresh_token()))
    try:
        return _Rebuilding(root, journal, base, (reason, *notes), unfinished).run()
    except CorruptionError:
        _remove_unfinished(root)
        raise


def _why(root: str) -> str:
    """Why the catalog must be rebuilt; ConfigError if it need not be."""
    file = os.path.join(root, CATALOG_FILE)
    if not os.path.isdir(root):
        raise ConfigError(f"there is no log at {root}")
    try:
        check_present(root)
    except CatalogLostError:
        return "the catalog was missing or empty"
    if not os.path.exists(file):
        raise ConfigError(f"there is no log at {root}")
    fault = _fault(file)
    if fault is not None:
        return f"the catalog was damaged: {fault}"
    known, made = standing_of(file), known_commits(root)
    if made <= known.place:
        raise ConfigError(
            f"the catalog {file} is sound and is at commit {known.commits}, as far as journal and copies know; there is nothing to rebuild"
        )
    return f"the catalog was at commit {known.commits}, the journal and the copies at {made[1]}"


def _fault(file: str) -> str | None:
    """What is wrong with a catalog's file; None if it is sound."""
    try:
        database = SqliteDatabase(file, read_only=True)
        try:
            with database.read() as transaction:
                tables.check_format(transaction)
            faults = database.faults()
            with database.read() as transaction:
                history.standing(transaction)
        finally:
            database.close()
    except FormatVersionError:
        raise
    except StreamKitError as error:
        if is_refusal(error):  # a sound catalog that may not be looked at is not a damaged one
            raise
        return str(error)
    return "; ".join(faults[:3]) or None


def _base(root: str) -> tuple[str | None, list[str]]:
    """The sound catalog that has come furthest, the log's own or a copy, and what is to be said about the others."""
    notes: list[str] = []
    found: list[tuple[tuple[int, int], str]] = []
    for path in (CATALOG_FILE, *(path for _, path in catalog_copies(root))):
        file = os.path.join(root, path)
        if not os.path.exists(file) or not os.path.getsize(file):
            continue
        fault = _fault(file)
        if fault is None:
            standing = standing_of(file)
            found += [(standing.place, path)] if standing.commits else []  # else it may be a new one, begun over the loss
        elif path != CATALOG_FILE:
            notes.append(f"the copy {path} is damaged and was not used: {fault}")
    return max(found, default=((0, 0), None))[1], notes


def _remove_unfinished(root: str) -> None:
    for name in os.listdir(root):
        if name.startswith(unfinished_file(CATALOG_FILE, "")):
            os.unlink(os.path.join(root, name))


@dataclass
class _Rebuilding:
    root: str
    journal: FoundJournal
    base: str | None
    notes: tuple[str, ...]
    unfinished: str

    def run(self) -> Rebuilt:
        database = self._begin()
        try:
            base = self._standing(database)
            base = self._named(database, base)
            chain, end = follow(self.journal.entries, base)
            executed, end = self._execute(database, chain, end)
            lost = tuple(self._lost(self._standing(database).place, chain))
            with database.write() as transaction:
                timelines = [entry.commit.timeline for entry in self.journal.entries]
                history.begin_timeline(transaction, max([base.timeline, *timelines]) + 1)
            self._check(database)
            known = self._standing(database)
            referenced, storage = _files(self.root, database)
        finally:
            database.close()
        reach("rebuild.executed")
        damaged = self._take_its_place()
        self._copy()
        missing = tuple(path for path in sorted(referenced) if not is_inline(path) and _is_missing(storage, path))
        return Rebuilt(
            self.base,
            base.commits,
            executed,
            known,
            end,
            lost,
            _unadopted(storage, referenced),
            missing,
            damaged,
            self._all_notes(chain),
        )

    def _begin(self) -> SqliteDatabase:
        """The new catalog, as far as the base has come."""
        if self.base is not None:
            source = SqliteDatabase(os.path.join(self.root, self.base), read_only=True)
            try:
                source.copy_to(self.unfinished)
            finally:
                source.close()
        database = SqliteDatabase(self.unfinished)
        tables.prepare(database)
        return database

    def _named(self, database: SqliteDatabase, base: Standing) -> Standing:
        """The base as one of this log: what begins with nothing learns from the journal which log it is of."""
        if self.base is not None:
            return base
        with database.write() as transaction:
            history.name(transaction, self.journal.entries[0].commit.log_id)
        return self._standing(database)

    def _standing(self, database: SqliteDatabase) -> Standing:
        with database.read() as transaction:
            return history.standing(transaction)

    def _execute(self, database: SqliteDatabase, chain: Sequence[JournalEntry], end: str | None) -> tuple[int, str | None]:
        """Execute entries until one cannot be; returns how many were, and why it ended."""
        with database.write() as transaction:
            for count, entry in enumerate(chain):
                transaction.execute("SAVEPOINT entry")
                try:
                    for statement in self.journal.statements_of(entry):
                        _repeat(transaction, statement)
                    history.arrive(transaction, entry.commit)
                except (StreamKitError, ValueError, TypeError, KeyError, apsw.Error) as error:
                    transaction.execute("ROLLBACK TO entry")
                    return count, f"commit {entry.commit.number} cannot be made again: {error}"
                transaction.execute("RELEASE entry")
        return len(chain), end

    def _check(self, database: SqliteDatabase) -> None:
        """CorruptionError unless the new catalog is sound as a file and holds every invariant; the old one stays where it is then."""
        findings = Findings()
        with database.read() as transaction:
            check_catalog(transaction, findings)
        found = [f"{one.where}: {one.message}" for one in findings.report(self.root, False).findings if one.severity == ERROR]
        faults = [*database.faults(), *found]
        if faults:
            raise CorruptionError(
                f"the catalog rebuilt from {self.base or 'the journal alone'} is not sound, and did not replace the old one: "
                f"{'; '.join(faults[:3])}; move that file away if it is a copy, and run again, or restore a backup"
            )

    def _lost(self, reached: JournalPlace, chain: Sequence[JournalEntry]) -> Iterator[LostCommit]:
        """The commits after the end, on the chain and beyond a break in it; not those of which nothing says that they took effect."""
        committed = {entry.commit.previous for entry in self.journal.entries} | {entry.commit.token for entry in chain}
        for entry in sorted(self.journal.entries, key=lambda entry: entry.place):
            if entry.place > reached and (entry.is_marked or entry.commit.token in committed):
                yield LostCommit(*entry.place, tuple(self._slabs_of(entry)))

    def _slabs_of(self, entry: JournalEntry) -> Iterator[str]:
        with suppress(ValueError):
            for statement in self.journal.statements_of(entry):
                texts = (value for row in statement.parameters for value in row if isinstance(value, str))
                yield from dict.fromkeys(text for text in texts if SlabName.parse(text))

    def _take_its_place(self) -> str | None:
        """Put the new catalog, durable and closed, where the old one was, and keep that one."""
        file = os.path.join(self.root, CATALOG_FILE)
        sync_folder(self.root)
        name = damaged_catalog(fresh_token())
        damaged = os.path.join(self.root, name)
        is_there = os.path.lexists(file)
        if is_there:
            os.link(file, damaged)
        # A write-ahead log left behind would be taken for the new catalog's.
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(file + suffix, damaged + suffix)
        # Else the power may fail with the new catalog there, and the old one's write-ahead log beside it.
        sync_folder(self.root)
        reach("rebuild.set_aside")
        os.replace(self.unfinished, file)
        sync_folder(self.root)
        return name if is_there else None

    def _copy(self) -> None:
        database = SqliteDatabase(os.path.join(self.root, CATALOG_FILE), read_only=True)
        try:
            copy_catalog(database, self.root)
        finally:
            database.close()

    def _all_notes(self, chain: Sequence[JournalEntry]) -> tuple[str, ...]:
        notes = list(self.notes)
        notes += [f"{path} is damaged at byte {position}" for path, position in self.journal.damaged.items()]
        if chain and not chain[-1].is_marked:
            notes.append(f"commit {chain[-1].commit.number}, the last, was not marked as done: it is not known whether it was")
        return tuple(notes)


def follow(entries: Sequence[JournalEntry], base: Standing) -> tuple[list[JournalEntry], str | None]:
    """
    The entries that were committed after the base, in order, and why they end there if there are later ones.

    Of several with the same predecessor, that of the newest timeline counts; then one that another entry names or that is marked; then the newest.
    """
    children: dict[str, list[JournalEntry]] = {}
    for entry in entries:
        if entry.place > base.place and entry.commit.log_id == base.log_id:
            children.setdefault(entry.commit.previous, []).append(entry)
    chain: list[JournalEntry] = []
    token = base.token
    while token in children:
        found = max(
            children.pop(token), key=lambda one: (one.commit.timeline, one.commit.token in children, one.is_marked, one.time_ms)
        )
        chain.append(found)
        token = found.commit.token
    last = chain[-1].place if chain else base.place
    later = [entry for found in children.values() for entry in found if entry.place > last]
    if not later:
        return chain, None
    first = min(entry.place for entry in later)
    return chain, f"the journal has no entry of commit {last[1] + 1}; the next it has is commit {first[1]} of timeline {first[0]}"


def _repeat(transaction: Transaction, statement: RecordedStatement) -> None:
    """Execute a statement of the journal again; ValueError if it is none, or returns other rows than it did."""
    if not is_change(statement.sql):
        raise ValueError(f"a journal holds {', '.join(CHANGES)}; found {statement.sql!r}")
    if statement.rows is None and len(statement.parameters) != 1:
        transaction.execute_many(statement.sql, statement.parameters)
        return
    for parameters in statement.parameters:
        rows = [list(row) for row in transaction.execute(statement.sql, parameters)]
        if rows != [list(row) for row in statement.rows or []]:
            raise ValueError(f"{statement.sql!r} returned {statement.rows} and now returns {rows}")


def _files(root: str, database: SqliteDatabase) -> tuple[set[str], Storage]:
    """The slabs that the new catalog names, and where they lie."""
    with database.read() as transaction:
        referenced = {path for (path,) in transaction.execute("SELECT path FROM slab")}
        return referenced, open_storage(root, replication.get(transaction))


def _is_missing(storage: Storage, path: str) -> bool:
    """Whether no root has a slab, those included that a log at a new place may not list; where one cannot tell, it is not missing."""
    try:
        return not storage.exists(path)
    except OSError:
        return False


def _unadopted(storage: Storage, referenced: set[str]) -> tuple[str, ...]:
    """Slabs of later commits than any that their writer made: nothing says that they were committed, nor that they were not."""
    names = {path: SlabName.parse(path) for path in storage.list("slabs")}
    last: dict[str, tuple[int, int]] = {}
    for name in filter(None, (names.get(path) for path in referenced)):
        last[name.writer] = max((name.generation, name.serial), last.get(name.writer, (0, 0)))
    return tuple(
        path
        for path, name in names.items()
        if name is not None and path not in referenced and (name.generation, name.serial) > last.get(name.writer, (0, 0))
    )
