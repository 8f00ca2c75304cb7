"""Digests of bytes, and hashes of rows."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, recorded

__all__ = [
    "crc32",
    "hash",
    "md5",
    "sha",
    "sha1",
    "sha2",
    "xxhash64",
]


def md5(column: Column | str) -> Column:
    """The MD5 digest, in hexadecimal digits."""
    return recorded("md5", column)


def sha1(column: Column | str) -> Column:
    """The SHA-1 digest, in hexadecimal digits."""
    return recorded("sha1", column)


def sha2(column: Column | str, bits: int) -> Column:
    """The SHA-2 digest of 224, 256 (or 0), 384 or 512 bits, in hexadecimal digits."""
    return recorded("sha2", column, constant(bits))


def crc32(column: Column | str) -> Column:
    """The cyclic redundancy check."""
    return recorded("crc32", column)


def hash(*columns: Column | str) -> Column:
    """Spark's Murmur3 hash of the values, an int."""
    return recorded("hash", *columns)


def xxhash64(*columns: Column | str) -> Column:
    """The xxHash64 of the values, a bigint."""
    return recorded("xxhash64", *columns)


sha = sha1
