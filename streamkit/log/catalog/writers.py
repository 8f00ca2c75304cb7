"""Writers of slabs, applications and producers: which of the slabs they staged can still be committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamkit.log.database.database import Transaction
from streamkit.names import SlabName, application_writer, producer_writer


@dataclass(frozen=True)
class Writers:
    """
    Where every writer stands, as one snapshot: its generation and the serial of its last commit, by name.

    `newest_producer` is the greatest id that a producer ever had; ids never come back.
    """

    standings: Mapping[str, tuple[int, int]]
    newest_producer: int

    def may_commit(self, name: SlabName) -> bool:
        """Whether a slab of this name can still be committed: it is of a commit that is yet to come."""
        if name.writer not in self.standings:
            return False
        generation, serial = self.standings[name.writer]
        return name.generation >= generation and name.serial > serial

    def has_known(self, writer: str) -> bool:
        """Whether the catalog has, or once had, a writer of this name; it never forgets an application."""
        is_producer = writer == producer_writer(int(writer[1:]))
        return writer in self.standings or (is_producer and int(writer[1:]) <= self.newest_producer)


def writers(transaction: Transaction) -> Writers:
    """Where every writer stands."""
    applications = transaction.execute("SELECT id, generation, epoch FROM application")
    producers = transaction.execute("SELECT id, epoch, step FROM producer")
    standings = {application_writer(row[0]): (row[1], row[2]) for row in applications}
    standings |= {producer_writer(row[0]): (row[1], row[2]) for row in producers}
    return Writers(standings, transaction.newest_id("producer"))
