"""Stores of processors that keep a value for each key, start and end of a session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.plan.length import Duration, length_ms
from streamkit.plan.program import ProgramStore
from streamkit.plan.store_definition import StoreDefinition, declared
from streamkit.schema import Schema, SchemaColumn


def session_store(name: str, *, key: str | Schema, value: str | Schema, retention: Duration) -> SessionStoreDefinition:
    """
    Declare a store that keeps a value for each key, start and end of a session.

    A session is gone when stream time has reached its end plus `retention`.
    """
    return declared(SessionStoreDefinition, name, key, value, length_ms(retention, "retention"))


@dataclass(frozen=True, repr=False)
class SessionStoreDefinition(StoreDefinition):
    """A store of a processor that keeps sessions for `retention_ms`."""

    kind: ClassVar[str] = "session"
    retention_ms: int

    @property
    def own_columns(self) -> tuple[str, ...]:
        return WINDOW_START, WINDOW_END

    def store(self) -> ProgramStore:
        """The end stands before the key, so that sessions expire by a range, and the start behind it."""
        key = (SchemaColumn(WINDOW_END, "timestamp", False), *self.key, SchemaColumn(WINDOW_START, "timestamp", False))
        return replace(super().store(), key=Schema(key), retention_ms=self.retention_ms)
