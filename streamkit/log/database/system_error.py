"""What the operating system refuses, as errors that say what was found, what is expected, and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from streamkit.errors import StorageFailedError, StorageFullError, StreamKitError

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_REFUSALS = frozenset((errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM))
_DESCRIPTORS = "expected room for one more open file; close what is not needed, or raise the limit (`ulimit -n`)"
_EXPECTED = {
    errno.EROFS: "expected a file system that can be written to; mount it so",
    errno.EMFILE: _DESCRIPTORS,
    errno.ENFILE: _DESCRIPTORS,
    errno.EIO: "expected a disk that works; see the host's own log, and check with `streamkit fsck --deep`",
    errno.ENOTDIR: "expected a folder; move what is there away",
    errno.ELOOP: "expected a plain file or folder, since a log follows no links; put one there",
}


@contextmanager
def naming(work: str, path: str, *known: type[OSError]) -> Iterator[None]:
    """
    Raise what the operating system refuses in the block, which does some `work` (write, read …) on a path, as `system_error`.

    Errors of the `known` kinds, which the caller has words for, stay what they are.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, (StorageFailedError, *known)):
            raise
        raise system_error(work, path, error) from error


def system_error(work: str, path: str, error: OSError) -> StorageFullError | StorageFailedError:
    """The error of a call that was refused; `error` is to be its cause."""
    if error.errno in FULL:
        return full_error(path, error)
    reason = error.strerror or str(error)
    return StorageFailedError(f"cannot {work} {path}: {reason}{_where(path, error)}; {expected(error)}", error.errno, reason)


def full_error(path: str, error: OSError) -> StorageFullError:
    """The error of a write that found no room."""
    return StorageFullError(f"no room to write {path}: {error.strerror}; nothing became visible, free disk space and run again")


def error_text(error: Exception) -> str:
    """The message of an error; for a bare error of the operating system, with what to do."""
    if isinstance(error, StreamKitError) or not isinstance(error, OSError) or error.errno is None:
        return str(error)
    where = f" ({error.filename})" if error.filename else ""
    return f"the operating system refused a call: {error.strerror}{where}; {expected(error)}"


def expected(error: OSError) -> str:
    """What the operating system would have to find instead, and what to do."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"expected that the user {os.geteuid()} may do that, with the file and its folders; change their owner or mode"
    return _EXPECTED.get(error.errno or 0, "fix that, then run again")


def obstacle(error: OSError) -> str:
    """Why a folder cannot be made: what stands in its way, if something does, which is no folder or leads to none."""
    path = os.path.abspath(error.filename) if isinstance(error.filename, str) else ""
    while path and not os.path.lexists(path):  # what is missing below it follows from it
        path = path if path == os.path.dirname(path) else os.path.dirname(path)
    if not path or os.path.isdir(path):
        return str(error.strerror)
    if os.path.islink(path) and not os.path.exists(path):
        return f"{path} is a link to {os.readlink(path)}, which does not exist; make that folder, or mount its disk"
    kind = "a file" if os.path.isfile(path) else "no folder"
    return f"{path} is {kind}; expected a folder, or nothing yet"


def is_refusal(error: BaseException) -> bool:
    """Whether the error only says that this process may not look, and nothing about what is there."""
    return isinstance(error, OSError) and error.errno in _REFUSALS


def raise_unless_missing(error: OSError) -> None:
    """Raise the error of a walk: a folder may go while it is listed, but one that cannot be read must not count as empty."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _where(path: str, error: OSError) -> str:
    return f" ({error.filename})" if error.filename and error.filename != path else ""
