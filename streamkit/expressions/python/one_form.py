"""
Values of nested types in one form, whichever of Python's forms they come in, and what of them a type cannot hold.

Arrow takes a struct as a dict or as a tuple, but not both beside each other; of a dict it ignores the names that it does not know, and a
double that is too large for a float becomes infinite. Here a struct is a dict of just its fields: one that is left out is null, and
one that it has not is an error, as is a number beyond the range of a float.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.decimals import fitted

Form: TypeAlias = Callable[[Any], Any]
FLOAT_MAX = float(np.finfo(np.float32).max)


def in_one_form(values: list[Any], type: pa.DataType) -> list[Any]:
    """These values of a type in one form; ValueError names a field that a struct has not, or a number that a float cannot hold."""
    form = _form(type)
    return values if form is None else [None if value is None else form(value) for value in values]


def check_arrow(found: pa.Array | pa.ChunkedArray, type: pa.DataType) -> None:
    """ValueError if an array that is to become one of this type has fields that the type has not, or numbers that a float cannot hold."""
    _check_type(found.type, type)
    if pa.types.is_float32(type) and pa.types.is_float64(found.type):
        finite = found.filter(pc.fill_null(pc.is_finite(found), False))
        if len(finite) and pc.max(pc.abs(finite)).as_py() > _FLOAT_END:
            raise _too_large(pc.max(pc.abs(finite)).as_py())
    elif pa.types.is_struct(type) and pa.types.is_struct(found.type):
        for name in set(found.type.names).intersection(type.names):
            check_arrow(pc.struct_field(found, [name]), type.field(name).type)
    elif pa.types.is_list(type) and hasattr(found.type, "value_type") and not pa.types.is_dictionary(found.type):
        check_arrow(pc.list_flatten(found), type.value_type)


_FLOAT_END = FLOAT_MAX * (1 + 2.0**-25)  # from here on a double is rounded to infinity


def _form(type: pa.DataType) -> Form | None:
    """What brings a value that is not null into its form; None if any value is in it."""
    if pa.types.is_float32(type):
        return _float
    if pa.types.is_decimal(type):
        return partial(_decimal, type)
    if pa.types.is_struct(type):
        return _struct(type)
    if pa.types.is_map(type):
        return _map(type)
    if pa.types.is_list(type):
        return _list(_form(type.value_type))
    return None


def _float(value: Any) -> Any:
    is_number = isinstance(value, float | int | np.floating) and not isinstance(value, bool)
    if is_number and abs(value) >= _FLOAT_END and value not in (math.inf, -math.inf):
        raise _too_large(value)
    return value


def _decimal(type: pa.DataType, value: Any) -> Any:
    return fitted(value, type) if isinstance(value, Decimal) and not value.is_nan() else value


def _too_large(value: Any) -> ValueError:
    return ValueError(
        f"{value!r} is beyond the range of a float, which ends at {FLOAT_MAX:.6g}; expected a smaller number, or a double"
    )


def _struct(type: pa.StructType) -> Form:
    names = [field.name for field in type]
    known = frozenset(names)
    forms = [(field.name, form) for field in type if (form := _form(field.type)) is not None]

    def of_struct(value: Any) -> Any:
        if isinstance(value, tuple):
            if len(value) != len(names):
                raise ValueError(
                    f"found {len(value)} values in {value!r}; a struct with the fields {', '.join(names)} has {len(names)}"
                )
            value = dict(zip(names, value, strict=True))
        elif value.__class__ is not dict:
            value = dict(value)
        if not known.issuperset(value):
            raise unknown_field(value, names)
        if not forms:
            return value
        changed = {name: None if (one := value.get(name)) is None else form(one) for name, form in forms}
        return {**value, **changed}

    return of_struct


def unknown_field(value: Mapping[Any, Any], names: Sequence[str]) -> ValueError:
    """The error about a name in a dict that is no field of its struct."""
    name = next(name for name in value if name not in names)
    close = difflib.get_close_matches(str(name).lower(), names, 1)
    meant = f"; did you mean {close[0]!r}?" if close else f"; its fields are {', '.join(names)}"
    return ValueError(f"the struct has no field {name!r}{meant}")


def _map(type: pa.MapType) -> Form:
    key, item = _form(type.key_type), _form(type.item_type)

    def form(value: Any) -> Any:
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        if key is None and item is None:
            return pairs
        return [(_applied(key, name), _applied(item, one)) for name, one in pairs]

    return form


def _list(element: Form | None) -> Form:
    def form(value: Any) -> Any:
        if isinstance(value, str | bytes | Mapping):
            return value  # no list: Arrow says so
        if element is None:
            return list(value) if isinstance(value, tuple | AbstractSet | range) else value
        return [_applied(element, one) for one in value]

    return form


def _applied(form: Form | None, value: Any) -> Any:
    return value if form is None or value is None else form(value)


def _check_type(found: pa.DataType, type: pa.DataType) -> None:
    if pa.types.is_struct(type) and pa.types.is_struct(found):
        if unknown := [name for name in found.names if name not in type.names]:
            raise unknown_field(dict.fromkeys(unknown), type.names)
        for name in found.names:
            _check_type(found.field(name).type, type.field(name).type)
    elif pa.types.is_map(type) and pa.types.is_map(found):
        _check_type(found.item_type, type.item_type)
    elif pa.types.is_list(type) and (pa.types.is_list(found) or pa.types.is_large_list(found)):
        _check_type(found.value_type, type.value_type)
