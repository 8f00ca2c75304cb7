"""What a `.zst` file holds, to its end: the library's own reader takes a file that is cut off for a whole one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

CHUNK_BYTES = 128 << 10


class ZstdFile(io.RawIOBase):
    """The content of a file of one frame or several, read from its beginning; EOFError if its last frame is cut off."""

    def __init__(self, path: Path, library: Any) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._decompressor = library.ZstdDecompressor()
        self._frame: Any = None  # that is under way
        self._compressed = b""  # behind the frame before
        self._content = memoryview(b"")
        self._position = 0

    def readable(self) -> bool:
        """It is for reading alone."""
        return True

    def tell(self) -> int:
        """How many bytes of the content were read."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill a part of the buffer, at least a byte; 0 is the end."""
        while not self._content:
            data, self._compressed = self._compressed or self._file.read(CHUNK_BYTES), b""
            if not data:
                if self._frame is not None:
                    raise EOFError("it ends within a frame")
                return 0
            self._frame = self._frame or self._decompressor.decompressobj()
            self._content = memoryview(self._frame.decompress(data))
            if self._frame.eof:
                self._compressed, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        self._position += count
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
