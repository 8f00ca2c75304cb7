"""Stores that processors keep, as users declare them: what every kind says; a kind stands in a file of `streamkit.plan.store_kinds`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from streamkit.errors import ConfigError, SchemaError, TopologyError
from streamkit.names import check_name
from streamkit.plan.location import user_location
from streamkit.plan.plain import from_plain, to_plain
from streamkit.plan.program import ProgramStore
from streamkit.plan.steps import UNSTAGED
from streamkit.schema import Schema, check_user_schema

_WRITTEN_OF_ALL: Mapping[str, Any] = {"retention_ms": None, "window_size_ms": None, "retain_duplicates": False}
Declared = TypeVar("Declared")


@dataclass(frozen=True, repr=False)
class StoreDefinition:
    """
    A store of a processor: rows of `key` to `value` columns.

    A kind has its `kind`, by which programs know it, and the fields that it alone has. Programs and the `repr` say of every kind
    what windows have, as they did when all kinds were one class; the catalog keeps hashes of both, so they stay as they are.
    """

    kind: ClassVar[str]
    name: str
    key: Schema
    value: Schema

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _KINDS[cls.kind] = cls

    def __post_init__(self) -> None:
        check_name(self.name, "store")
        if not self.key.names:
            raise TopologyError(f"the store {self.name!r} has no key columns; expected key='name type'")
        for name in (*self.key.names, *self.value.names):
            if name in self.own_columns:
                raise TopologyError(f"the store {self.name!r} has a column {name!r} of its own; expected another name")
        for name in self.value.names:
            if name in self.key.names:
                raise TopologyError(f"the store {self.name!r} has {name!r} in its key and in its value; expected distinct names")

    def __repr__(self) -> str:
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        said = {"name": self.name, "kind": self.kind, "key": self.key, "value": self.value, **_WRITTEN_OF_ALL, **own}
        return f"StoreDefinition({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns that the store has beside those of users."""
        return ()

    def store(self) -> ProgramStore:
        """The store as programs have it: times that its entries are found by are part of the key."""
        return ProgramStore(self.name, 0, UNSTAGED, self.key, self.value, is_spread=True)

    def to_json(self) -> dict[str, Any]:
        """The definition as plain values."""
        return {**_WRITTEN_OF_ALL, **to_plain(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StoreDefinition:
        """The inverse of `to_json`."""
        found: StoreDefinition = from_plain(_KINDS[value["kind"]], value)
        return found


_KINDS: dict[str, type[StoreDefinition]] = {}


def declared(
    definition: Callable[..., Declared], name: str, key: str | Schema, value: str | Schema, *own: int | bool
) -> Declared:
    """The definition of a kind that users declare, with the fields that it alone has; its errors name the user's line."""
    try:
        columns, values = (check_user_schema(Schema.parse(schema)) for schema in (key, value))
        return definition(name, columns, values, *own)
    except (SchemaError, ConfigError) as error:
        raise TopologyError(str(error), user_location()) from None
    except TopologyError as error:
        raise TopologyError(error.message, user_location()) from None
