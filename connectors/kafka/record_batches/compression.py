"""What Kafka compresses the records of a batch with: gzip, snappy (plain or in Xerial's blocks), lz4 and zstd."""

from __future__ import annotations

import struct
from functools import cache

import pyarrow as pa

from streamkit.errors import ConfigError, RecordBatchError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # as Kafka numbers and names them
UNCOMPRESSED_BYTES_MAX = 1 << 30  # of a batch: its positions stay far within 32 bits
_STEP_BYTES_MIN, _STEP_BYTES_MAX = 1 << 16, 1 << 24  # read at once from a stream whose length nobody knows
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES = 16  # the magic, a version, and the oldest version that can read it
_SNAPPY_RATIO_MAX = 32  # three bytes copy 64 at most
_LZ4_MAGIC = 0x184D2204
_LZ4_FLAGS = 0x60  # version 1, blocks that do not depend on each other, no checksums, no length
_LZ4_BLOCK_CODE, _LZ4_BLOCK_BYTES = 0x40, 1 << 16
_LZ4_IS_STORED = 1 << 31
_UINT32 = (1 << 32) - 1


def compress(codec: str, level: int | None, data: pa.Buffer) -> pa.Buffer:
    """The data as the codec has it; `level` is the codec's own, None for its default."""
    if codec == "none":
        return data
    if codec == "lz4":
        return pa.py_buffer(_lz4_frame(data, level))
    return _codec(codec, level).compress(data)


def check_codec(codec: str, level: int | None) -> None:
    """Refuse a codec that Kafka does not have, and a level that the codec does not."""
    if codec not in CODECS:
        raise ConfigError(f"found the compression {codec!r}; expected one of {', '.join(CODECS)}")
    if level is None:
        return
    if codec == "none" or not pa.Codec.supports_compression_level(codec):
        raise ConfigError(f"found level {level} for the compression {codec}, which has no levels; expected none")
    least, greatest = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    if not least <= level <= greatest:
        raise ConfigError(f"found level {level} for the compression {codec}; expected {least} to {greatest}")


def decompress(number: int, data: pa.Buffer) -> pa.Buffer:
    """The data that a codec of this number compressed; a RecordBatchError where there is no such codec, or the data is not its."""
    if number >= len(CODECS):
        known = ", ".join(f"{known} ({name})" for known, name in enumerate(CODECS))
        raise RecordBatchError(f"found records that are compressed by codec {number}; expected {known}")
    codec = CODECS[number]
    try:
        if codec == "none":
            return data
        return _from_snappy(data) if codec == "snappy" else _from_stream(codec, data)
    except (OSError, pa.ArrowException) as error:
        raise RecordBatchError(f"found records that are not {codec}, as their batch says ({error})") from None


@cache
def _codec(name: str, level: int | None) -> pa.Codec:
    return pa.Codec(name, compression_level=level)


def _from_stream(codec: str, data: pa.Buffer) -> pa.Buffer:
    """
    All that a stream has, by steps.

    A few bytes can say that a gigabyte follows: memory is taken as it comes, and no more than a batch may have.
    """
    step = min(max(8 * data.size, _STEP_BYTES_MIN), _STEP_BYTES_MAX)
    pieces, size = [], 0
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        while True:
            piece = stream.read_buffer(step)
            if not piece.size:
                break
            size += piece.size
            if size > UNCOMPRESSED_BYTES_MAX:
                raise _too_large(f"more than {UNCOMPRESSED_BYTES_MAX}")
            pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else pa.py_buffer(b"".join(pieces))


def _from_snappy(data: pa.Buffer) -> pa.Buffer:
    view = memoryview(data).cast("B")
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _from_snappy_block(data, 0, UNCOMPRESSED_BYTES_MAX)
    at, size, pieces = _XERIAL_HEADER_BYTES, 0, []
    while at < len(view):
        (length,) = struct.unpack(">I", view[at : at + 4].tobytes().rjust(4, b"\xff"))
        at += 4
        if length > len(view) - at:
            raise RecordBatchError(
                f"found a block of snappy of {length} bytes; expected at most the {max(len(view) - at, 0)} left"
            )
        pieces.append(_from_snappy_block(data[at : at + length], at, UNCOMPRESSED_BYTES_MAX - size))
        size += pieces[-1].size
        at += length
    return pa.py_buffer(b"".join(pieces))


def _from_snappy_block(data: pa.Buffer, at: int, bytes_max: int) -> pa.Buffer:
    """A block, which begins with its length. The length is believed if so few bytes can have it."""
    size = shift = 0
    for byte in memoryview(data[:5]).cast("B"):
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    else:
        raise RecordBatchError(f"found a block of snappy at byte {at} that has no length; expected one of at most five bytes")
    if size > _SNAPPY_RATIO_MAX * data.size:
        raise RecordBatchError(f"found a block of snappy of {data.size} bytes that says it had {size}; no block shrinks so far")
    if size > bytes_max:
        raise _too_large(str(size))
    return _codec("snappy", None).decompress(data, decompressed_size=size)


def _too_large(found: str) -> RecordBatchError:
    return RecordBatchError(
        f"found a batch whose records have {found} bytes when decompressed; expected at most {UNCOMPRESSED_BYTES_MAX}"
    )


def _lz4_frame(data: pa.Buffer, level: int | None) -> bytes:
    """
    A frame of blocks that do not depend on each other.

    Kafka's clients in Java refuse others, and Arrow's own frames have them beyond 64 KiB.
    """
    codec = _codec("lz4_raw", level)
    pieces = [_LZ4_FRAME_HEADER]
    for begin in range(0, data.size, _LZ4_BLOCK_BYTES):
        block = data[begin : begin + _LZ4_BLOCK_BYTES]
        small = codec.compress(block)
        if small.size < block.size:
            pieces += [struct.pack("<I", small.size), small]
        else:
            pieces += [struct.pack("<I", block.size | _LZ4_IS_STORED), block]
    return b"".join((*pieces, b"\0\0\0\0"))


def _xxhash32(data: bytes) -> int:
    """The hash with seed 0 of less than four bytes: what checks the two bytes of a frame's header."""
    primes = (2654435761, 2246822519, 3266489917, 374761393)
    found = primes[3] + len(data)
    for byte in data:
        found = (found + byte * primes[3]) & _UINT32
        found = ((found << 11 | found >> 21) & _UINT32) * primes[0] & _UINT32
    found = (found ^ found >> 15) * primes[1] & _UINT32
    found = (found ^ found >> 13) * primes[2] & _UINT32
    return found ^ found >> 16


_LZ4_DESCRIPTOR = bytes((_LZ4_FLAGS, _LZ4_BLOCK_CODE))
_LZ4_FRAME_HEADER = struct.pack("<I", _LZ4_MAGIC) + _LZ4_DESCRIPTOR + bytes((_xxhash32(_LZ4_DESCRIPTOR) >> 8 & 255,))
