"""Files of zstd: every form of frames is read to its end, and no file that is cut off is taken for a shorter one."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import zstandard

from streamkit.connectors.files.open_file import CutOffError, compressed, open_reading, whole

SKIPPABLE = bytes.fromhex("502a4d18 04000000") + b"abcd"  # a frame of no content, as parallel compressors write
CHUNK_BYTES = 1 << 16  # what Arrow takes from the file at once


def frame(content, **settings):
    return zstandard.ZstdCompressor(**settings).compress(content)


def streamed(content):
    """A frame that does not say its size, and has a checksum."""
    writer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return writer.compress(content) + writer.flush()


def read(folder, data, block_bytes=-1):
    """The content, by blocks of a size, and how far the file says to have been read."""
    path = folder / "a.csv.zst"
    path.write_bytes(data)
    with whole(path), open_reading(path) as file:
        content = b"".join(iter(lambda: file.read(block_bytes), b""))
        assert file.tell() == len(content)
    return content


def is_open(path):
    """Whether this process has the file open."""
    return str(path) in {os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize("block_bytes", [-1, 7, 1 << 17])
def test_frames(tmp_path, block_bytes):
    """One frame, several, empty ones, skippable ones, and those without a size are one content, by blocks of any size."""
    long, short = random.Random(1).randbytes(300_000), b"id,name\n5,y\n" * 9
    for data, content in (
        (b"", b""),
        (frame(b""), b""),
        (frame(long), long),
        (streamed(long) + frame(short), long + short),
        (frame(b"") + frame(short) + frame(b"") + streamed(short), short * 2),
        (SKIPPABLE + frame(short) + SKIPPABLE + streamed(long) + SKIPPABLE, short + long),
        (frame(short) * 5000, short * 5000),
    ):
        assert read(tmp_path, data, block_bytes) == content


def test_a_file_that_is_cut_off_or_damaged(tmp_path):
    """A file that ends within a frame, has a wrong byte, or goes on with bytes that are no frame, is an error."""
    short = streamed(b"id,name\n5,y\n" * 9)
    full = frame(random.Random(1).randbytes(CHUNK_BYTES - 10))
    assert len(full) == CHUNK_BYTES
    assert len(read(tmp_path, full * 2)) == 2 * (CHUNK_BYTES - 10)
    for data in (
        *(short[:end] for end in range(1, len(short))),
        *((short + short)[:end] for end in range(len(short) + 1, 2 * len(short))),
        *((full + full)[:end] for end in (CHUNK_BYTES - 1, CHUNK_BYTES + 1, CHUNK_BYTES + 4, 2 * CHUNK_BYTES - 1)),
        short[:20] + bytes([short[20] ^ 1]) + short[21:],
        short + b"\0\0\0\0",
        b"id,name\n5,y\n",
    ):
        with pytest.raises(CutOffError, match=r"a\.csv\.zst is cut off or damaged"):
            read(tmp_path, data)


def test_an_error_of_the_disk(tmp_path):
    """A disk that cannot read is no damage of the file."""
    path = tmp_path / "a.csv.zst"
    path.symlink_to("/proc/self/mem")  # nothing lies at its byte 0
    with pytest.raises(OSError, match="Input/output error"), whole(path), open_reading(path) as file:
        file.read(1)


def test_no_file_stays_open(tmp_path):
    """The file is closed with its content."""
    path = tmp_path / "a.csv.zst"
    path.write_bytes(frame(b"5,y\n"))
    with open_reading(path) as file:
        assert is_open(path)
        assert file.read() == b"5,y\n"
    assert not is_open(path)


def test_what_is_written(tmp_path):
    """What a sink writes has the bytes that the program zstd would write, and is read back."""
    content = b"".join(b"%d,name %d\n" % (n, n % 7) for n in range(50_000))
    assert compressed(content, "zst") == frame(content, level=3)
    assert read(tmp_path, compressed(content, "zst")) == content
