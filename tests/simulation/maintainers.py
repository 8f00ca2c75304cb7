"""Those who keep the log in order while it is used: a merger, a cleaner, caretakers who do all of it."""

from __future__ import annotations

from streamkit.errors import EpochFailedError
from streamkit.log.log import Log
from streamkit.log.slab import SlabMissingError
from tests.simulation.topics import COMPACTED
from tests.simulation.world import World


class Merger:
    """Someone who joins the small files of every topic."""

    def __init__(self, number: int, rounds: int) -> None:
        self.name = f"merger-{number}"
        self._left = rounds

    def live(self, log: Log, world: World) -> None:
        """Merge every topic, a number of times."""
        while self._left > 0:
            self._left -= 1
            for topic in log.topics():
                world.events["merges"] += log.merge(topic).swaps


class Cleaner:
    """Someone who compacts, with memory for few keys."""

    def __init__(self, number: int, rounds: int) -> None:
        self.name = f"cleaner-{number}"
        self._left = rounds

    def live(self, log: Log, world: World) -> None:
        """Compact a number of times; others may change the same files too often."""
        while self._left > 0:
            self._left -= 1
            try:
                report = log.compact(COMPACTED, memory_bytes=200)
            except (EpochFailedError, SlabMissingError):
                world.events["compactions that others got in the way of"] += 1
            else:
                world.events["rows compacted"] += report.rows_before - report.rows_after


class Caretaker:
    """Someone who does a whole pass of maintenance; two of them may do so at once."""

    def __init__(self, number: int, rounds: int) -> None:
        self.name = f"caretaker-{number}"
        self._left = rounds

    def live(self, log: Log, world: World) -> None:
        """Maintain the log, a number of times."""
        while self._left > 0:
            self._left -= 1
            report = log.maintain()
            world.events["merges"] += report.merged.swaps
            world.events["extents dropped"] += report.dropped.extents
            world.events["files deleted"] += report.files_deleted
