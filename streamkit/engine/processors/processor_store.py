"""
A store of a processor, as it sees it: the entries of its own key group, with what it has put there.

Keys are given as a dict of the key columns, as a tuple, or as the value of the only one. Values are dicts of the value columns, and
None deletes. Entries come as they are at the moment of the call, in the order of their keys.

What a processor calls is said by the kinds, in the files of `store_kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from streamkit.engine.folding.sequential import NamedValues
from streamkit.engine.processors.call import ProcessorCall
from streamkit.engine.processors.store_overlay import EntryValues, StoreOverlay
from streamkit.engine.processors.store_time import milliseconds
from streamkit.expressions.python.exact_values import UNFIT, exactly
from streamkit.plan.function_digest import type_name
from streamkit.plan.processing import RefusedCallError
from streamkit.plan.store_definition import StoreDefinition
from streamkit.schema import Schema
from streamkit.state.key import range_end
from streamkit.state.single_key import key_encoder

Definition = TypeVar("Definition", bound=StoreDefinition)
StoreClass = TypeVar("StoreClass", bound="type[ProcessorStore[Any]]")


class ProcessorStore(Generic[Definition]):
    """What stores of all kinds share: the way from users' keys and values to those of the overlay, and back."""

    def __init__(self, definition: Definition, overlay: StoreOverlay, call: ProcessorCall) -> None:
        self._definition = definition
        self._overlay = overlay
        self._call = call
        self._prefix = overlay.prefix(call.group)
        self._end = range_end(call.group, overlay.number)
        self._key = _Exact(definition, definition.key, "key")
        self._value = _Exact(definition, definition.value, "value")
        self._encode_key = key_encoder([column.type for column in definition.key])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._definition.name!r}: {self._definition.key} to {self._definition.value})"

    def _begin(self) -> None:
        self._call.check(f"the store {self._definition.name!r}")

    def _time(self, call: str, moment: Any, read: Callable[[Any], int] = milliseconds) -> int:
        """A time in ms that was given to a call of this store, by its signature; RefusedCallError names both if it is none."""
        try:
            return read(moment)
        except RefusedCallError as error:
            raise RefusedCallError(f"{call} of the store {self._definition.name!r}: {error}") from None

    def _put(self, key: bytes, value: Any) -> None:
        values = None if value is None else self._value.of_dict(value)
        self._overlay.put(key, values, self._call.time)

    @classmethod
    def _expired_ranges(
        cls, definition: Definition, overlay: StoreOverlay, group: int, stream_time: int
    ) -> list[tuple[bytes, bytes]]:
        """The state keys [start, end) of a key group that have expired at a stream time; none if this kind of store keeps all, or deletes by itself."""
        return []

    def _earliest(self, retention_ms: int) -> int | None:
        """The time at which what is kept begins: entries of it and before are gone; None if stream time has not begun."""
        return None if self._call.stream_time is None else self._call.stream_time - retention_ms

    def _named(self, values: EntryValues | None) -> NamedValues | None:
        return None if values is None else dict(zip(self._definition.value.names, values))

    def _key_dict(self, values: Iterable[Any]) -> NamedValues:
        return dict(zip(self._definition.key.names, values))


_STORES: dict[type[StoreDefinition], type[ProcessorStore[Any]]] = {}


def processor_store(definition: type[StoreDefinition]) -> Callable[[StoreClass], StoreClass]:
    """Register a class as what processors see of stores that are declared so."""

    def register(store: StoreClass) -> StoreClass:
        _STORES[definition] = store
        return store

    return register


def processor_store_of(definition: StoreDefinition) -> type[ProcessorStore[Any]]:
    """What processors see of a store; LookupError for a kind that has no class."""
    if type(definition) not in _STORES:
        import streamkit.engine.processors.store_kinds  # noqa: F401  # registers every kind; each imports this module

    found = _STORES.get(type(definition))
    if found is None:
        raise LookupError(
            f"stores of kind {definition.kind!r} have no class for processors; expected one in streamkit.engine.processors.store_kinds"
        )
    return found


class _Exact:
    """Users' keys or values as tuples of what their columns hold."""

    def __init__(self, definition: StoreDefinition, schema: Schema, what: str) -> None:
        self._store, self._what, self._schema = definition.name, what, schema
        self._names = dict.fromkeys(schema.names)
        self._convert = [(column.name, column.type, column.nullable, exactly(column.arrow.type)) for column in schema]

    def of(self, given: Any) -> EntryValues:
        """A key, as a dict, a tuple, or the value of the only column."""
        if isinstance(given, Mapping):
            return self.of_dict(given)
        values = tuple(given) if isinstance(given, tuple | list) else (given,)
        if len(values) != len(self._convert):
            raise self._wrong(f"found {given!r}")
        return self._converted(values)

    def to_put(self, given: Any) -> EntryValues:
        """A key to keep something under, as `of`; RefusedCallError if it is null, which is no key."""
        values = self.of(given)
        if all(value is None for value in values):
            raise self._wrong(f"found {given!r}, a null key, under which nothing can be put; expected a value")
        return values

    def of_first(self, given: Any) -> EntryValues:
        """The first columns of a key, as a tuple, or the value of the first one."""
        values = tuple(given.values()) if isinstance(given, Mapping) else tuple(given) if isinstance(given, tuple) else (given,)
        if not 0 < len(values) <= len(self._convert):
            raise self._wrong(f"found the beginning {given!r}")
        return self._converted(values)

    def of_dict(self, given: Any) -> EntryValues:
        """A dict of columns; a column that it leaves out is null."""
        if given.__class__ is not dict and not isinstance(given, Mapping):  # the second look is slow
            raise self._wrong(f"found {given!r}; expected a dict")
        for name in given:
            if name not in self._names:
                raise self._wrong(f"found the column {name!r}")
        return self._converted([given.get(name) for name in self._names])

    def _converted(self, values: Sequence[Any]) -> EntryValues:
        found = []
        for (name, type, nullable, convert), value in zip(self._convert, values):
            if value is None and not nullable:
                raise self._wrong(f"found None for {name}, which is declared NOT NULL")
            try:
                found.append(convert(value))
            except UNFIT as error:
                raise self._wrong(f"found {name} = {value!r} ({type_name(value)}), and declared is {type}: {error}") from None
        return tuple(found)

    def _wrong(self, found: str) -> RefusedCallError:
        columns = ", ".join(f"{column.name} {column.type}" for column in self._schema)
        return RefusedCallError(f"the {self._what} of the store {self._store!r} has the columns {columns}; {found}")
