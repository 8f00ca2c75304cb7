"""What Debezium writes in place of a large value that an update did not change, in each type that such a value may have."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class UnavailableValue:
    """
    Finds Debezium's placeholder in rows: the text, its bytes, as numbers of an array, and as a UUID.

    In PostgreSQL an array has it as its one element, and an array of numbers has the bytes of it; hstore has it as key and value.
    """

    placeholder: str

    def columns(self, row: Mapping[str, Any]) -> list[str]:
        """The columns of a row with the placeholder, at any depth."""
        return [name for name, value in row.items() if self._is_in(value)]

    def _is_in(self, value: Any) -> bool:
        if isinstance(value, str | bytes):
            return value in self._texts
        if isinstance(value, Mapping):
            return any(self._is_in(one) for pair in value.items() for one in pair)
        if isinstance(value, list | tuple):
            is_bytes = len(value) == len(self._bytes) and list(value) == list(self._bytes)  # as a list of numbers
            return is_bytes or any(self._is_in(one) for one in value)
        return False

    @cached_property
    def _bytes(self) -> bytes:
        return self.placeholder.encode()

    @cached_property
    def _texts(self) -> frozenset[str | bytes]:
        return frozenset(self._spelled())

    def _spelled(self) -> Iterator[str | bytes]:
        yield from (self.placeholder, self._bytes, base64.b64encode(self._bytes).decode())
        named = uuid.UUID(
            bytes=hashlib.md5(self._bytes, usedforsecurity=False).digest(), version=3
        )  # as Java's nameUUIDFromBytes
        yield from (str(named), str(named).encode())
