"""
Whether a topic that loses rows on purpose, by compaction or retention, has lost the right ones.

A pure function of it and of its twin: the same rows at the same offsets, all of them. Each anomaly is named:

    changed         a row that is there is not the one that was written at this offset
    lost            a row behind the start is gone, and nothing newer of its key says why
    undead          a deletion has gone while an older row of its key is still there
    hasty           a deletion has gone that somebody may still need
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.kit.checker import Anomaly


@dataclass(frozen=True)
class Row:
    """A row: its key, its value (None deletes the key), its event time, and when it was sent."""

    key: int
    value: int | None
    time_ms: int = 0
    sent_ms: int = 0

    @property
    def is_deletion(self) -> bool:
        return self.value is None


def check_twin(
    whole: Mapping[int, Row],
    held: Mapping[int, Row],
    start: int = 0,
    end: int | None = None,
    is_compacted: bool = False,
    may_forget: Callable[[Row], bool] = lambda _: False,
) -> Iterator[Anomaly]:
    """
    Everything that is wrong with what is held between two offsets of a partition, given all that was written.

    `may_forget` says of a deletion whether it may have gone by now.
    """
    wanted = {offset: row for offset, row in whole.items() if start <= offset and (end is None or offset < end)}
    newest = {row.key: offset for offset, row in sorted(wanted.items())}
    for offset, found in held.items():
        if wanted.get(offset) != found:
            yield Anomaly("changed", f"at offset {offset} is {found}, and {wanted.get(offset)} was written")
    for offset, row in wanted.items():
        if offset in held or (is_compacted and offset < newest[row.key]):
            continue
        if not (is_compacted and row.is_deletion):
            yield Anomaly("lost", f"{row} at offset {offset} is gone, and no newer row of its key is there")
        elif older := [other for other in held if other < offset and held[other].key == row.key]:
            yield Anomaly("undead", f"{row} at offset {offset} is gone, and its key is still at {older}")
        elif not may_forget(row):
            yield Anomaly("hasty", f"{row} at offset {offset} went too early")
