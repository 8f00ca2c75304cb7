"""What comes to a topic: at each look the newest records since the look before, and which of them are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from streamkit.errors import TopicNotFoundError
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic
from streamkit.query.position import LATEST
from streamkit.query.record_page import PageLimits, PageReader
from streamkit.query.wanted import Wanted

TOO_MANY = "more came than is shown live"


@dataclass(frozen=True)
class SkippedOffsets:
    """Offsets of a partition, from `start` to before `end`, whose records a look leaves out, and why."""

    partition: int
    start: int
    end: int
    why: str


@dataclass(frozen=True)
class TailPage:
    """The records of a look, by partition and offset, and what it leaves out."""

    rows: pa.Table
    skipped: tuple[SkippedOffsets, ...]


class Tail:
    """
    Looks at a topic from offsets on; `at` are those behind the last look.

    A look reads `limits.rows` records at most: of each partition that has new ones an equal share, the newest.
    """

    def __init__(self, topic: Topic, columns: tuple[str, ...], limits: PageLimits, at: Mapping[int, int] | None = None) -> None:
        self.topic, self._columns, self._limits = topic, columns, limits
        self.at: dict[int, int] = dict(at or {})

    def begin(self, log: Log) -> None:
        """Leave out all that is there."""
        self.at = self._ends(log)

    def look(self, log: Log) -> TailPage | None:
        """The records since the last look; None if there are none. TopicNotFoundError if the topic was deleted, or made again."""
        ends = self._ends(log)
        if ends == self.at:
            return None
        starts = {partition: self.at.get(partition, 0) for partition in ends}
        share = max(1, self._limits.rows // max(1, sum(ends[one] > starts[one] for one in ends)))
        read = {one: max(starts[one], ends[one] - share) for one in ends}
        skipped = [SkippedOffsets(one, starts[one], read[one], TOO_MANY) for one in ends if starts[one] < read[one]]
        self.at = ends
        page = PageReader(log, Wanted(self.topic, self._columns, None, LATEST, None), self._limits).page(read, ends)
        why, reached = str(page.failure or page.why or TOO_MANY), page.following
        skipped += [SkippedOffsets(one, reached[one], ends[one], why) for one in ends if reached[one] < ends[one]]
        return TailPage(page.rows, tuple(skipped))

    def _ends(self, log: Log) -> dict[int, int]:
        found = log.topic(self.topic.name)
        if found.id != self.topic.id:
            raise TopicNotFoundError(f"the topic {self.topic.name!r} was deleted, and created again")
        return log.end_offsets(found.name)
