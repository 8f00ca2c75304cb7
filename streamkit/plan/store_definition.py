"""Stores that processors keep, as users declare them."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.errors import TopologyError
from streamkit.names import WINDOW_END, WINDOW_START, check_name
from streamkit.plan.program import ProgramStore
from streamkit.plan.steps import UNSTAGED
from streamkit.schema import Schema, SchemaColumn

KEY_VALUE, WINDOW, SESSION, VERSIONED = "key_value", "window", "session", "versioned"
NUMBER = "number"  # tells apart the values that a window keeps for one key
VALID_FROM = "valid_from"
IS_DELETED = "is_deleted"
_OWN_COLUMNS = {WINDOW: (WINDOW_START, WINDOW_END), SESSION: (WINDOW_START, WINDOW_END), VERSIONED: (VALID_FROM, IS_DELETED)}


@dataclass(frozen=True)
class StoreDefinition:
    """
    A store of a processor: rows of `key` to `value` columns, of one of four kinds.

    `retention_ms` is how long windows, sessions and versions can be read; `window_size_ms` tells when a window ends. With
    `retain_duplicates` a window keeps every value that is put for a key, not the newest alone.
    """

    name: str
    kind: str
    key: Schema
    value: Schema
    retention_ms: int | None = None
    window_size_ms: int | None = None
    retain_duplicates: bool = False

    def __post_init__(self) -> None:
        check_name(self.name, "store")
        if not self.key.names:
            raise TopologyError(f"the store {self.name!r} has no key columns; expected key='name type'")
        own = (*_OWN_COLUMNS.get(self.kind, ()), *([NUMBER] if self.retain_duplicates else []))
        for name in (*self.key.names, *self.value.names):
            if name in own:
                raise TopologyError(f"the store {self.name!r} has a column {name!r} of its own; expected another name")
        for name in self.value.names:
            if name in self.key.names:
                raise TopologyError(f"the store {self.name!r} has {name!r} in its key and in its value; expected distinct names")

    def store(self) -> ProgramStore:
        """The store as programs have it: times that its entries are found by are part of the key."""
        moment = SchemaColumn(VALID_FROM, "timestamp", False)
        key, value, layout = [*self.key], [*self.value], "key"
        if self.kind == WINDOW:
            layout = "window"
            key += [SchemaColumn(NUMBER, "bigint", False)] if self.retain_duplicates else []
        elif self.kind == SESSION:
            key = [SchemaColumn(WINDOW_END, "timestamp", False), *key, SchemaColumn(WINDOW_START, "timestamp", False)]
        elif self.kind == VERSIONED:
            key, value = [*key, moment], [*value, SchemaColumn(IS_DELETED, "boolean", False)]
        return ProgramStore(
            self.name, 0, UNSTAGED, Schema(tuple(key)), Schema(tuple(value)), self.window_size_ms, self.retention_ms, layout, True
        )
