"""Stores of processors that keep a value for each key and start of a window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.location import user_location
from streamkit.plan.program import ProgramStore
from streamkit.plan.store_definition import StoreDefinition, declared
from streamkit.schema import Schema, SchemaColumn

NUMBER = "number"  # tells apart the values that a window keeps for one key


def window_store(
    name: str,
    *,
    key: str | Schema,
    value: str | Schema,
    size: Duration,
    retention: Duration,
    retain_duplicates: bool = False,
) -> WindowStoreDefinition:
    """
    Declare a store that keeps a value for each key and start of a window.

    `size` tells when a window ends. A window is gone when stream time has reached its start plus `retention`, which is at
    least the size. With `retain_duplicates` every value that is put is kept, and none can be deleted.
    """
    size_ms, retention_ms = length_ms(size, "window size"), length_ms(retention, "retention")
    if size_ms <= 0 or retention_ms < size_ms:
        raise TopologyError(
            f"the store {name!r} keeps windows of {size} for {retention}; expected a positive size and at least as long a retention",
            user_location(),
        )
    return declared(WindowStoreDefinition, name, key, value, retention_ms, size_ms, retain_duplicates)


@dataclass(frozen=True, repr=False)
class WindowStoreDefinition(StoreDefinition):
    """
    A store of a processor that keeps windows for `retention_ms`; `window_size_ms` tells when one ends.

    With `retain_duplicates` a window keeps every value that is put for a key, not the newest alone.
    """

    kind: ClassVar[str] = "window"
    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool = False

    @property
    def own_columns(self) -> tuple[str, ...]:
        return (WINDOW_START, WINDOW_END, *([NUMBER] if self.retain_duplicates else []))

    def store(self) -> ProgramStore:
        """The start of the window is part of the key by the layout."""
        key = (*self.key, SchemaColumn(NUMBER, "bigint", False)) if self.retain_duplicates else self.key.columns
        return replace(
            super().store(),
            key=Schema(key),
            window_size_ms=self.window_size_ms,
            retention_ms=self.retention_ms,
            layout="window",
        )
