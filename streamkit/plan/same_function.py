"""
Whether two functions of users are one within a process: the same object, or provably the same.

A digest cannot say so: it leaves out what no text tells, and it is made when a function is declared, while captured values may change later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, MethodWrapperType
from typing import Any

_PLAIN = (int, float, complex, bool, str, bytes, type(None))


def is_same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """
    Whether two functions are the same object, or have the same code, the same module, the same captured variables and equal defaults.

    Captured variables are compared, not their values: a variable may get another value after both functions are declared.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is MethodType and type(other) is MethodType:
        return one.__self__ is other.__self__ and is_same_function(one.__func__, other.__func__)
    if isinstance(one, (BuiltinFunctionType, MethodWrapperType)):
        return bool(one == other)  # Python compares the objects that have the method by their addresses
    return type(one) is FunctionType and type(other) is FunctionType and _is_same_code(one, other)


def _is_same_code(one: FunctionType, other: FunctionType) -> bool:
    return (
        one.__code__ is other.__code__
        and one.__globals__ is other.__globals__
        and _cells(one) == _cells(other)
        and _is_same_value(one.__defaults__, other.__defaults__)
        and _are_same_values(one.__kwdefaults__ or {}, other.__kwdefaults__ or {})
        and _are_same_values(vars(one), vars(other))
    )


def _cells(function: FunctionType) -> list[int]:
    """The addresses of the variables that a function captured."""
    cells: tuple[CellType, ...] = function.__closure__ or ()
    return [id(cell) for cell in cells]


def _are_same_values(some: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    return some.keys() == others.keys() and all(_is_same_value(some[name], others[name]) for name in some)


def _is_same_value(one: Any, other: Any) -> bool:
    """Whether two values are one object, or equal values of one kind that nobody can change."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is tuple:
        return len(one) == len(other) and all(map(_is_same_value, one, other))
    if type(one) is frozenset:
        return all(type(item) in _PLAIN for item in one | other) and set(map(_told, one)) == set(map(_told, other))
    return type(one) in _PLAIN and _told(one) == _told(other)


def _told(value: Any) -> tuple[type, str]:
    """The kind and the text of a plain value: 0.0 and -0.0 are equal and differ in what is made of them."""
    return type(value), repr(value)
