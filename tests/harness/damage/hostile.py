"""
Frames that someone made to do harm: every checksum is right, what they cover is not.

    python -m tests.harness.damage.hostile FIRST LAST       try payloads with these numbers, within a limit of memory; JSON of counts

The payload is an Arrow stream with bytes changed: lengths, offsets of buffers, offsets within strings, indexes of
dictionaries, metadata. Whatever comes out must be an error of StreamKit, or rows that can be used without a crash.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import CorruptionError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import HEADER_SIZE, TIMESTAMP_TYPE, Payload, encode, encode_shared, header, padding
from streamkit.log.slab.frame_reader import decode
from streamkit.names import SlabName
from tests.harness.damage.victim import ADDRESS_SPACE_BYTES, COMPRESSIONS, TOPICS, rows_of

TOKEN = "3" * 32
SHARED_STRIDE = 4  # of so many payloads one is that of a shared frame
NUMBERS = (0, 1, -1, 2, 7, 127, 255, 1 << 15, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 40)


def hostile_payload(number: int) -> Payload:
    """A payload of this number, with right checksums."""
    random = Random(f"hostile {number}")
    topic_id = random.choice(sorted(TOPICS))
    rows = rows_of(topic_id, random.choice((1, 5, 40)), 1)
    shared = encode_shared(topic_id, [(0, rows), (2, rows)]) if number % SHARED_STRIDE == SHARED_STRIDE - 1 else None
    payload = shared or encode(topic_id, 0, with_offsets(rows) if topic_id == 3 else rows)
    data = bytearray(payload.data.to_pybytes())
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        _change(data, random)
    return with_data(payload, bytes(data), COMPRESSIONS[topic_id])


def with_offsets(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as compaction leaves them, with their offsets."""
    return rows.append_column("_offset", pa.array(range(71, 71 + rows.num_rows), pa.int64()))


def _change(data: bytearray, random: Random) -> None:
    width, form = random.choice(((1, "<b"), (2, "<h"), (4, "<i"), (8, "<q")))
    at = random.randrange(len(data) - width)
    at = at // width * width if random.random() < 0.8 else at
    if random.random() < 0.4:
        data[at] ^= 1 << random.randrange(8)
    else:
        bits = 8 * width - 1
        number = max(min(random.choice(NUMBERS), (1 << bits) - 1), -(1 << bits))
        data[at : at + width] = struct.pack(form, number)


def with_data(payload: Payload, raw: bytes, compression: str) -> Payload:
    """The payload with another stream in it."""
    stored = pa.py_buffer(raw) if compression == "none" else pa.compress(raw, codec=compression)
    checksum = google_crc32c.value(stored)
    return replace(payload, data=stored, raw_length=len(raw), checksum=checksum, compression=compression)


def file_of(payload: Payload, holes: int = 0, **lies: Any) -> tuple[pa.Buffer, Extent]:
    """A file with the payload as its only frame, the header changed by `lies` before its checksum is taken; and its extent."""
    head = replace(header(payload, 0, 0, bytes.fromhex(TOKEN)), **lies).pack()
    data = head + payload.data.to_pybytes() + padding(HEADER_SIZE + payload.data.size)
    path = SlabName("p1", 1, 1, TOKEN).path
    first = payload.references(0)[0]
    return pa.py_buffer(data), first.extent(path, 70, 70 + first.rows + holes)


def times(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64()).view(TIMESTAMP_TYPE)


def use(batch: pa.RecordBatch) -> None:
    """What readers do with rows: take, filter, sort, compare, hash, look at each."""
    for column in batch.columns:
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        plain = plain.view(pa.int64()) if pa.types.is_timestamp(plain.type) else plain  # Python's own times end at 9999
        if not pa.types.is_nested(plain.type):
            # A column that the topic does not know is passed on, and may have a type that Arrow cannot sort: it says so.
            with suppress(pa.ArrowNotImplementedError):
                pc.unique(plain)
                pc.sort_indices(plain)
        plain.take(pa.array(range(len(plain) - 1, -1, -1)))
        plain.to_pylist()
    pa.Table.from_batches([batch]).combine_chunks().slice(1)


def verdict(number: int) -> str:
    """Read the frame of a number: `refused` or `used`; AssertionError for any other error."""
    payload = hostile_payload(number)
    file, extent = file_of(payload, holes=3 if payload.topic_id == 3 and not payload.parts else 0)
    topic = TOPICS[payload.topic_id].with_id(payload.topic_id)
    try:
        rows = decode(file, extent, topic=topic)
    except CorruptionError:
        return "refused"
    use(rows)
    return "used"


def main() -> None:
    first, last = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    counts: Counter[str] = Counter()
    failures = []
    for number in range(first, last):
        print(number, flush=True)
        try:
            counts[verdict(number)] += 1
        except Exception as error:
            failures.append(f"payload {number}: {type(error).__name__}: {error}")
    print(json.dumps({"counts": counts, "failures": failures[:20]}))


if __name__ == "__main__":
    main()
