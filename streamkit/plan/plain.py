"""Values as plain lists, dicts and scalars, and back: what JSON can hold, steered by the types of dataclass fields."""

from __future__ import annotations

import dataclasses
import types
import typing
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

from streamkit.schema import Schema

KIND = "kind"
NO_KINDS: Mapping[str, type] = {}
SCALARS = (str, int, float, bool)
WritePlain: TypeAlias = Callable[[Any], Any]
ReadPlain: TypeAlias = Callable[[Any, Mapping[str, type]], Any]


def to_plain(value: Any) -> Any:
    """
    The value as JSON can hold it.

    A value that has a `to_json` of its own is written by that. A schema is its SQL text, bytes are Base64; another dataclass is a dict of its
    fields, with its `kind` if it has one; a tuple is a list. The keys of a mapping are text, as JSON has them; a named tuple is
    the list of its values, which must be scalars.
    """
    return _writer(value.__class__)(value)


def from_plain(expected: Any, value: Any, kinds: Mapping[str, type] = NO_KINDS) -> Any:
    """
    The value of type `expected` behind a plain one; `kinds` are the classes behind "kind".

    A missing field gets its default, so that values from before the field existed can be read; KeyError if it has none. A class behind
    a kind that has a `from_json` of its own is read by that.
    """
    return _reader(expected)(value, kinds)


# A plan has thousands of values of few types, so what is to be done with a type is found out once.


@cache
def _writer(cls: type) -> WritePlain:
    """How a value of this class is written, whatever `to_json` it has."""
    if issubclass(cls, Schema):
        return lambda value: value.ddl()
    if issubclass(cls, bytes):
        return lambda value: b64encode(value).decode()
    if dataclasses.is_dataclass(cls):
        return partial(_dict_of, tuple(field.name for field in dataclasses.fields(cls)), _kind(cls))
    if issubclass(cls, Mapping):
        return lambda value: {str(key): _inner_writer(item.__class__)(item) for key, item in value.items()}
    if hasattr(cls, "_fields"):
        return list
    if issubclass(cls, tuple | list):
        return lambda value: [_inner_writer(item.__class__)(item) for item in value]
    return _unchanged


@cache
def _inner_writer(cls: type) -> WritePlain:
    """How a value of this class is written inside another."""
    return (lambda value: value.to_json()) if hasattr(cls, "to_json") else _writer(cls)


def _dict_of(names: Sequence[str], kind: Mapping[str, str], value: Any) -> dict[str, Any]:
    return {**kind, **{name: _inner_writer((item := getattr(value, name)).__class__)(item) for name in names}}


def _kind(cls: type) -> dict[str, str]:
    own = cls.__dict__.get(KIND)
    return {KIND: own} if isinstance(own, str) and own else {}


def _unchanged(value: Any, _: Any = None) -> Any:
    return value


@cache
def _reader(expected: Any) -> ReadPlain:
    """How a value of this type is read, whatever `from_json` it has."""
    if expected is Schema:
        return lambda value, _: Schema.from_ddl(value)
    if expected is bytes:
        return lambda value, _: b64decode(value)
    if dataclasses.is_dataclass(expected):
        return partial(_from_dict, expected)  # type: ignore[arg-type]  # a class
    if hasattr(expected, "_fields"):
        return lambda value, _: expected(*value)
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin in (dict, Mapping):
        return partial(_from_mapping, *arguments)
    if origin is tuple and arguments[-1:] == (Ellipsis,):
        return partial(_from_list, arguments[0])
    if origin is tuple:
        return partial(_from_fields, arguments)
    if origin in (typing.Union, types.UnionType):
        given = next(each for each in arguments if each is not type(None))
        return lambda value, kinds: None if value is None else _inner_reader(given)(value, kinds)
    return _unchanged if expected in SCALARS else lambda value, _: _frozen(value)


@cache
def _inner_reader(expected: Any) -> ReadPlain:
    """How a value of this type is read inside another."""
    return (lambda value, _: expected.from_json(value)) if hasattr(expected, "from_json") else _reader(expected)


def _from_dict(expected: type, value: Mapping[str, Any], kinds: Mapping[str, type]) -> Any:
    cls: Any = kinds[value[KIND]] if _is_base(expected, kinds) else expected
    if cls is not expected and hasattr(cls, "from_json"):
        return cls.from_json(value)
    return cls(
        **{name: read(value[name], kinds) for name, read, is_required in _field_readers(cls) if name in value or is_required}
    )


@cache
def _field_readers(cls: Any) -> tuple[tuple[str, ReadPlain, bool], ...]:
    """Of each field its name, how it is read, and whether it must be there; asked for late, since a class may hold itself."""
    hints = typing.get_type_hints(cls)
    return tuple((field.name, _inner_reader(hints[field.name]), _is_required(field)) for field in dataclasses.fields(cls))


def _from_mapping(key_type: Any, item_type: Any, value: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[Any, Any]:
    if item_type in SCALARS:
        return {key_type(key): item for key, item in value.items()}
    read = _inner_reader(item_type)
    return {key_type(key): read(item, kinds) for key, item in value.items()}


def _from_list(item_type: Any, value: Sequence[Any], kinds: Mapping[str, type]) -> tuple[Any, ...]:
    read = _inner_reader(item_type)
    return tuple([read(item, kinds) for item in value])


def _from_fields(item_types: Sequence[Any], value: Sequence[Any], kinds: Mapping[str, type]) -> tuple[Any, ...]:
    return tuple(_inner_reader(each)(item, kinds) for each, item in zip(item_types, value, strict=True))


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _is_base(expected: type, kinds: Mapping[str, type]) -> bool:
    return any(issubclass(cls, expected) for cls in kinds.values())


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
