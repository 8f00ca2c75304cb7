"""Values as plain lists, dicts and scalars, and back: what JSON can hold, steered by the types of dataclass fields."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from streamkit.schema import Schema

KIND = "kind"
NO_KINDS: Mapping[str, type] = {}
SCALARS = (str, int, float, bool)


def to_plain(value: Any) -> Any:
    """
    The value as JSON can hold it.

    A value inside it that has a `to_json` of its own, as one with checks on the way back has, says itself what it is. A schema
    is its SQL text; another dataclass a dict of its fields, with its `kind` if it has one; a tuple is a list. The keys
    of a mapping are text, as JSON has them; a named tuple is the list of its values, which must be scalars.
    """
    if isinstance(value, Schema):
        return value.ddl()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {field.name: _inner(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {KIND: type(value).kind, **plain} if _has_kind(type(value)) else plain  # type: ignore[attr-defined]
    if isinstance(value, Mapping):
        return {str(key): _inner(item) for key, item in value.items()}
    if hasattr(value, "_fields"):
        return list(value)
    if isinstance(value, (tuple, list)):
        return [_inner(item) for item in value]
    return value


def from_plain(expected: Any, value: Any, kinds: Mapping[str, type] = NO_KINDS) -> Any:
    """
    The value of type `expected` behind a plain one; `kinds` are the classes behind "kind".

    A field that is missing has its default, for a value of before there was such a field; KeyError if it has none.
    """
    if expected is Schema:
        return Schema.parse(value) if value else Schema(())
    if dataclasses.is_dataclass(expected):
        return _from_dict(expected, value, kinds)
    if hasattr(expected, "_fields"):
        return expected(*value)
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin in (dict, Mapping):
        return _from_mapping(arguments, value, kinds)
    if origin is tuple:
        inner = [arguments[0]] * len(value) if arguments[-1:] == (Ellipsis,) else arguments
        return tuple(_from_inner(each, item, kinds) for each, item in zip(inner, value, strict=True))
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _from_inner(next(each for each in arguments if each is not type(None)), value, kinds)
    return _frozen(value)


def _inner(value: Any) -> Any:
    return value.to_json() if hasattr(value, "to_json") and not isinstance(value, type) else to_plain(value)


def _from_inner(expected: Any, value: Any, kinds: Mapping[str, type]) -> Any:
    return expected.from_json(value) if hasattr(expected, "from_json") else from_plain(expected, value, kinds)


def _from_dict(expected: Any, value: Mapping[str, Any], kinds: Mapping[str, type]) -> Any:
    cls: Any = kinds[value[KIND]] if _is_base(expected, kinds) else expected
    hints = _hints(cls)
    present = (field.name for field in dataclasses.fields(cls) if field.name in value or _is_required(field))
    return cls(**{name: _from_inner(hints[name], value[name], kinds) for name in present})


def _from_mapping(expected: tuple[Any, ...], value: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[Any, Any]:
    key_type, item_type = expected
    if item_type in SCALARS:
        return {key_type(key): item for key, item in value.items()}
    return {key_type(key): _from_inner(item_type, item, kinds) for key, item in value.items()}


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _has_kind(cls: type) -> bool:
    return bool(isinstance(cls.__dict__.get(KIND), str) and cls.__dict__[KIND])


def _is_base(expected: type, kinds: Mapping[str, type]) -> bool:
    return any(issubclass(cls, expected) for cls in kinds.values())


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)
