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


def to_plain(value: Any) -> Any:
    """
    The value as JSON can hold it.

    A schema is its SQL text; another dataclass a dict of its fields, with its `kind` if it has one; a tuple is a list.
    """
    if isinstance(value, Schema):
        return value.ddl()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {KIND: type(value).kind, **plain} if _has_kind(type(value)) else plain  # type: ignore[attr-defined]
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    return value


def from_plain(expected: Any, value: Any, kinds: Mapping[str, type]) -> Any:
    """The value of type `expected` behind a plain one; `kinds` are the classes behind "kind"."""
    if expected is Schema:
        return Schema.parse(value) if value else Schema(())
    if dataclasses.is_dataclass(expected):
        return _from_dict(expected, value, kinds)
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is tuple:
        inner = [arguments[0]] * len(value) if arguments[-1:] == (Ellipsis,) else arguments
        return tuple(from_plain(each, item, kinds) for each, item in zip(inner, value, strict=True))
    if origin in (typing.Union, types.UnionType):
        return None if value is None else from_plain(next(each for each in arguments if each is not type(None)), value, kinds)
    return _frozen(value)


def _from_dict(expected: Any, value: Mapping[str, Any], kinds: Mapping[str, type]) -> Any:
    cls: Any = kinds[value[KIND]] if _is_base(expected, kinds) else expected
    hints = _hints(cls)
    return cls(
        **{
            field.name: from_plain(hints[field.name], value[field.name], kinds)
            for field in dataclasses.fields(cls)
            if field.name in value or field.default is dataclasses.MISSING  # an earlier version did not know the others
        }
    )


def _has_kind(cls: type) -> bool:
    return bool(isinstance(cls.__dict__.get(KIND), str) and cls.__dict__[KIND])


def _is_base(expected: type, kinds: Mapping[str, type]) -> bool:
    return any(issubclass(cls, expected) for cls in kinds.values())


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)
