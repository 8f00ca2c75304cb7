"""
Lineage: what a frame that maintenance wrote says of its offsets, and of the frames whose place it takes.

Offsets are the catalog's: a frame as a producer wrote it does not know its own. A rewritten frame does, and says so in the
metadata of its Arrow schema, which nobody needs to read it. Only where a catalog is lost for good (`salvage.py`) it tells
rows that lie in two files from rows that were written twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from streamkit.log.slab.extent import Extent
from streamkit.names import SlabName

KEY = b"streamkit.lineage"
OFFSET_MAX = (1 << 62) - 1


@dataclass(frozen=True)
class SourceFrame:
    """A frame that was read: the token of its slab, its position there, its first offset and the one behind it."""

    token: str
    position: int
    base_offset: int
    next_offset: int


@dataclass(frozen=True)
class FrameLineage:
    """The offsets that a frame covers, the first and the one behind the last, and what it was written from."""

    base_offset: int
    next_offset: int
    sources: tuple[SourceFrame, ...] = ()


def with_lineage(batch: pa.RecordBatch, base_offset: int, next_offset: int, extents: Sequence[Extent]) -> pa.RecordBatch:
    """The rows of a frame, saying that they cover these offsets and were read from these extents."""
    names = ((SlabName.parse(extent.path), extent) for extent in extents)
    value = {
        "offsets": [base_offset, next_offset],
        "from": [[name.token, extent.position, extent.base_offset, extent.next_offset] for name, extent in names if name],
    }
    return batch.replace_schema_metadata({KEY: json.dumps(value, separators=(",", ":"))})


def lineage_of(schema: pa.Schema) -> FrameLineage | None:
    """What a frame says of itself; None if it says nothing, or what no maintenance would."""
    text = (schema.metadata or {}).get(KEY)
    if text is None:
        return None
    try:
        value = json.loads(text)
        sources = tuple(SourceFrame(str(token), *_checked(numbers)) for token, *numbers in value["from"])
        base_offset, next_offset = _checked(value["offsets"])
        return FrameLineage(base_offset, next_offset, sources)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _checked(numbers: Sequence[object]) -> list[int]:
    """Whole numbers as they are, the last two of them a range of offsets; else ValueError."""
    checked = [number for number in numbers if isinstance(number, int) and 0 <= number <= OFFSET_MAX]
    if len(checked) != len(numbers) or checked[-2] >= checked[-1]:
        raise ValueError(f"found {numbers}, expected a range of offsets")
    return checked
