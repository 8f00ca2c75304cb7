"""The values of each key over time, as far back as the history is kept."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from tests.harness.conformance.interpreter.record import Stored
from tests.harness.conformance.interpreter.stream_time import StreamTime


class VersionedStore:
    """
    Each value holds from its timestamp on until the next one of its key; so does each deletion if `keeps_deletions`.

    `clock` tells how far time has come: by Kafka's rules with the records that were put.
    """

    is_versioned = True

    def __init__(self, retention_ms: int, clock: StreamTime, keeps_deletions: bool = False) -> None:
        self.retention_ms = retention_ms
        self.clock = clock
        self.keeps_deletions = keeps_deletions
        self.versions: dict[Any, list[Stored]] = {}

    def get(self, key: Any) -> Stored | None:
        """The newest version, which never expires; None if it is a deletion."""
        versions = self.versions.get(key)
        return versions[-1] if versions and versions[-1].value is not None else None

    def get_as_of(self, key: Any, timestamp: int) -> Stored | None:
        """The version that held at a time; None if it is a deletion, or an older one than the history keeps."""
        versions = self.versions.get(key, [])
        place = bisect_right([version.timestamp for version in versions], timestamp)
        if not place or (place < len(versions) and timestamp < self.clock.now - self.retention_ms):
            return None
        return versions[place - 1] if versions[place - 1].value is not None else None

    def put(self, key: Any, value: Any, timestamp: int) -> bool | None:
        """Add a version. True: it is the newest of its key; False: it is not; None: it is too old and was not taken."""
        if timestamp < self.clock.now - self.retention_ms:
            return None
        self.clock.observe(timestamp)
        versions = self.versions.setdefault(key, [])
        place = bisect_right([version.timestamp for version in versions], timestamp)
        if place and versions[place - 1].timestamp == timestamp:
            return self._replace(versions, place - 1, value)
        versions.insert(place, Stored(value, timestamp))
        return place == len(versions) - 1

    def _replace(self, versions: list[Stored], place: int, value: Any) -> bool:
        """
        Set the value of a version that is there.

        Kafka Streams keeps a deletion only as the end of the value before it. So a newest version that is deleted at its own
        timestamp leaves no trace, unless a value came before it.
        """
        is_latest, had_value = place == len(versions) - 1, versions[place].value is not None
        follows_value = place > 0 and versions[place - 1].value is not None
        if is_latest and had_value and value is None and not follows_value and not self.keeps_deletions:
            del versions[place]
        else:
            versions[place] = versions[place]._replace(value=value)
        return is_latest
