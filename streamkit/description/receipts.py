"""What was written, as plain values: how many records, and the offsets that they have in each partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamkit.log.produce.receipt import Receipt


def written_json(topic: str, receipts: Iterable[Receipt]) -> dict[str, Any]:
    """The records of some receipts of one topic; `offsets` has the first offset and the one behind the last, by partition."""
    offsets: dict[int, tuple[int, int]] = {}
    records = 0
    for receipt in receipts:
        for partition, (first, following) in (receipt.offsets or {}).items():
            known = offsets.get(partition, (first, following))
            offsets[partition] = (min(known[0], first), max(known[1], following))
            records += following - first
    return {"topic": topic, "records": records, "offsets": dict(sorted(offsets.items()))}
