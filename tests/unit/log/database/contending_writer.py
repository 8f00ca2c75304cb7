"""
A producer that commits as fast as it can, beside others.

    python -m tests.unit.log.database.contending_writer FOLDER SECONDS [BUG]

It begins when told to, and prints the milliseconds of each commit and the errors, then END.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from streamkit.errors import StreamKitError
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.opening import open_log


def begin_as_reader() -> None:
    """A transaction that writes takes its lock when it comes to write, and not when it begins."""
    original: Any = SqliteDatabase._transaction

    def transaction(database: SqliteDatabase, _: str, *, is_write: bool) -> Any:
        return original(database, "BEGIN", is_write=is_write)

    SqliteDatabase._transaction = transaction  # type: ignore[method-assign, assignment]


def wait_for_nobody() -> None:
    """A lock that another holds is an error at once."""
    original: Any = SqliteDatabase._transaction

    def transaction(database: SqliteDatabase, begin: str, *, is_write: bool) -> Any:
        assert database._connection is not None
        database._connection.set_busy_timeout(0)
        return original(database, begin, is_write=is_write)

    SqliteDatabase._transaction = transaction  # type: ignore[method-assign, assignment]


BUGS = {"writers begin as readers": begin_as_reader, "nobody waits for a lock": wait_for_nobody}


def main(folder: str, seconds: str, *bugs: str) -> None:
    log = open_log(folder)
    producer = log.producer()
    producer.send("t", {"n": 0})
    producer.flush()
    for bug in bugs:
        BUGS[bug]()
    print("ready", flush=True)
    sys.stdin.readline()
    said: list[str] = []  # a pipe that is full would have it wait
    end = time.monotonic() + float(seconds)
    while (begun := time.monotonic()) < end:
        try:
            producer.send("t", {"n": 1})
            producer.flush()
        except StreamKitError as error:
            said.append(f"{type(error).__name__}: {error}")
        else:
            said.append(str((time.monotonic() - begun) * 1_000))
    print(*said, "END", sep="\n", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
