"""The consumer groups of a log, as `log.groups` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.group_description import GroupDescription
from streamkit.log.consume.membership import dead_members
from streamkit.log.database.heartbeats import Heartbeats
from streamkit.log.values.whole_number import offsets_by_topic


@final
class ConsumerGroups:
    """What the consumer groups of a log have read, and what can be done about it while nobody reads."""

    def __init__(self, catalog: Catalog, heartbeats: Heartbeats) -> None:
        self._catalog = catalog
        self._heartbeats = heartbeats

    def names(self) -> list[str]:
        """The names of the groups, sorted."""
        return self._catalog.groups.names()

    def describe(self, group: str) -> GroupDescription:
        """Members, owners, committed offsets and lag of a group; ConfigError, which lists the groups, if there is none of that name."""
        return self._catalog.groups.describe(group)

    def reset(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """
        Commit offsets, by topic and partition, for a group without living members, so that it continues from there.

        FencedError while a member is alive; one that died counts until its session time-out. OffsetOutOfRangeError,
        TopicNotFoundError if a topic does not exist, ConfigError if an offset is not an integer.
        """
        found = {self._catalog.topics.get(topic).id: at for topic, at in offsets_by_topic(offsets).items()}
        self._catalog.groups.reset(group, found, dead_members(self._catalog, self._heartbeats, group))

    def delete(self, group: str) -> None:
        """Forget a group and what it has committed; FencedError while a member is alive, ConfigError if there is none of that name."""
        self._catalog.groups.delete(group, dead_members(self._catalog, self._heartbeats, group))
