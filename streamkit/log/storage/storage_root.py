"""
A storage root: a folder whose marker file says which root it is, of which log, and where that log is.

The roots of a log are absolute, and so its copies know them too. Only the log at the place that the marker names may list,
write or delete there; the same marker tells a root from an empty mount point and from a disk of another log.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass

from streamkit.errors import ConfigError, StreamKitError
from streamkit.log.storage.replication import StorageRoot
from streamkit.log.storage.storage import FileStorage, sync_folder
from streamkit.names import IDENTITY_FOLDER, fresh_token, unfinished_file

MARKER = "storage-root"
_MARKER_BYTES_MAX = 65_536
_UNFINISHED = unfinished_file(MARKER, "")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Owner:
    """Whose a root is: the log's id, which its copies share, and its place, which they do not."""

    log_id: str
    place: str


@dataclass(frozen=True)
class Marker:
    """What a marker file says: the root's token, and the owner."""

    token: str
    owner: Owner

    def encode(self) -> bytes:
        """The bytes of the file."""
        return json.dumps({"token": self.token, **asdict(self.owner)}).encode()

    @classmethod
    def parse(cls, data: bytes) -> Marker:
        """The inverse of `encode`; of other bytes, a marker that is nobody's."""
        try:
            value = json.loads(data)
            return cls(str(value["token"]), Owner(str(value["log_id"]), str(value["place"])))
        except (ValueError, LookupError, TypeError, RecursionError):
            return NOBODYS


NOBODYS = Marker("", Owner("", ""))


@dataclass(frozen=True)
class MarkerChange:
    """What is to become of the marker of a root: the one that was found, and the one in its place; None if it stays."""

    root: StorageRoot
    found: Marker | None = None
    wanted: Marker | None = None
    is_known: bool = False

    def take(self) -> StorageRoot:
        """Write the marker if there is one to be written, and return the root; ConfigError if that fails and it is not on record yet."""
        try:
            self.write()
        except OSError as error:
            if not self.is_known:
                raise ConfigError(f"the storage root {self.root.path} cannot be used: {error.strerror}") from error
        return self.root

    def write(self) -> None:
        """Write the marker if there is one to be written, in a folder that is made if it is missing."""
        if self.wanted is not None:
            os.makedirs(self.root.path, mode=0o700, exist_ok=True)
            _write_marker(self.root.path, self.wanted)

    def undo(self) -> None:
        """Put the marker that was found back in the place of the one that was written; what cannot be written to is left as it is."""
        try:
            if self.wanted is None or read_marker(self.root.path) != self.wanted:
                return
            if self.found is None:
                os.unlink(os.path.join(self.root.path, MARKER))
            else:
                _write_marker(self.root.path, self.found)
        except (OSError, StreamKitError) as error:
            _logger.warning("the storage root %s is marked for a change that was not made: %s", self.root.path, error)


def place_of(root: str) -> str:
    """
    What tells the log in a folder from a copy of it: the folder itself.

    Of a log with its catalog on a server it is the name of its identity, since each host may mount the folder elsewhere.
    """
    identities = FileStorage(root).list(IDENTITY_FOLDER)
    return identities[0] if identities else os.path.realpath(root)


def read_marker(folder: str) -> Marker | None:
    """The marker in a folder, None if there is none; OSError if that cannot be told."""
    try:
        descriptor = os.open(os.path.join(folder, MARKER), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return Marker.parse(os.pread(descriptor, _MARKER_BYTES_MAX, 0))
    finally:
        os.close(descriptor)


def check_root(root: StorageRoot, place: str) -> None:
    """OSError, which says why, if the folder is not this root of the log at this place."""
    marker = read_marker(root.path)
    if marker is None:
        raise OSError(
            "it has no marker file: its disk is not mounted, or it is a new one; then run `streamkit storage set` with the same folders"
        )
    if marker == NOBODYS:
        raise OSError(
            f"its marker file {MARKER} cannot be understood; if the disk is the right one, run `streamkit storage set` with the same folders "
            "and --adopt"
        )
    if marker.token != root.token:
        raise OSError(
            f"its marker file is that of another storage root, of the log at {marker.owner.place}; if that is this log, the root has been "
            "left out or disks were exchanged: open the log anew, and if that is of no avail, run `streamkit storage set` with the same folders"
        )
    if marker.owner.place != place:
        raise OSError(_elsewhere(marker))


def claim_root(folder: str, owner: Owner, known: StorageRoot | None = None, *, adopt: bool = False) -> MarkerChange:
    """
    What makes an absolute folder a storage root of this owner, not yet done; ConfigError if it cannot be one.

    An empty folder, or one that does not exist yet, becomes one; if it is `known` by the log, it is the same root again, on a
    new disk. A folder that was a root of this log comes back as it is. With `adopt`, so does a root of the log at another place,
    and a known one that has slabs but no marker that can be understood.
    """
    try:
        marker = read_marker(folder)
        if marker is None or marker == NOBODYS:
            _check_vacant(folder, known, adopt=adopt)
            root = known or StorageRoot(folder, fresh_token())
            return MarkerChange(root, marker, Marker(root.token, owner), is_known=bool(known))
    except OSError as error:
        if known:  # a failing disk stays on record, and is seen to later
            return MarkerChange(known)
        raise ConfigError(f"the storage root {folder} cannot be used: {error.strerror}") from error
    _check_owner(folder, marker, owner, adopt=adopt)
    wanted = None if marker.owner == owner else Marker(marker.token, owner)
    return MarkerChange(StorageRoot(folder, marker.token), marker, wanted, is_known=bool(known))


def release_root(root: StorageRoot, owner: Owner) -> MarkerChange:
    """
    Give a root another token, so that whoever opened the log before does not write there any more; returns what was done.

    The folder may become a root of this log again. What cannot be written to is left as it is.
    """
    change = MarkerChange(root)
    try:
        found = read_marker(root.path)
        if found == Marker(root.token, owner):
            change = MarkerChange(root, found, Marker(fresh_token(), owner))
            change.write()
    except (OSError, StreamKitError) as error:
        _logger.warning(
            "the storage root %s was left out, but cannot be marked so: %s; who has the log open may go on writing there until it is opened anew",
            root.path,
            error,
        )
    return change


def is_root_of(folder: str, owner: Owner) -> bool:
    """Whether the marker in a folder can be read and has this owner, whatever its token."""
    try:
        marker = read_marker(folder)
    except OSError:
        return False
    return marker is not None and marker.owner == owner


def _check_owner(folder: str, marker: Marker, owner: Owner, *, adopt: bool) -> None:
    if marker.owner.log_id != owner.log_id:
        raise ConfigError(
            f"the folder {folder} is a storage root of another log, at {marker.owner.place or 'an unknown place'}; name another folder"
        )
    if marker.owner.place != owner.place and not adopt:
        raise ConfigError(f"the storage root {folder} cannot be used: {_elsewhere(marker)}")


def _elsewhere(marker: Marker) -> str:
    return (
        f"it belongs to the log at {marker.owner.place}, of which this is a copy; if that one is no more, "
        "run `streamkit storage set` with the same folders and --adopt"
    )


def _check_vacant(folder: str, known: StorageRoot | None, *, adopt: bool) -> None:
    """ConfigError if a folder without a marker has files, unless they may be adopted."""
    allowed = {"lost+found", MARKER} | ({"slabs", "damaged"} if known and adopt else set())
    names = os.listdir(folder) if os.path.lexists(folder) else []
    found = sorted(name for name in names if name not in allowed and not name.startswith(_UNFINISHED))
    if found:
        hint = "; if its files are this log's, run `streamkit storage set` with the same folders and --adopt" if known else ""
        raise ConfigError(f"the storage root {folder} has files already, such as {found[0]}; expected an empty folder{hint}")


def _write_marker(folder: str, marker: Marker) -> None:
    """Put a marker in the place of the one that may be there, all of it or nothing."""
    unfinished = unfinished_file(MARKER, fresh_token())
    FileStorage(folder).create(unfinished, [marker.encode()])
    os.replace(os.path.join(folder, unfinished), os.path.join(folder, MARKER))
    sync_folder(folder)
