"""
A producer whose server, or whose connection to it, dies again and again.

    python -m tests.harness.crash.postgres_writer LOG WRITER FLUSHES [BUG]        begins when told to, and says which rows were acknowledged

Of every few of its commits the connection breaks, by turns before the server hears of it and after: whether it was done is to be found out.
"""

from __future__ import annotations

import sys
from itertools import count

from streamkit.errors import StreamKitError
from streamkit.log.database.postgres import PostgresDatabase, PostgresTransaction
from streamkit.log.opening import open_log
from tests.kit.commit_bugs import plant

COMMITS_PER_BREAK = 7


def break_connections() -> None:
    original, numbers = PostgresDatabase._commit, count(1)

    def commit(database: PostgresDatabase, transaction: PostgresTransaction) -> None:
        breaks, left = divmod(next(numbers), COMMITS_PER_BREAK)
        if not left:
            if not breaks % 2:
                transaction.connection.execute(b"COMMIT", prepare=False)
            transaction.connection.close()
        original(database, transaction)

    PostgresDatabase._commit = commit  # type: ignore[assignment, method-assign]


def main(url: str, writer: str, flushes: str, *bug: str) -> None:
    for name in bug:
        plant(name)
    log = open_log(url)
    break_connections()
    producer = log.producer()
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(flushes)):
        producer.send("t", {"writer": int(writer), "n": number})
        while True:
            try:
                producer.flush()
                break
            except StreamKitError as error:
                print("failed", type(error).__name__, error, flush=True)
        print("acknowledged", number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
