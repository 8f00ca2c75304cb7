"""Those who keep the log in order while it is used: they merge, compact, collect orphans, or do all of maintenance."""

from __future__ import annotations

from collections.abc import Callable

from streamkit.errors import EpochFailedError
from streamkit.log.log import Log
from streamkit.log.maintenance.orphans import collect_orphans
from streamkit.log.slab.slab import SlabMissingError
from tests.harness.simulation.topics import COMPACTED
from tests.harness.simulation.world import World

Round = Callable[[Log, World], None]


class Maintainer:
    """Someone who keeps the log in order, a number of rounds in all its lives."""

    def __init__(self, name: str, rounds: int, do: Round) -> None:
        self.name = name
        self._left, self._do = rounds, do

    def live(self, log: Log, world: World) -> None:
        """Do what is left of the rounds."""
        while self._left > 0:
            self._left -= 1
            self._do(log, world)


def merge(log: Log, world: World) -> None:
    """Join the small files of every topic."""
    for topic in log.topics():
        world.events["merges"] += log.merge(topic).swaps


def compact(log: Log, world: World) -> None:
    """Compact, with memory for few keys; others may change the same files too often."""
    try:
        report = log.compact(COMPACTED, memory_bytes=200)
    except (EpochFailedError, SlabMissingError):
        world.events["compactions that others got in the way of"] += 1
    else:
        world.events["rows compacted"] += report.rows_before - report.rows_after


def maintain(log: Log, world: World) -> None:
    """Do a whole pass of maintenance."""
    report = log.maintain()
    world.events["merges"] += report.merged.swaps
    world.events["extents dropped"] += report.dropped.extents
    world.events["files deleted"] += report.files_deleted


def collect(log: Log, world: World) -> None:
    """Delete what producers staged and nobody will commit, while they work."""
    for producer_id, epoch, serial in _producers(log):
        world.events["orphans"] += len(collect_orphans(log.storage, log.catalog, f"p{producer_id}", epoch, serial))


def _producers(log: Log) -> list[tuple[int, int, int]]:
    return log.catalog.read(
        lambda transaction: [(row[0], row[1], row[2]) for row in transaction.execute("SELECT id, epoch, step FROM producer")]
    )
