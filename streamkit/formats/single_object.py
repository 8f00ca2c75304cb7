"""
Avro's single-object encoding: two bytes, the fingerprint of the schema in eight, then the value.

So a value says under which schema it was written. Topics get schemas while their readers go on: who reads records of a topic lets the process
know its schemas (`remember`), and who decodes values finds there those that it did not know when it began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, UnsignedIntegers
from streamkit.formats.avro_schema import parsed_schema
from streamkit.formats.format import Format

MARKER = b"\xc3\x01"
HEADER_BYTES = 10
_REMEMBERED: dict[int, str] = {}  # by fingerprint, which no other schema has, so it does not matter which topic or log said so


@lru_cache(maxsize=256)
def header(text: str) -> bytes:
    """What stands before each value of a schema."""
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return MARKER + bytes.fromhex(fingerprint(to_parsing_canonical_form(parsed_schema(text)[0]), "CRC-64-AVRO"))


def remember(format: Format | None) -> None:
    """Let all decoders of this process know the schemas of a topic, if it has had several; with one its values have no headers."""
    if format is not None and format.earlier:
        _REMEMBERED.update(_by_fingerprint((*format.earlier, str(format.schema))))


def schema_of(value: bytes, own: Sequence[str]) -> str | None:
    """The schema that a value names, one of the reader's `own` or a remembered one; None if it names none that is known."""
    if not value.startswith(MARKER) or len(value) < HEADER_BYTES:
        return None
    found = int.from_bytes(value[len(MARKER) : HEADER_BYTES], "big")
    return _known(found, _by_fingerprint(own))


def by_schema(values: pa.Array, own: Sequence[str]) -> list[tuple[str, Integers, int]]:
    """
    Which of the values, none of which is null, each schema has written, and how many bytes stand before them.

    Values that name no schema that is known are of the first of the reader's `own`, and whole.
    """
    headed, fingerprints = _fingerprints(values)
    by_fingerprint = _by_fingerprint(own) if len(headed) else {}
    parts: list[tuple[str, Integers, int]] = []
    is_headed = np.zeros(len(values), np.bool_)
    for one in np.unique(fingerprints).tolist():
        if text := _known(one, by_fingerprint):
            rows = headed[fingerprints == one]
            parts.append((text, rows, HEADER_BYTES))
            is_headed[rows] = True
    rest = np.flatnonzero(~is_headed)
    return [*parts, (own[0], rest, 0)] if len(rest) or not parts else parts


def _known(fingerprint: int, own: Mapping[int, str]) -> str | None:
    return own.get(fingerprint) or _REMEMBERED.get(fingerprint)


def _by_fingerprint(schemas: Sequence[str]) -> dict[int, str]:
    return {int.from_bytes(header(text)[len(MARKER) :], "big"): text for text in schemas}


def _fingerprints(values: pa.Array) -> tuple[Integers, UnsignedIntegers]:
    """The numbers of the values that begin as the encoding does, and what each of them has for a fingerprint."""
    _, offsets, data = values.buffers()
    if not len(values) or data is None:
        return np.zeros(0, np.int64), np.zeros(0, np.uint64)
    bounds = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    content = np.frombuffer(data, np.uint8)
    long = np.flatnonzero(bounds[1:] - bounds[:-1] >= HEADER_BYTES)
    starts = bounds[long]
    is_headed = (content[starts] == MARKER[0]) & (content[starts + 1] == MARKER[1]) if len(long) else np.zeros(0, np.bool_)
    starts = starts[is_headed]
    found = np.zeros(len(starts), np.uint64)
    for place in range(len(MARKER), HEADER_BYTES):
        found = found << np.uint64(8) | content[starts + place].astype(np.uint64)
    return long[is_headed], found
