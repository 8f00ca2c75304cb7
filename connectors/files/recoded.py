"""Files of texts in other encodings than UTF-8, as UTF-8."""

from __future__ import annotations

import codecs
import io
from pathlib import Path
from typing import Any, BinaryIO

from streamkit.connectors.files.open_file import CutOffError
from streamkit.errors import ConfigError, SchemaError

CHUNK_BYTES = 128 << 10


def check_encoding(name: str) -> str:
    """The name of an encoding of texts as Python has it; ConfigError if there is none."""
    try:
        found = codecs.lookup(name)
        "".encode(found.name)
    except LookupError:
        raise ConfigError(
            f"encoding={name!r}; expected the name of an encoding, such as utf-8, latin-1, cp1252 or utf-16"
        ) from None
    return found.name


def recoded(file: BinaryIO, encoding: str, path: Path) -> BinaryIO:
    """An open file as UTF-8, whatever it is written in."""
    if encoding == "utf-8":
        return file
    return io.BufferedReader(Recoded(file, encoding, path))


class Recoded(io.RawIOBase):
    """The texts of a file in UTF-8; CutOffError if it ends within a character, SchemaError for bytes that are none."""

    def __init__(self, file: BinaryIO, encoding: str, path: Path) -> None:
        super().__init__()
        self._file = file
        self._read = getattr(file, "read1", file.read)  # what is there: a pipe does not wait for more
        self._encoding = encoding
        self._path = path
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._content = memoryview(b"")
        self._position = 0
        self._is_at_end = False

    def readable(self) -> bool:
        """It is for reading alone."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read again."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte of UTF-8, by reading all that is before it."""
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("a text that is recoded is read from its beginning on")
        if offset < self._position:
            self._file.seek(0)
            self._decoder.reset()
            self._content, self._position, self._is_at_end = memoryview(b""), 0, False
        while (left := offset - self._position) > 0 and self.readinto(bytearray(min(left, CHUNK_BYTES))):
            pass
        return self._position

    def tell(self) -> int:
        """How many bytes of UTF-8 were read."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill a part of the buffer, at least a byte; 0 is the end."""
        while not self._content and not self._is_at_end:
            data = self._read(CHUNK_BYTES)
            self._is_at_end = not data
            self._content = memoryview(self._decoded(data).encode())
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        self._position += count
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def _decoded(self, data: bytes) -> str:
        try:
            return self._decoder.decode(data, final=not data)
        except UnicodeError as error:
            reason = f"{self._path} is not all {self._encoding}, as encoding says: {error}"
            raise (SchemaError if data else CutOffError)(reason) from None
