"""Stores of processors that keep one value for each key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.store_definition import StoreDefinition, declared
from streamkit.schema import Schema


def key_value_store(name: str, *, key: str | Schema, value: str | Schema) -> KeyValueStoreDefinition:
    """
    Declare a store that keeps one value for each key.

    `key` and `value` are columns: key="customer string", value="orders int, last timestamp". A processor reads it by
    `get`, `range`, `prefix_scan` and `all`, and writes it by `put`, `put_if_absent`, `put_all` and `delete`.
    Raises TopologyError for columns that cannot be a key or a value.
    """
    return declared(KeyValueStoreDefinition, name, key, value)


@dataclass(frozen=True, repr=False)
class KeyValueStoreDefinition(StoreDefinition):
    """A store of a processor that keeps one value for each key, for ever."""

    kind: ClassVar[str] = "key_value"
