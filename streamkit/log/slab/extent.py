"""The manifest's row of one frame: which offsets of a topic partition lie where."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamkit.names import SlabName

FramePlace = tuple[str, int, int]  # path, position, partition: a frame may be shared by several partitions


class Extent(NamedTuple):
    """
    Offsets `base_offset` up to and without `next_offset` of a topic partition, in one frame of a slab; times in ms.

    `rows` is less than the offsets are where compaction has left holes. Several partitions may share a frame: their extents have one
    position, and each its share of the length. A tuple, since a snapshot has thousands of them.
    """

    topic_id: int
    partition: int
    base_offset: int
    next_offset: int
    path: str
    position: int
    length: int
    min_timestamp: int
    max_timestamp: int
    rows: int

    @property
    def is_dense(self) -> bool:
        """Whether there is a row at each offset."""
        return self.rows == self.next_offset - self.base_offset

    @property
    def place(self) -> FramePlace:
        """Where the rows lie, which no other extent of a topic says."""
        return self.path, self.position, self.partition

    @property
    def token(self) -> bytes | None:
        """The token of the slab, from its path; None if the path is no slab's."""
        name = SlabName.parse(self.path)
        return bytes.fromhex(name.token) if name else None

    def to_json(self) -> list[Any]:
        """The extent as a list of scalars, in the order of the fields."""
        return list(self)

    @classmethod
    def from_json(cls, value: list[Any]) -> Extent:
        """The inverse of `to_json`."""
        return cls(*value)
