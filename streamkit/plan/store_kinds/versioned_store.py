"""Stores of processors that keep the versions of each key's value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.plan.length import Duration, length_ms
from streamkit.plan.program import ProgramStore
from streamkit.plan.store_definition import StoreDefinition, declared
from streamkit.schema import Schema, SchemaColumn

VALID_FROM = "valid_from"
IS_DELETED = "is_deleted"


def versioned_store(
    name: str, *, key: str | Schema, value: str | Schema, history_retention: Duration
) -> VersionedStoreDefinition:
    """
    Declare a store that keeps the versions of each key's value, by the time from which each is valid.

    Versions that stopped being valid more than `history_retention` before stream time are gone, and older ones are not taken;
    the newest of a key stays.
    """
    return declared(VersionedStoreDefinition, name, key, value, length_ms(history_retention, "history retention"))


@dataclass(frozen=True, repr=False)
class VersionedStoreDefinition(StoreDefinition):
    """A store of a processor that keeps versions for `retention_ms` after they stopped being valid."""

    kind: ClassVar[str] = "versioned"
    retention_ms: int

    @property
    def own_columns(self) -> tuple[str, ...]:
        return VALID_FROM, IS_DELETED

    def store(self) -> ProgramStore:
        """The time from which a version is valid stands behind the key, and in its value whether there is none from then on."""
        key = (*self.key, SchemaColumn(VALID_FROM, "timestamp", False))
        value = (*self.value, SchemaColumn(IS_DELETED, "boolean", False))
        return replace(super().store(), key=Schema(key), value=Schema(value), retention_ms=self.retention_ms)
