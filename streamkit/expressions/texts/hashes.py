"""Digests of bytes, and Spark's hashes of rows: Murmur3 and xxHash64, each value's hash the seed of the next."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import has_map
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.mapping import each_constant
from streamkit.expressions.core.numbers import values_of
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, always_nullable, never_null, operation
from streamkit.expressions.core.recording import constant, recorded
from streamkit.expressions.texts.characters import bytes_of, numbers_of
from streamkit.plan.expression import TypedExpression

__all__ = ["crc32", "hash", "md5", "sha", "sha1", "sha2", "xxhash64"]

SEED = 42
_LONG_DECIMAL = 18  # digits that fit into 64 bits


def md5(column: Column | str) -> Column:
    """The MD5 digest, in hexadecimal digits."""
    return recorded("md5", column)


@operation("md5", takes="binary", gives="string")
def _md5(_: TypedExpression, value: Datum) -> Datum:
    return _digests(lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(), pa.string(), value)


def sha1(column: Column | str) -> Column:
    """The SHA-1 digest, in hexadecimal digits."""
    return recorded("sha1", column)


sha = sha1


@operation("sha1", takes="binary", gives="string", functions=("sha",))
def _sha1(_: TypedExpression, value: Datum) -> Datum:
    return _digests(lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest(), pa.string(), value)


_SHA2: dict[int, Callable[..., hashlib._Hash]] = {
    0: hashlib.sha256, 224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512,
}  # fmt: skip


def sha2(column: Column | str, bits: int) -> Column:
    """The SHA-2 digest of 224, 256 (or 0), 384 or 512 bits, in hexadecimal digits."""
    return recorded("sha2", column, constant(bits))


@operation("sha2", takes="binary, int", gives="string", nullable=always_nullable)
def _sha2(_: TypedExpression, value: Datum, bits: Datum) -> Datum:
    """With 224, 256 (or 0), 384 or 512 bits; null for another number."""
    return each_constant(_sha2_of, pa.string(), (value, bits), (1,))


def _sha2_of(value: Datum, bits: pa.Scalar) -> Datum:
    make = _SHA2.get(bits.as_py())
    if make is None:
        return pa.scalar(None, pa.string()) if isinstance(value, pa.Scalar) else pa.nulls(len(value), pa.string())
    return _digests(lambda data: make(data, usedforsecurity=False).hexdigest(), pa.string(), value)


def crc32(column: Column | str) -> Column:
    """The cyclic redundancy check."""
    return recorded("crc32", column)


@operation("crc32", takes="binary", gives="bigint")
def _crc32(_: TypedExpression, value: Datum) -> Datum:
    return _digests(zlib.crc32, pa.int64(), value)


def _digests(digest: Callable[[bytes], object], type: pa.DataType, value: Datum) -> Datum:
    """Row by row: a digest in C costs less than to look for equal rows."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(digest(value.as_py()), type)
    if not value.null_count:
        return pa.array([digest(data) for data in value.to_pylist()], type)
    return pa.array([None if data is None else digest(data) for data in value.to_pylist()], type)


def _hash_rule(call: Invocation) -> TypedExpression:
    """Any values; maps have no order, and so no hash."""
    if not call.arguments:
        raise RuleError(f"{call.name}() takes 1 or more arguments; found 0")
    for value in call.values:
        if has_map(value.type):
            raise RuleError(f"{call.name}() takes no maps, since they have no order; found {value.type}")
    return TypedExpression(call.name, "int" if call.name == "hash" else "bigint", call.values)


def hash(*columns: Column | str) -> Column:
    """Spark's Murmur3 hash of the values, an int."""
    return recorded("hash", *columns)


@operation("hash", rule=_hash_rule, strict=False, nullable=never_null)
def _hash(_: TypedExpression, *values: Datum) -> Datum:
    """Murmur3; a null leaves the hash as it is."""
    return _hashed(values, np.dtype(np.uint32), pa.int32(), _MURMUR3)


def xxhash64(*columns: Column | str) -> Column:
    """The xxHash64 of the values, a bigint."""
    return recorded("xxhash64", *columns)


@operation("xxhash64", rule=_hash_rule, strict=False, nullable=never_null)
def _xxhash64(_: TypedExpression, *values: Datum) -> Datum:
    """xxHash64; a null leaves the hash as it is."""
    return _hashed(values, np.dtype(np.uint64), pa.int64(), _XXHASH64)


Mix = Callable[[np.ndarray, np.ndarray], np.ndarray]
BytesMix = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
Hash = tuple[Mix, Mix, BytesMix]  # of 32 bits, of 64 bits, of bytes; each takes the seeds too


def _hashed(values: tuple[Datum, ...], kind: np.dtype[np.unsignedinteger], type: pa.DataType, hash: Hash) -> Datum:
    count = next((len(value) for value in values if isinstance(value, pa.Array)), None)
    seeds = np.full(1 if count is None else count, SEED, kind)
    with np.errstate(over="ignore"):
        for value in values:
            seeds = _mixed(value if isinstance(value, pa.Array) else pa.repeat(value, len(seeds)), seeds, hash)
    found = pa.array(seeds.view(np.dtype(f"i{kind.itemsize}")), type)
    return found[0] if count is None else found


def _mixed(values: pa.Array, seeds: np.ndarray, hash: Hash) -> np.ndarray:
    """The seeds with one more value in each row."""
    type = values.type
    if pa.types.is_null(type):
        return seeds
    if pa.types.is_list(type):
        return _mixed_lists(values, seeds, hash)
    if pa.types.is_struct(type):
        found = seeds
        for field in values.flatten():
            found = _mixed(field, found, hash)
        return found
    mixed = _mixed_flat(values, seeds, hash)
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), mixed, seeds) if values.null_count else mixed


def _mixed_lists(lists: pa.Array, seeds: np.ndarray, hash: Hash) -> np.ndarray:
    """The first elements of all rows, then the second ones."""
    sizes = numbers_of(pc.list_value_length(lists))
    starts = np.cumsum(sizes) - sizes
    elements = pc.list_flatten(lists)
    found = seeds.copy()
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        found[rows] = _mixed(elements.take(pa.array(starts[rows] + place)), found[rows], hash)
    return found


def _mixed_flat(values: pa.Array, seeds: np.ndarray, hash: Hash) -> np.ndarray:
    of_int, of_long, of_bytes = hash
    type = values.type
    if pa.types.is_boolean(type):
        return of_int(values.cast(pa.int8()).fill_null(0).to_numpy().astype(np.int32).view(np.uint32), seeds)
    if pa.types.is_floating(type):
        numbers = np.where(np.isnan(values_of(values)), np.nan, values_of(values)) + 0  # one NaN; -0.0 is 0.0
        numbers = numbers.astype(type.to_pandas_dtype())
        return of_int(numbers.view(np.uint32), seeds) if type.bit_width == 32 else of_long(numbers.view(np.uint64), seeds)
    if pa.types.is_decimal(type):
        return _mixed_decimals(values, seeds, hash)
    if pa.types.is_string(type) or pa.types.is_binary(type):
        rows = bytes_of(values)
        return of_bytes(rows.data, rows.offsets[:-1], rows.sizes, seeds)
    numbers = values_of(values)
    if type.bit_width < 64:
        return of_int(numbers.astype(np.int32).view(np.uint32), seeds)
    return of_long(numbers.view(np.uint64), seeds)


def _mixed_decimals(values: pa.Array, seeds: np.ndarray, hash: Hash) -> np.ndarray:
    """Small ones as the whole number without point; others as its bytes, the highest first, no more than needed."""
    unscaled = np.frombuffer(values.buffers()[1], np.uint64).reshape(-1, 2)[values.offset : values.offset + len(values)]
    if values.type.precision <= _LONG_DECIMAL:
        return hash[1](np.ascontiguousarray(unscaled[:, 0]), seeds)
    data = np.ascontiguousarray(unscaled).view(np.uint8).reshape(-1, 16)[:, ::-1]
    filler = np.where(data[:, :1] >= 128, 255, 0)
    spare = (data == filler) & (np.roll(data, -1, axis=1) >> 7 == filler >> 7)
    skipped = np.logical_and.accumulate(spare[:, :15], axis=1).sum(axis=1)
    flat = np.ascontiguousarray(data).ravel()
    return hash[2](flat, np.arange(len(data)) * 16 + skipped, 16 - skipped, seeds)


def _words(data: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Words of so many bytes, the lowest first, at any places."""
    return np.ascontiguousarray(data[places[:, None] + np.arange(size)]).view(f"<u{size}").ravel()


def _rotated(values: np.ndarray, bits: int) -> np.ndarray:
    width = values.dtype.itemsize * 8
    return np.asarray((values << values.dtype.type(bits)) | (values >> values.dtype.type(width - bits)))


def _murmur_round(words: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    scrambled = _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(hashes ^ scrambled, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _murmur_end(hashes: np.ndarray, sizes: np.ndarray | int) -> np.ndarray:
    found: np.ndarray = hashes ^ np.asarray(sizes).astype(np.uint32)
    found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return np.asarray(found ^ (found >> np.uint32(16)))


def _murmur_int(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return _murmur_end(_murmur_round(values, seeds), 4)


def _murmur_long(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    low, high = values.astype(np.uint32), (values >> np.uint64(32)).astype(np.uint32)
    return _murmur_end(_murmur_round(high, _murmur_round(low, seeds)), 8)


def _murmur_bytes(data: np.ndarray, starts: np.ndarray, sizes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Words of four bytes, then each byte left by itself, with its sign."""
    found = seeds.copy()
    whole = sizes // 4
    for rows, place in _rounds(whole):
        found[rows] = _murmur_round(_words(data, starts[rows] + 4 * place, 4), found[rows])
    for rows, place in _rounds(sizes % 4):
        left = data[starts[rows] + 4 * whole[rows] + place].view(np.int8).astype(np.int32).view(np.uint32)
        found[rows] = _murmur_round(left, found[rows])
    return _murmur_end(found, sizes)


def _rounds(counts: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """For each round the rows that have one."""
    return [(np.flatnonzero(counts > place), place) for place in range(int(counts.max(initial=0)))]


_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)


def _xx_end(hashes: np.ndarray) -> np.ndarray:
    found = (hashes ^ (hashes >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return np.asarray(found ^ (found >> np.uint64(32)))


def _xx_four(words: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    return _rotated(hashes ^ (words.astype(np.uint64) * _P1), 23) * _P2 + _P3


def _xx_eight(words: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    return _rotated(hashes ^ (_rotated(words * _P2, 31) * _P1), 27) * _P1 + _P4


def _xx_int(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return _xx_end(_xx_four(values, seeds + _P5 + np.uint64(4)))


def _xx_long(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return _xx_end(_xx_eight(values, seeds + _P5 + np.uint64(8)))


def _xx_bytes(data: np.ndarray, starts: np.ndarray, sizes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Stripes of 32 bytes, then words of eight, one of four, and bytes."""
    found = seeds + _P5
    long = np.flatnonzero(sizes >= 32)
    if len(long):
        found[long] = _xx_stripes(data, starts[long], sizes[long] // 32, seeds[long])
    found += sizes.astype(np.uint64)
    place = starts + sizes // 32 * 32
    rest = sizes % 32
    for rows, word in _rounds(rest // 8):
        found[rows] = _xx_eight(_words(data, place[rows] + 8 * word, 8), found[rows])
    place, rest = place + rest // 8 * 8, rest % 8
    rows = np.flatnonzero(rest >= 4)
    found[rows] = _xx_four(_words(data, place[rows], 4), found[rows])
    place, rest = place + rest // 4 * 4, rest % 4
    for rows, byte in _rounds(rest):
        found[rows] = _rotated(found[rows] ^ (data[place[rows] + byte].astype(np.uint64) * _P5), 11) * _P1
    return _xx_end(found)


def _xx_stripes(data: np.ndarray, starts: np.ndarray, counts: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for rows, stripe in _rounds(counts):
        for place, lane in enumerate(lanes):
            words = _words(data, starts[rows] + 32 * stripe + 8 * place, 8)
            lane[rows] = _rotated(lane[rows] + words * _P2, 31) * _P1
    found: np.ndarray = np.zeros(len(seeds), np.uint64)
    for lane, bits in zip(lanes, (1, 7, 12, 18)):
        found += _rotated(lane, bits)
    for lane in lanes:
        found = (found ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4
    return found


_MURMUR3: Hash = (_murmur_int, _murmur_long, _murmur_bytes)
_XXHASH64: Hash = (_xx_int, _xx_long, _xx_bytes)
