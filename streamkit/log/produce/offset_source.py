"""What a transaction takes offsets from."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from streamkit.log.catalog.groups import GroupCommit


@runtime_checkable
class OffsetSource(Protocol):
    """Something that has offsets to commit for a group: a consumer."""

    def group_commit(self) -> GroupCommit:
        """The offsets after the last records it handed out, and the member that it is."""

    @property
    def tenure(self) -> int:
        """A number that changes whenever it lets partitions go, even if they come back."""
