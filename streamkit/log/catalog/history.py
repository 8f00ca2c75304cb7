"""The history of the catalog: which log it is of, and how many transactions have changed it; one row."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.log.database.database import Transaction


@dataclass(frozen=True)
class Standing:
    """
    How far a catalog has come: its commits on a timeline, and the token of the last.

    A rebuilt catalog begins a new timeline, so that commits it does not have differ from those made after it.
    """

    log_id: str
    timeline: int
    commits: int
    token: str

    @property
    def place(self) -> tuple[int, int]:
        """What orders standings of one log: timeline, then commits."""
        return self.timeline, self.commits


@dataclass(frozen=True)
class CatalogCommit:
    """A transaction that changes the catalog of a log: its number, its token, and the token of the one before it."""

    log_id: str
    timeline: int
    number: int
    previous: str
    token: str


def begin(transaction: Transaction, log_id: str) -> None:
    """Write the row of a new catalog."""
    transaction.execute("INSERT INTO history (id, log_id, timeline, commits, token) VALUES (1, ?, 1, 0, '')", (log_id,))


def standing(transaction: Transaction) -> Standing:
    """How far the catalog has come."""
    (row,) = transaction.execute("SELECT log_id, timeline, commits, token FROM history")
    return Standing(*row)


def advance(transaction: Transaction, token: str) -> CatalogCommit:
    """Count a transaction, and return it as a commit."""
    before = standing(transaction)
    commit = CatalogCommit(before.log_id, before.timeline, before.commits + 1, before.token, token)
    arrive(transaction, commit)
    return commit


def arrive(transaction: Transaction, commit: CatalogCommit) -> None:
    """Say that this commit is the last."""
    transaction.execute(
        "UPDATE history SET timeline = ?, commits = ?, token = ? WHERE id = 1", (commit.timeline, commit.number, commit.token)
    )


def name(transaction: Transaction, log_id: str) -> None:
    """Say which log this is the catalog of."""
    transaction.execute("UPDATE history SET log_id = ? WHERE id = 1", (log_id,))


def begin_timeline(transaction: Transaction, timeline: int) -> None:
    """Leave every commit that is not in this catalog behind on older timelines."""
    transaction.execute("UPDATE history SET timeline = ? WHERE id = 1", (timeline,))
