"""
The check of a whole log, read-only: the catalog's invariants, its files, and with `deep` every byte of them.

Files are listed before references are read, so that what others write meanwhile is never a finding.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import ConfigError, CorruptionError, FormatVersionError, StreamKitError
from streamkit.log.catalog import history, inline_slabs, manifest, tables, topics
from streamkit.log.catalog.history import Standing
from streamkit.log.catalog.journal import read_journal
from streamkit.log.catalog.writers import Writers, writers
from streamkit.log.database.database import Database, Transaction
from streamkit.log.database.location import log_directory
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.database.system_error import is_refusal, naming, raise_unless_missing
from streamkit.log.rescue.copies import catalog_copies, standing_of
from streamkit.log.rescue.findings import CheckReport, Findings
from streamkit.log.rescue.invariants import REBUILD, check_catalog
from streamkit.log.rescue.loss import check_present, known_commits
from streamkit.log.rescue.rebuild import follow
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.reference import FrameReference, SlabReference
from streamkit.log.slab.slab import check_slab, read_frame, read_reference
from streamkit.log.storage import replication
from streamkit.log.storage.replicated_storage import ReplicatedStorage, current_storage
from streamkit.log.storage.storage import FileStorage, Storage
from streamkit.log.topic.topic import Topic
from streamkit.names import (
    CATALOG_COPIES_FOLDER,
    CATALOG_FILE,
    IDENTITY_FOLDER,
    JOURNAL_FOLDER,
    LOCAL_FOLDERS,
    TIMESTAMP,
    SlabName,
    is_inline,
    is_known_file,
)

TellBytes: TypeAlias = Callable[[int, int], None]  # bytes checked, bytes in all
FOLDERS = ("slabs", "plans", "damaged", CATALOG_COPIES_FOLDER, IDENTITY_FOLDER, JOURNAL_FOLDER)
COPY = "restore the file from a backup, or run `streamkit storage repair` if the log has several storage roots"
COLLECT = "maintenance deletes them: that of a running application, or `streamkit maintain`"
SAVE = "the catalog was set back: save their rows with `streamkit rebuild --from-slabs` if you miss some, then delete the files"
UPGRADE = "check it with a StreamKit that knows its format: upgrade this one; if the log is from before the first release, load its data again"
_DAMAGE = (StreamKitError, OSError, ValueError, KeyError, TypeError, pa.ArrowException)


@dataclass(frozen=True)
class _References:
    """What the catalog says about files, as one snapshot."""

    topics: Mapping[int, Topic]
    slabs: Mapping[str, tuple[int, int]]  # size and checksum of the footer
    extents: Mapping[str, list[Extent]]
    trash: frozenset[str]
    writers: Writers
    standing: Standing


def check_folder(root: str, deep: bool = False, progress: TellBytes | None = None) -> CheckReport:
    """
    Check the log in a folder without opening it for writing; see `check_log`. ConfigError if there is none.

    A catalog that is missing or cannot be read is a finding; then only the files themselves are checked. StorageFailedError
    if the operating system does not let this process look: that is not a finding.
    """
    root = log_directory(root)
    try:
        with naming("look into", root, FileNotFoundError):
            names = os.listdir(root)
    except FileNotFoundError:
        names = []
    file = os.path.join(root, CATALOG_FILE)
    try:
        check_present(root)
        if CATALOG_FILE not in names:
            raise ConfigError(f"there is no log at {root}; name one with --log or STREAMKIT_LOG")
        database = SqliteDatabase(file, read_only=True)
    except ConfigError:
        raise
    except StreamKitError as error:
        if is_refusal(error):
            raise
        return _without_catalog(root, str(error))
    try:
        return check_log(root, FileStorage(root), database, deep, progress)
    finally:
        database.close()


def check_log(
    root: str, storage: Storage, database: Database, deep: bool = False, progress: TellBytes | None = None
) -> CheckReport:
    """
    Check a log, writing nothing, and say what was found.

    The catalog's invariants; that slabs exist with their size and end in a footer that agrees with the manifest; the journal;
    files that nothing refers to. With `deep`, every frame is read, its checksums verified and its rows decoded, and the local
    stores of applications are compared with their changelogs. `progress` hears how many bytes of frames are done.
    StorageFailedError if the operating system does not let this process look.
    """
    with naming("check", root):
        return _checked(root, _current(storage, database), database, deep, progress or (lambda done, total: None))


def _checked(root: str, files: Storage, database: Database, deep: bool, progress: TellBytes) -> CheckReport:
    findings, storage = Findings(), inline_slabs.storage_of(files, database)
    # Slabs lie wherever the storage has them; whatever else is of the log, but local state, lies in its folder.
    listed = tuple(sorted({*_listed_below(root, findings), *storage.list("slabs")}))
    _check_database(database, findings)
    try:
        with database.read() as transaction:
            tables.check_format(transaction)
            check_catalog(transaction, findings)
            references = _references(transaction)
    except FormatVersionError as error:  # nothing here can tell what is sound
        findings.error("catalog", "catalog", str(error), UPGRADE)
        return findings.report(root, deep)
    except _DAMAGE as error:
        _raise_refusal(error)
        findings.error("catalog", "catalog", str(error), REBUILD)
        _check_footers(storage, [path for path in listed if SlabName.parse(path)], findings)
        return findings.report(root, deep)
    _check_slabs(storage, database, references, findings)
    _check_unreferenced(storage, listed, references, findings)
    if isinstance(files, ReplicatedStorage):
        _check_replicas(files, database, references, deep, findings)
    if isinstance(database, SqliteDatabase) and os.path.isdir(root):
        _check_journal(root, database, references.standing, findings)
    if deep:
        _check_frames(storage, database, references, findings, progress)
        importlib.import_module("streamkit.state.check").check_stores(root, storage, database, findings)  # a layer above
    return findings.report(root, deep)


def _current(storage: Storage, database: Database) -> Storage:
    """The storage as it is on record, if that can be read: the check of the catalog reports if it cannot."""
    try:
        with database.read() as transaction:
            return current_storage(storage, replication.get(transaction))
    except _DAMAGE:
        return storage


def _without_catalog(root: str, reason: str) -> CheckReport:
    findings = Findings()
    findings.error("catalog", CATALOG_FILE, reason, f"run `streamkit rebuild --log {root}`, or restore a backup")
    storage = FileStorage(root)
    _check_footers(storage, [path for path in storage.list("slabs") if SlabName.parse(path)], findings)
    return findings.report(root, False)


def _listed_below(root: str, findings: Findings) -> Iterator[str]:
    """The files in the log's own folder; OSError if a folder of the log cannot be read, information if one of somebody else."""

    def unread(error: OSError) -> None:
        path = os.path.relpath(error.filename, root)
        if path.split("/")[0] in (".", *FOLDERS):
            raise_unless_missing(error)
        else:
            findings.information(
                "unknown-folder", path, f"it cannot be read: {error.strerror}", "move it elsewhere if you know it"
            )

    for directory, folders, files in os.walk(root, onerror=unread):
        if directory == root:
            folders[:] = [folder for folder in folders if folder not in LOCAL_FOLDERS]
        yield from (os.path.relpath(os.path.join(directory, file), root) for file in files)


def _check_database(database: Database, findings: Findings) -> None:
    if not isinstance(database, SqliteDatabase):
        return
    try:
        faults = database.faults()
    except StreamKitError as error:
        _raise_refusal(error)
        faults = [str(error)]
    for fault in faults:
        findings.error("catalog", CATALOG_FILE, fault, REBUILD)


def _references(transaction: Transaction) -> _References:
    extents: dict[str, list[Extent]] = {}
    for row in transaction.execute(
        "SELECT e.topic_id, e.partition, e.base_offset, e.next_offset, s.path, e.position, e.length, e.min_timestamp, e.max_timestamp, e.rows "
        "FROM extent e JOIN slab s ON s.id = e.slab_id ORDER BY s.id, e.position, e.partition"
    ):
        extent = Extent(*row)
        extents.setdefault(extent.path, []).append(extent)
    return _References(
        {topic.id: topic for topic in _readable_topics(transaction)},
        {row[0]: (row[1], row[2]) for row in transaction.execute("SELECT path, size, checksum FROM slab ORDER BY id")},
        extents,
        frozenset(path for (path,) in transaction.execute("SELECT path FROM trash")),
        writers(transaction),
        history.standing(transaction),
    )


def _readable_topics(transaction: Transaction) -> Iterable[Topic]:
    for (topic_id,) in transaction.execute("SELECT id FROM topic"):
        try:
            yield topics.get_by_id(transaction, topic_id)
        except _DAMAGE:
            continue  # `invariants` has said so


def _check_slabs(storage: Storage, database: Database, references: _References, findings: Findings) -> None:
    """Every slab is there, has its size, and ends in a footer that says of its frames what the manifest says."""
    for path, (size, checksum) in references.slabs.items():
        findings.counts["slabs"] += 1
        findings.counts["slab_bytes"] += size
        try:
            _check_footer(read_reference(storage, path), (size, checksum), references.extents.get(path, []), findings)
        except _DAMAGE as error:
            _raise_refusal(error)
            _check_loss(storage, database, path, str(error), findings)


def _raise_refusal(error: Exception) -> None:
    """Raise an error that says nothing about what is there, and so is not a finding."""
    if is_refusal(error):
        raise error


def _check_loss(storage: Storage, database: Database, path: str, message: str, findings: Findings) -> None:
    """A slab that cannot be read counts if it is still referred to: maintenance may have deleted it since."""
    if not _is_referenced(database, path):
        return
    try:
        is_there = storage.exists(path)
    except OSError:  # then it is not just missing
        is_there = True
    findings.error("slab" if is_there else "missing-slab", path, message if is_there else "the file is missing", COPY)


def _is_referenced(database: Database, path: str) -> bool:
    with database.read() as transaction:
        return bool(manifest.slabs(transaction, [path]))


def _check_footer(found: SlabReference, expected: tuple[int, int], extents: list[Extent], findings: Findings) -> None:
    if (found.size, found.checksum) != expected:
        message = f"its size and the checksum of its footer are {found.size} and {found.checksum}; the catalog says {expected[0]} and {expected[1]}"
        findings.error("slab", found.path, message, COPY)
        return
    frames = {(frame.position, frame.partition): frame for frame in found.frames}
    for extent in extents:
        frame = frames.get((extent.position, extent.partition))
        if frame is None or _of_frame(frame) != _of_extent(extent):
            findings.error(
                "extent", f"{found.path} at position {extent.position}",
                f"the manifest has {_of_extent(extent)} (topic id, partition, position, length, rows, first and last time); the footer "
                f"{_of_frame(frame) if frame else 'no such frame'}", REBUILD,
            )  # fmt: skip


def _of_frame(frame: FrameReference) -> tuple[int, ...]:
    return (
        frame.topic_id, frame.partition, frame.position, frame.length, frame.rows, frame.min_timestamp, frame.max_timestamp,
    )  # fmt: skip


def _of_extent(extent: Extent) -> tuple[int, ...]:
    return (
        extent.topic_id, extent.partition, extent.position, extent.length, extent.rows, extent.min_timestamp, extent.max_timestamp,
    )  # fmt: skip


def _check_replicas(
    storage: ReplicatedStorage, database: Database, references: _References, deep: bool, findings: Findings
) -> None:
    """That roots can be used, and that each slab still referred to has as many copies as the log is to keep; with `deep`, whole ones."""
    for folder, reason in storage.unusable().items():
        findings.warning("storage-root", folder, reason, "fix or mount its disk, then run `streamkit storage repair`")
    factor = storage.replication.factor
    in_files = {path: size for path, (size, _) in references.slabs.items() if not is_inline(path)}
    for path, size in in_files.items():
        copies = sum(_is_whole(files, path, size, deep) for files in storage.files(path))
        if copies < factor and _is_referenced(database, path):
            findings.warning("replicas", path, f"found {copies} of its {factor} copies", "run `streamkit storage repair`")


def _is_whole(files: FileStorage, path: str, size: int, deep: bool) -> bool:
    try:
        if deep:
            check_slab(files.map(path), path)
        return files.size(path) == size
    except _DAMAGE:
        return False


def _check_footers(storage: Storage, paths: Iterable[str], findings: Findings) -> None:
    """Without a catalog, whether slabs are whole by themselves."""
    for path in paths:
        findings.counts["slabs"] += 1
        try:
            read_reference(storage, path)
        except _DAMAGE as error:
            _raise_refusal(error)
            findings.warning("slab", path, f"{error} (it may never have been committed)", COPY)


def _check_unreferenced(storage: Storage, listed: Iterable[str], references: _References, findings: Findings) -> None:
    """Orphans by writer, the trash, and files that are none of the log's."""
    orphans: dict[str, list[str]] = {}
    for path in listed:
        name = SlabName.parse(path)
        if path in references.slabs:
            continue
        if path in references.trash:
            findings.counts["trash"] += 1
        elif name is not None and references.writers.may_commit(name):
            findings.counts["staged"] += 1
        elif name is not None:
            orphans.setdefault(name.writer, []).append(path)
        elif not is_known_file(path):
            findings.information("unknown-file", path, "no file of a log has such a name", "move it elsewhere if you know it")
    for writer, paths in orphans.items():
        size = sum(_size(storage, path) for path in paths)
        findings.counts["orphans"] += len(paths)
        findings.counts["orphan_bytes"] += size
        message = f"nothing refers to {len(paths)} slabs of {size} bytes, and nobody can commit them"
        if references.writers.has_known(writer):
            findings.information("orphans", f"slabs/{writer}", message, COLLECT)
        else:
            findings.information("orphans", f"slabs/{writer}", f"{message}; the catalog has never known their writer", SAVE)


def _size(storage: Storage, path: str) -> int:
    try:
        return storage.size(path)
    except OSError:
        return 0  # deleted meanwhile


def _check_journal(root: str, database: Database, before: Standing, findings: Findings) -> None:
    """The journal knows no more than the catalog, and enough to rebuild it."""
    made = known_commits(root)
    with database.read() as transaction:
        now = history.standing(transaction)
    if made > now.place:
        findings.error(
            "set-back", CATALOG_FILE, f"it is at commit {now.commits}, but commit {made[1]} of timeline {made[0]} was made",
            f"run `streamkit rebuild --log {root}`",
        )  # fmt: skip
        return
    findings.counts["commits"] += before.commits
    base = _newest_sound_copy(root, before, findings) or Standing(before.log_id, 1, 0, "")
    chain, _ = follow(read_journal(root).entries, base)
    reached = chain[-1].place if chain else base.place
    if reached < before.place:
        findings.warning(
            "journal", "journal", f"a lost catalog could be rebuilt up to commit {reached[1]} only; the catalog is at {before.commits}",
            "take a backup, or open the log and call `copy_catalog`",
        )  # fmt: skip


def _newest_sound_copy(root: str, before: Standing, findings: Findings) -> Standing | None:
    for place, path in catalog_copies(root):
        try:
            if place <= before.place:
                return standing_of(os.path.join(root, path))
        except StreamKitError as error:
            _raise_refusal(error)
            findings.warning("copy", path, str(error), "delete it; the next copy of the catalog takes its place")
    return None


def _check_frames(storage: Storage, database: Database, references: _References, findings: Findings, progress: TellBytes) -> None:
    """Read every frame: all checksums, all rows under their topic's schema, all times within the bounds stated."""
    total = sum(extent.length for extents in references.extents.values() for extent in extents)
    done = 0
    for extents in references.extents.values():
        for extent in extents:
            try:
                _check_rows(storage, extent, references.topics.get(extent.topic_id), findings)
            except _DAMAGE as error:
                _raise_refusal(error)
                _check_frame_loss(database, extent, str(error), findings)
            done += extent.length
            progress(done, total)


def _check_rows(storage: Storage, extent: Extent, topic: Topic | None, findings: Findings) -> None:
    batch = read_frame(storage, extent, None, topic)
    bounds = pc.min_max(batch[TIMESTAMP].cast(pa.int64())).as_py()
    if (bounds["min"], bounds["max"]) != (extent.min_timestamp, extent.max_timestamp):
        raise CorruptionError(
            f"its times are from {bounds['min']} to {bounds['max']}; stated are {extent.min_timestamp} to {extent.max_timestamp}"
        )
    findings.counts["frames"] += 1
    findings.counts["rows"] += batch.num_rows
    findings.counts["frame_bytes"] += extent.length


def _check_frame_loss(database: Database, extent: Extent, message: str, findings: Findings) -> None:
    if not _is_referenced(database, extent.path):
        return
    where = f"topic id {extent.topic_id}, partition {extent.partition}, offsets {extent.base_offset} to {extent.next_offset}"
    findings.error("frame", where, message, COPY)
