"""What a processor sees of a store that keeps one value for each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streamkit.engine.folding.sequential import NamedValues
from streamkit.engine.processors.processor_store import ProcessorStore, processor_store
from streamkit.plan.store_kinds.key_value_store import KeyValueStoreDefinition
from streamkit.state.single_key import after, text_prefix


class Entry(NamedTuple):
    """A key and its value."""

    key: NamedValues
    value: NamedValues


@processor_store(KeyValueStoreDefinition)
class KeyValueStore(ProcessorStore[KeyValueStoreDefinition]):
    """A store that keeps one value for each key."""

    def get(self, key: Any) -> NamedValues | None:
        """The value of a key; None if there is none."""
        self._begin()
        return self._named(self._overlay.get(self._at(key)))

    def put(self, key: Any, value: Mapping[str, Any] | None) -> None:
        """Set the value of a key, or delete it with None."""
        self._begin()
        self._put(self._prefix + self._encode_key(self._key.to_put(key)), value)

    def put_if_absent(self, key: Any, value: Mapping[str, Any]) -> NamedValues | None:
        """Set the value of a key that has none; returns the value that it had."""
        before = self.get(key)
        if before is None:
            self.put(key, value)
        return before

    def put_all(self, entries: Iterable[tuple[Any, Mapping[str, Any] | None]]) -> None:
        """Set the values of many keys, in their order."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> NamedValues | None:
        """Delete a key; returns the value that it had."""
        before = self.get(key)
        if before is not None:
            self.put(key, None)
        return before

    def range(self, first: Any = None, last: Any = None) -> list[Entry]:
        """The entries from one key to another, both included, in the order of the values of keys; None leaves an end open."""
        self._begin()
        start = self._prefix if first is None else self._at(first)
        end = self._end if last is None else self._at(last) + b"\x00"
        return self._entries(start, end)

    def reverse_range(self, first: Any = None, last: Any = None) -> list[Entry]:
        """As `range`, from the last key to the first."""
        return self.range(first, last)[::-1]

    def prefix_scan(self, prefix: Any) -> list[Entry]:
        """The entries whose key begins so: with the text of the only key column, or with these values of the first ones, as a tuple."""
        self._begin()
        is_text = isinstance(prefix, str) and self._definition.key.columns[0].type == "string"
        start = self._prefix + (text_prefix(prefix) if is_text else self._encode_key(self._key.of_first(prefix)))
        return self._entries(start, after(start))

    def all(self) -> list[Entry]:
        """All entries, in the order of their keys."""
        return self.range()

    def reverse_all(self) -> list[Entry]:
        """All entries, from the last key to the first."""
        return self.range()[::-1]

    def _at(self, key: Any) -> bytes:
        return self._prefix + self._encode_key(self._key.of(key))

    def _entries(self, start: bytes, end: bytes) -> list[Entry]:
        found = self._overlay.scan(start, end)
        return [Entry(self._key_dict(key), self._named(values) or {}) for key, values in found]
