"""Processes that are stopped while they work on a log, so that others go on in their place."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import apsw

from tests.kit.waiting import wait_until


def stop(pid: int, root: Path | str) -> None:
    """
    Stop a process that works on a log in a folder, at a moment at which it does not hold the catalog.

    Who is stopped within a commit to SQLite locks all others out for as long as it is stopped; no test is about that.
    """

    def is_stopped() -> bool:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: _state(pid) in "TZX")
        if not _is_locked(Path(root) / "catalog.db"):
            return True
        os.kill(pid, signal.SIGCONT)
        return False

    wait_until(is_stopped)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _is_locked(catalog: Path) -> bool:
    database = apsw.Connection(str(catalog))  # of apsw, as closing a file of another library drops the locks of this process
    try:
        database.set_busy_timeout(0)
        database.execute("BEGIN IMMEDIATE")
        database.execute("ROLLBACK")
    except apsw.BusyError:
        return True
    finally:
        database.close()
    return False
