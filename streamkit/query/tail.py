"""What comes to a topic: at each look the newest records since the look before, and which of them are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from streamkit.errors import TopicNotFoundError
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic
from streamkit.query.position import LATEST
from streamkit.query.record_page import PageLimits, PageReader, RecordPage
from streamkit.query.wanted import Wanted

TOO_MANY = "more came than is shown live"
BISECTIONS = 4  # between a page that has room and one of twice the records that has none


@dataclass(frozen=True)
class SkippedOffsets:
    """Offsets of a partition, from `start` to before `end`, whose records a look leaves out, and why."""

    partition: int
    start: int
    end: int
    why: str


@dataclass(frozen=True)
class TailPage:
    """
    The records of a look, by partition and offset, which began at `starts` and came to before `following`.

    It leaves out `older` records, before `starts`, and records behind `following`: these are `later`.
    """

    rows: pa.Table
    starts: Mapping[int, int]
    following: Mapping[int, int]
    older: tuple[SkippedOffsets, ...]
    later: tuple[SkippedOffsets, ...]

    @property
    def skipped(self) -> tuple[SkippedOffsets, ...]:
        """All that it leaves out."""
        return (*self.older, *self.later)


def newest_page(reader: PageReader, starts: Mapping[int, int], ends: Mapping[int, int], rows: int) -> TailPage:
    """
    The newest records from `starts` to before `ends` that a page of so many rows has room for.

    Each partition that has any gets an equal share, and what one does not need is for the others. Where the records are so large that the page
    has no room for all, it is halved until it has, and then looked for between the last two.
    """
    counts = {one: ends[one] - starts[one] for one in ends}

    def newest(room: int) -> tuple[dict[int, int], RecordPage]:
        share = _share(counts.values(), room)
        read = {one: max(starts[one], ends[one] - share) for one in ends}
        return read, reader.page(read, ends)

    fitting, too_many = max(1, rows), 0
    read, page = newest(fitting)
    while page.is_full and _share(counts.values(), fitting) > 1:
        fitting, too_many = fitting // 2, fitting
        read, page = newest(fitting)
    for _ in range(BISECTIONS if too_many else 0):
        middle = (fitting + too_many) // 2
        more, wider = newest(middle)
        if wider.is_full:
            too_many = middle
        else:
            fitting, read, page = middle, more, wider
    older = [SkippedOffsets(one, starts[one], read[one], TOO_MANY) for one in ends if starts[one] < read[one]]
    return TailPage(page.rows, read, page.following, tuple(older), later_than(page, ends, TOO_MANY))


def _share(counts: Iterable[int], room: int) -> int:
    """How many records of each partition are in a page with so much room, of those that have so many; at least one."""
    left, most = room, 0
    waiting = sorted(count for count in counts if count > 0)
    for place, count in enumerate(waiting):
        most = left // (len(waiting) - place)
        if count > most:
            return max(1, most)
        left -= count
    return max(1, most, *waiting) if waiting else 1


def later_than(page: RecordPage, ends: Mapping[int, int], otherwise: str) -> tuple[SkippedOffsets, ...]:
    """What a page does not come to, and why: what ended it, or what is said otherwise."""
    why = str(page.failure or page.why or otherwise)
    return tuple(
        SkippedOffsets(one, offset, ends[one], why) for one, offset in sorted(page.following.items()) if offset < ends.get(one, 0)
    )


class Tail:
    """
    Looks at a topic from offsets on; `at` are those behind the last look.

    A look reads `limits.rows` records at most: of each partition that has new ones an equal share, the newest, and of others what is left.
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
        self.at = ends
        reader = PageReader(log, Wanted(self.topic, self._columns, None, LATEST, None), self._limits)
        return newest_page(reader, starts, ends, self._limits.rows)

    def _ends(self, log: Log) -> dict[int, int]:
        found = log.topic(self.topic.name)
        if found.id != self.topic.id:
            raise TopicNotFoundError(f"the topic {self.topic.name!r} was deleted, and created again")
        return log.end_offsets(found.name)
