"""References to staged bytes: what a task hands to the committer instead of data."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field, fields
from typing import Any

from streamkit.errors import EpochFailedError
from streamkit.log.slab.extent import Extent
from streamkit.names import SlabName, is_inline

_ENCODER = json.JSONEncoder(separators=(",", ":"))  # `json.dumps` makes one each time


@dataclass(frozen=True)
class FrameReference:
    """
    A frame in a slab: its place in bytes, its rows, its times in ms, the CRC32C of its payload.

    Of a frame that several partitions share, each has one, in their order: with the same position and checksum, and its share of the length.
    The order of the frames of one topic partition within a slab is the order in which offsets are assigned.
    """

    topic_id: int
    partition: int
    position: int
    length: int
    rows: int
    min_timestamp: int
    max_timestamp: int
    checksum: int

    def extent(self, path: str, base_offset: int, next_offset: int) -> Extent:
        """The frame's row in the manifest, once its rows have offsets."""
        return Extent(
            self.topic_id, self.partition, base_offset, next_offset, path, self.position, self.length,
            self.min_timestamp, self.max_timestamp, self.rows,
        )  # fmt: skip

    def to_json(self) -> list[int]:
        """The reference as a list of integers, in the order of the fields."""
        return [
            self.topic_id, self.partition, self.position, self.length, self.rows, self.min_timestamp, self.max_timestamp, self.checksum,
        ]  # fmt: skip

    @classmethod
    def from_json(cls, value: list[int]) -> FrameReference:
        """The inverse of `to_json`; EpochFailedError if no writer could have said this."""
        return cls(*_checked_integers(value, len(fields(cls))))


@dataclass(frozen=True)
class SlabReference:
    """
    A slab that is complete: its size in bytes, the CRC32C of its footer, who wrote it, its frames.

    It is durable, unless it is a small one that lies in no file: then `data` has its bytes, and the commit makes them durable.
    """

    path: str
    size: int
    checksum: int
    writer: str
    generation: int
    serial: int
    token: str
    frames: tuple[FrameReference, ...]
    data: bytes | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> SlabName:
        return SlabName(self.writer, self.generation, self.serial, self.token, is_inline(self.path))

    @property
    def rows(self) -> int:
        return sum(frame.rows for frame in self.frames)

    @property
    def content(self) -> str:
        """A hash of what was written, which does not depend on the token: equal for attempts that wrote the same."""
        return hashlib.sha256(footer_bytes(self.name, self.frames)).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The reference as plain dicts, lists and scalars."""
        data = {} if self.data is None else {"data": b64encode(self.data).decode()}
        return {
            "path": self.path, "size": self.size, "checksum": self.checksum, "frames": [frame.to_json() for frame in self.frames], **data,
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> SlabReference:
        """The inverse of `to_json`; EpochFailedError if no writer could have said this."""
        name = SlabName.parse(value["path"])
        if name is None:
            raise EpochFailedError(f"a task named the file {value['path']!r}; expected the path of a slab")
        size, checksum = _checked_integers([value["size"], value["checksum"]], 2)
        frames = tuple(FrameReference.from_json(frame) for frame in value["frames"])
        data = _checked_bytes(value) if name.is_inline else None
        return cls(name.path, size, checksum, name.writer, name.generation, name.serial, name.token, frames, data)


def footer_bytes(name: SlabName, frames: tuple[FrameReference, ...]) -> bytes:
    """The footer of a slab; the token stays out, so that equal contents have equal footers."""
    footer = {
        "writer": name.writer,
        "generation": name.generation,
        "step": name.serial,  # the format has the older word
        "frames": [frame.to_json() for frame in frames],
    }
    return _ENCODER.encode(footer).encode()


def _checked_bytes(value: dict[str, Any]) -> bytes:
    try:
        return b64decode(value["data"], validate=True)
    except (LookupError, TypeError, ValueError) as error:
        raise EpochFailedError(f"a task named the slab {value['path']!r} without its bytes: {error!r}") from error


def _checked_integers(value: list[int], count: int) -> list[int]:
    if len(value) != count or any(type(item) is not int for item in value):
        raise EpochFailedError(f"a task returned {value!r} where {count} integers were expected")
    return value
