"""The log of a query in the driver-side processes of Spark: each opens it once, and keeps it for the epochs to come."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.names import CATALOG_FILE
from streamkit.spark.job import Job


@dataclass(frozen=True)
class _KeptLog:
    """An open log: the start and the process that opened it, and the file that its catalog was then."""

    token: str
    process: int
    file: tuple[int, int] | None
    log: Log


_kept: list[_KeptLog] = []  # one at most
_of_parents: list[_KeptLog] = []


@contextmanager
def job_log(job: Job) -> Iterator[Log]:
    """
    The log of the job, open in this process; only driver-side processes call it.

    Opening one takes 3 ms on SQLite and 30 on PostgreSQL, three times an epoch. Another start, another file of the catalog, and any error
    make it open the log again. A server that is out of reach is waited for, since the run has had an answer.
    """
    if _kept and not _is_of(job, _kept[0]):
        _forget()
    if not _kept:
        log = open_log(job.location, is_known=True)
        _kept.append(_KeptLog(job.token, os.getpid(), _file_of(log.root, log.location), log))
    try:
        yield _kept[0].log
    except BaseException:
        _forget()
        raise


def _is_of(job: Job, kept: _KeptLog) -> bool:
    return (kept.token, kept.process) == (job.token, os.getpid()) and kept.file == _file_of(kept.log.root, kept.log.location)


def _file_of(root: str, location: str) -> tuple[int, int] | None:
    """Which file the catalog is; None for one on a server, and for one that is not there."""
    with suppress(OSError):
        if location == root:
            found = os.stat(os.path.join(root, CATALOG_FILE))
            return found.st_dev, found.st_ino
    return None


def _forget() -> None:
    """Close what is kept, unless a fork brought it here: then it is the other process's, and not even garbage collection may close it."""
    kept = _kept.pop()
    if kept.process != os.getpid():
        _of_parents.append(kept)
        return
    with suppress(Exception):
        kept.log.close()
