"""What a member of a group prints without --follow: all records that are there when it begins, also those that a silent member holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from streamkit.errors import CorruptionError
from streamkit.log.catalog.group_description import GroupDescription, PartitionDescription
from streamkit.log.consume.consumer import Consumer
from streamkit.log.consume.membership import HEARTBEAT_INTERVAL_MS
from streamkit.log.log import Log
from streamkit.names import heartbeat_name

LOOK_S = 0.2  # between two looks for an interrupt
_PATIENCE_S = 1.0  # for partitions that other members of the group have to release first
_SILENCE_S = 1.5 * HEARTBEAT_INTERVAL_MS / 1000  # in which a member that is alive is heard of


def drained(
    log: Log, consumer: Consumer, topic: str, group: str, interrupted: threading.Event, note: Callable[[str], None]
) -> Iterator[pa.Table]:
    """
    What is there at the first call, or up to the interrupt; then the error of the first frame that could not be read, if there was one.

    Partitions of a member that is silent are waited for until they are free; those of members that are heard of are left to them.
    `note` is told for whom it waits, and what others keep.
    """
    ends = log.end_offsets(topic)
    waiting = _Waiting(log, consumer, topic, group, ends, note)
    failure: CorruptionError | None = None
    while not interrupted.is_set():
        try:
            table = consumer.poll(LOOK_S)
        except CorruptionError as error:
            if error.topic is None or error.partition is None:
                raise
            failure = failure or error
            consumer.pause([(error.topic, error.partition)])
            continue
        if table is not None:
            yield table
        consumer.pause([place for place, offset in consumer.position().items() if offset >= ends.get(place.partition, 0)])
        is_idle = consumer.paused() == consumer.assignment()
        if not waiting.goes_on(is_idle=is_idle):
            break
    if failure is not None:
        raise failure


class _Waiting:
    """Decides, after each poll, whether partitions that others hold are worth another one; notes for whom it waits."""

    def __init__(
        self, log: Log, consumer: Consumer, topic: str, group: str, ends: Mapping[int, int], note: Callable[[str], None]
    ) -> None:
        self._log = log
        self._consumer = consumer
        self._topic = topic
        self._group = group
        self._ends = ends
        self._note = note
        self._begun_s: float | None = None  # once the consumer is a member
        self._idle_s: float | None = None
        self._has_said = False

    def goes_on(self, *, is_idle: bool) -> bool:
        """Whether to poll again; `is_idle` if there is nothing more in the partitions that are held."""
        now = time.monotonic()
        self._begun_s = now if self._begun_s is None else self._begun_s
        self._idle_s = None if not is_idle else now if self._idle_s is None else self._idle_s
        if self._idle_s is None:
            return True
        found = self._log.groups.describe(self._group)
        held = [row for row in found.partitions if self._is_missed(row)]
        prefix = heartbeat_name(self._group)
        silent = {name.removeprefix(prefix): age / 1000 for name, age in self._log.heartbeats.ages_ms(prefix).items()}
        if any(silent.get(row.owner or "", 0) >= now - self._begun_s for row in held):
            if now - self._begun_s > _SILENCE_S and not self._has_said:
                self._has_said = True
                self._note(f"waiting for {_held_text(found, held, silent)}")
            return True
        if held and now - self._idle_s <= _PATIENCE_S:
            return True
        if any(row.owner for row in held):
            self._note(f"not printed: {_held_text(found, held, silent)}")
        return False

    def _is_missed(self, row: PartitionDescription) -> bool:
        """Whether there was something to read in a partition that another member has."""
        is_ours = (row.topic, row.partition) in self._consumer.assignment()
        reached = max(row.committed or 0, row.start_offset)
        return row.topic == self._topic and not is_ours and reached < self._ends.get(row.partition, 0)


def _held_text(group: GroupDescription, held: list[PartitionDescription], silent_s: Mapping[str, float]) -> str:
    """Which member has which partitions, and how long each was silent."""
    found = []
    for member in group.members:
        numbers = [str(row.partition) for row in held if row.owner == member.member_id]
        if numbers:
            found.append(
                f"partition {', '.join(numbers)}, which member {member.member_id[:8]} ({member.client}) of group {group.name} holds; "
                f"it was last heard of {silent_s.get(member.member_id, 0):.0f} s ago, and counts for {member.session_timeout_ms / 1000:g} s"
            )
    return "; ".join(found)
