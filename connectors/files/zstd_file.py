"""What a `.zst` file holds, decompressed by Arrow."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa


class ZstdFile(io.RawIOBase):
    """The content of a file of one frame or several, read from its beginning; EOFError if it is cut off or damaged."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._stream = pa.CompressedInputStream(path.open("rb"), "zstd")
        self._position = 0

    def readable(self) -> bool:
        """It is for reading alone."""
        return True

    def tell(self) -> int:
        """How many bytes of the content were read: Arrow's own stream does not say."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as there is content; 0 is the end."""
        try:
            count = self._stream.readinto(buffer)
        except OSError as error:
            if error.errno is None:  # it cannot be decompressed; an error of the disk has a number
                raise EOFError(str(error)) from error
            raise
        self._position += count
        return int(count)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()
