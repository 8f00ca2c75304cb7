"""Texts as numpy sees them: their bytes one after another, their code points, and where each row starts and ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BYTES_MAX = 2**31 - 1
_LONG_BYTES = 256  # pieces that are as long on average are copied one by one
BLOCK_BYTES = 1 << 18  # of a long text that are changed at once


@dataclass(frozen=True)
class TextBytes:
    """The bytes of all rows of a text or binary array; row n lies between `offsets[n]` and `offsets[n + 1]`."""

    data: np.ndarray
    offsets: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)


def bytes_of(values: pa.Array) -> TextBytes:
    """The bytes of an array, without a copy."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1] if offsets else np.zeros(1, np.int32)
    return TextBytes(np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8), ends.astype(np.int64))


def array_of_bytes(data: np.ndarray, offsets: np.ndarray, like: pa.Array, type: pa.DataType) -> pa.Array:
    """An array of texts or binary values from their bytes, null where `like` is; ArrowInvalid if they are too many."""
    if len(offsets) and offsets[-1] > _BYTES_MAX:
        raise pa.ArrowInvalid(f"the values of one batch have {offsets[-1]} bytes; expected at most {_BYTES_MAX}")
    ends = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    return pa.Array.from_buffers(
        type, len(offsets) - 1, [validity(like), ends, pa.py_buffer(np.ascontiguousarray(data, np.uint8))]
    )


def validity(like: pa.Array) -> pa.Buffer | None:
    """Which rows are not null, as bits from the first on; None if all are."""
    return None if not like.null_count else pc.is_valid(like).buffers()[1]


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    """Where rows of these sizes start, and where the last ends."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def gathered(data: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pieces of these sizes from these starts one after another, and their offsets."""
    offsets = offsets_of(sizes)
    if are_long(sizes):  # a place for each byte would need eight times the bytes
        return np.concatenate([data[start : start + size] for start, size in zip(starts, sizes, strict=True)]), offsets
    places = np.repeat(starts - offsets[:-1], sizes)
    places += np.arange(offsets[-1])
    return data[places], offsets


def are_long(sizes: np.ndarray) -> bool:
    """Whether rows are long on average: then one call a row costs less than an array with a number for each byte."""
    return bool(sizes.sum() > _LONG_BYTES * len(sizes))


@dataclass(frozen=True)
class Characters:
    """The code points of all rows of a text array; row n lies between `offsets[n]` and `offsets[n + 1]`."""

    codes: np.ndarray
    offsets: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)


def characters_of(texts: pa.Array) -> Characters:
    """The code points of an array of texts."""
    rows = bytes_of(texts)
    first, last = int(rows.offsets[0]), int(rows.offsets[-1])
    data, offsets = rows.data[first:last], rows.offsets - first
    codes, before = _codes_of(data)
    return Characters(codes, offsets if before is None else before[offsets])


def recoded(texts: pa.Array, change: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]]) -> pa.Array:
    """
    Texts in which other characters stand.

    `change` gives new code points for code points, and how many of the new ones stand for each; None: one. It is called for a piece
    after the other, within rows, too, so that a long text needs little more memory than it and the new one have.
    """
    rows = bytes_of(texts)
    first, last = int(rows.offsets[0]), int(rows.offsets[-1])
    data, offsets = rows.data[first:last], rows.offsets - first
    ends, pieces, start, written = np.zeros(len(offsets), np.int64), [], 0, 0
    while start < len(data):
        end = min(start + BLOCK_BYTES, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        codes, before = _codes_of(data[start:end])
        fresh, counts = change(codes)
        places = slice(*np.searchsorted(offsets, [start, end], "right"))  # of the rows that end in this piece
        inside = offsets[places] - start
        inside = inside if before is None else before[inside]
        inside = inside if counts is None else offsets_of(counts)[inside]
        piece, sizes = _encoded(fresh)
        ends[places] = written + (inside if sizes is None else offsets_of(sizes)[inside])
        pieces.append(piece)
        start, written = end, written + len(piece)
        if written > _BYTES_MAX:
            break  # an error below
    ends[-1] = written
    return array_of_bytes(np.concatenate(pieces) if pieces else np.zeros(0, np.uint8), ends, texts, pa.string())


def _codes_of(data: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The code points of bytes, and how many begin before each place; None if each byte is one."""
    if not len(data) or data.max() < 128:
        return data.astype(np.uint32), None
    return np.frombuffer(data.tobytes().decode().encode("utf-32-le"), np.uint32), offsets_of((data & 0xC0) != 0x80)


def _encoded(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The bytes of code points, and how many each has; None if one."""
    if not len(codes) or codes.max() < 128:
        return codes.astype(np.uint8), None
    sizes = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    return np.frombuffer(codes.astype(np.uint32).tobytes().decode("utf-32-le").encode(), np.uint8), sizes


def texts_of(codes: np.ndarray, offsets: np.ndarray, like: pa.Array) -> pa.Array:
    """Texts of these code points, null where `like` is."""
    data, sizes = _encoded(codes)
    return array_of_bytes(data, offsets if sizes is None else offsets_of(sizes)[offsets], like, pa.string())


def sliced(values: pa.Array, first: np.ndarray, last: np.ndarray) -> pa.Array:
    """
    Of each row the characters (bytes of a binary value) from place `first` up to before `last`, counted from 0.

    Places outside the row hold nothing.
    """
    rows = bytes_of(values)
    if pa.types.is_binary(values.type) or is_ascii(values):
        size = rows.sizes
        begin, end = np.clip(first, 0, size), np.clip(last, 0, size)
        starts, sizes = rows.offsets[:-1] + begin, np.maximum(end - begin, 0)
    elif are_long(rows.sizes):
        texts = [rows.data[start:end] for start, end in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)]
        starts, ends = (
            rows.offsets[:-1] + [_place_of(text, int(number)) for text, number in zip(texts, numbers, strict=True)]
            for numbers in (first, last)
        )
        sizes = np.maximum(ends - starts, 0)
    else:
        begins = np.append(np.flatnonzero((rows.data[: rows.offsets[-1]] & 0xC0) != 0x80), rows.offsets[-1])
        edges = np.searchsorted(begins, rows.offsets)
        size = np.diff(edges)
        begin, end = np.clip(first, 0, size), np.clip(last, 0, size)
        starts = begins[edges[:-1] + begin]
        sizes = np.maximum(begins[edges[:-1] + end] - starts, 0)
    data, offsets = gathered(rows.data, starts, sizes)
    return array_of_bytes(data, offsets, values, values.type)


def _place_of(data: np.ndarray, number: int) -> int:
    """Where the character of this number begins among the bytes of a text; its end behind the last one."""
    if number <= 0:
        return 0
    for start in range(0, len(data), BLOCK_BYTES):
        begins = np.flatnonzero((data[start : start + BLOCK_BYTES] & 0xC0) != 0x80)
        if number < len(begins):
            return start + int(begins[number])
        number -= len(begins)
    return len(data)


def is_ascii(values: pa.Array) -> bool:
    """Whether every row has only characters of one byte."""
    rows = bytes_of(values)
    data = rows.data[rows.offsets[0] : rows.offsets[-1]]
    return not len(data) or bool(data.max() < 128)


def numbers_of(values: pa.Array) -> np.ndarray:
    """Integers as int64, 0 where they are null."""
    numbers = values.fill_null(0) if values.null_count else values
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.int64)


def null_with(values: pa.Array, *others: pa.Array) -> pa.Array:
    """The values, null also where one of the others is."""
    for other in others:
        if other.null_count:
            values = pc.if_else(pc.is_valid(other), values, pa.scalar(None, values.type))
    return values
