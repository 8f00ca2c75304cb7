"""A table: a node that hands on changes, and that can be read by key."""

from __future__ import annotations

from typing import Any

from tests.harness.conformance.interpreter.key_value_store import KeyValueStore
from tests.harness.conformance.interpreter.node import Node
from tests.harness.conformance.interpreter.record import Record, Stored
from tests.harness.conformance.interpreter.stream_time import Inputs
from tests.harness.conformance.interpreter.versioned_store import VersionedStore

Store = KeyValueStore | VersionedStore


class Table(Node):
    """
    `sends_old`: its changes carry the value before.
    `skips_older`: what is behind it ignores changes that are not the newest of their key.
    `wait_ms`: how long after its window's end a row may still change; None without windows.
    `contains_end`: windows contain the moment at which they end.
    `final_inputs`: the inputs of its final results, which are behind them; None without windows.
    """

    reads_history = False
    contains_end = False
    final_inputs: Inputs | None = None

    def __init__(self, inputs: Inputs, *, skips_older: bool = False, wait_ms: int | None = None) -> None:
        super().__init__()
        self.inputs = inputs
        self.skips_older = skips_older
        self.wait_ms = wait_ms
        self.sends_old = False

    def enable_old(self, force: bool) -> bool:
        """Ask for old values; `force` makes the table keep a store for that. Whether they will be sent."""
        self.sends_old = True
        return True

    def get(self, key: Any) -> Stored | None:
        """The row of a key now; None if there is none."""
        raise NotImplementedError

    def get_as_of(self, key: Any, timestamp: int) -> Stored | None:
        """The row of a key at a time, if the table keeps its history."""
        return self.get(key)

    def send(self, record: Record) -> None:
        """Hand on a change, with the old value only if it is asked for."""
        self.forward(record if self.sends_old else record._replace(old=None))


class StoredTable(Table):
    """A table whose rows are in a store of its own."""

    def __init__(self, inputs: Inputs, store: Store, *, wait_ms: int | None = None) -> None:
        super().__init__(inputs, skips_older=store.is_versioned, wait_ms=wait_ms)
        self.store = store
        self.reads_history = store.is_versioned

    def get(self, key: Any) -> Stored | None:
        return self.store.get(key)

    def get_as_of(self, key: Any, timestamp: int) -> Stored | None:
        return self.store.get_as_of(key, timestamp)

    def keep(self, record: Record) -> None:
        """Store a change and hand it on, unless the store refuses it."""
        is_latest = self.store.put(record.key, record.value, record.timestamp)
        if is_latest is not None:
            self.send(record._replace(is_latest=is_latest))


def value_of(row: Stored | None) -> Any:
    """The value of a row; None if there is no row."""
    return None if row is None else row.value
