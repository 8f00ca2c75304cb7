"""MD5 of many short values at once: each step of the digest is one operation on the words of all rows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.characters import array_of_bytes, bytes_of

SHORT = 55  # bytes that fit into one block of 64, with a mark and the length
_FEWEST = 2_048  # rows that are worth the operations
_ROWS = 16_384  # at once, so that they stay near the processor
_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
_SINES = [np.uint32(int(abs(math.sin(step + 1)) * 2**32)) for step in range(64)]
_TURNS = ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
_WORDS = ((1, 0), (5, 1), (3, 5), (7, 0))  # a round takes the word of number factor * step + first
_PADDING = pa.array([b"\x80" + bytes(SHORT - size) + (8 * size).to_bytes(8, "little") for size in range(SHORT + 1)], pa.binary())


def md5_text(data: bytes) -> str:
    """The digest of one value, in hexadecimal digits."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def md5_texts(values: pa.Array) -> pa.Array:
    """The digests of binary values, in hexadecimal digits; null for null."""
    is_short = pc.less_equal(pc.binary_length(values), SHORT).fill_null(True)
    if is_short.true_count < _FEWEST:
        return _each(values)
    if not is_short.false_count:
        return _of_short(values)
    found = _of_short(pc.if_else(is_short, values, b""))
    return pc.replace_with_mask(found, pc.invert(is_short), _each(values.filter(pc.invert(is_short))))


def _each(values: pa.Array) -> pa.Array:
    return pa.array([None if data is None else md5_text(data) for data in values.to_pylist()], pa.string())


def _of_short(values: pa.Array) -> pa.Array:
    filled = values.fill_null(b"")
    blocks = pc.binary_join_element_wise(filled, _PADDING.take(pc.binary_length(filled)), b"")
    words = bytes_of(blocks).data[: 64 * len(values)].view("<u4").reshape(-1, 16)
    digests = np.concatenate([_digests(np.ascontiguousarray(some.T)) for some in _parts(words)])
    return array_of_bytes(_hexadecimal(digests.view(np.uint8)), 32 * np.arange(len(values) + 1), values, pa.string())


def _parts(words: np.ndarray) -> Iterator[np.ndarray]:
    return (words[start : start + _ROWS] for start in range(0, len(words), _ROWS))


def _digests(words: np.ndarray) -> np.ndarray:
    """The four words of each digest, from the 16 words of its block."""
    start = [np.full(words.shape[1], word, np.uint32) for word in _START]
    a, b, c, d = (word.copy() for word in start)
    mixed = np.empty_like(a)
    for step in range(64):
        round = step // 16
        _mix(round, b, c, d, mixed)
        factor, first = _WORDS[round]
        bits = _TURNS[round][step % 4]
        a += mixed
        a += words[(factor * step + first) % 16]
        a += _SINES[step]
        np.left_shift(a, np.uint32(bits), out=mixed)
        np.right_shift(a, np.uint32(32 - bits), out=a)
        a |= mixed
        a += b
        a, b, c, d = d, a, b, c
    return np.stack([word + ended for word, ended in zip(start, (a, b, c, d))], axis=1).astype("<u4")


def _mix(round: int, b: np.ndarray, c: np.ndarray, d: np.ndarray, mixed: np.ndarray) -> None:
    """Choose c or d by the bits of b; b or c by the bits of d; the sum of bits; and c against b or not d."""
    if round == 3:
        np.bitwise_not(d, out=mixed)
        mixed |= b
        mixed ^= c
        return
    first, second, last = ((c, d, d), (b, c, c), (b, c, d))[round]
    np.bitwise_xor(first, second, out=mixed)
    if round < 2:
        mixed &= (b, d)[round]
    mixed ^= last


def _hexadecimal(data: np.ndarray) -> np.ndarray:
    """Two digits for each byte: its halves in the bytes of a word, the upper half first."""
    wide = data.ravel().astype("<u2")
    digits = (wide >> np.uint16(4) | (wide & np.uint16(15)) << np.uint16(8)).view(np.uint8)
    digits += np.uint8(ord("0"))
    digits += (digits > ord("9")).view(np.uint8) * np.uint8(ord("a") - ord("9") - 1)
    return digits
