"""
Values of nested types to the types of a schema: taken apart a level at a time, converted as columns of atomic values, put together.

What can be converted, and how, is for atomic values as `conversion` has it. A struct has just the fields of its type, in any
order; a map has each key once, and none of them is null. An error names the row and the path of the value: `at.lat`,
`tags[1]`, `props['a']`; of a key of a map `props.key`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.data_type import element_of, entry_of, fields_of, is_nested, to_arrow
from streamkit.errors import SchemaError
from streamkit.log.values.columns import valid_rows
from streamkit.log.values.nested_columns import entries, fields, listed, structured
from streamkit.log.values.validation import validate_column
from streamkit.recast import recast
from streamkit.repeated_keys import repeated_keys
from streamkit.schema import SchemaColumn

ConvertValues: TypeAlias = Callable[
    [SchemaColumn, Any], pa.Array
]  # atomic values in the type of a column; SchemaError names the first row
PlaceOf: TypeAlias = Callable[[int], tuple[int, str]]  # of a value by its number: its row, and its path

_UNNAMED = ""  # the column of atomic values, whose errors get their row and their path here
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


@dataclass(frozen=True)
class Conversion:
    """
    How atomic values are converted: those of fields, elements and maps, and the keys of maps.

    Where it `is_sparse`, structs of Python may lack fields, which are null then.
    """

    values: ConvertValues
    keys: ConvertValues
    is_sparse: bool = False


def convert_nested(column: SchemaColumn, values: Any, conversion: Conversion, first_row: int = 0) -> pa.Array:
    """
    An Arrow array or Python values in the nested type of a column; SchemaError names the first row that does not fit.

    Python has structs as mappings, arrays as lists, tuples or arrays of numpy, maps as mappings or lists of pairs.
    """

    def place(number: int) -> tuple[int, str]:
        return first_row + number, column.name

    if isinstance(values, pa.Array):
        _check_sound(values, place)
    return _converted(column.type, values, conversion, place)


def _converted(type_name: str, values: Any, conversion: Conversion, place: PlaceOf, *, is_key: bool = False) -> pa.Array:
    if not len(values):
        return pa.array([], to_arrow(type_name))
    if not is_nested(type_name):
        return _atomic(type_name, values, conversion.keys if is_key else conversion.values, place)
    if isinstance(values, pa.Array) and pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if isinstance(values, pa.Array) and pa.types.is_null(values.type):
        return pa.nulls(len(values), to_arrow(type_name))
    if element := element_of(type_name):
        return _array(type_name, element, values, conversion, place)
    if entry := entry_of(type_name):
        return _map(type_name, entry, values, conversion, place)
    return _struct(type_name, values, conversion, place)


def _atomic(type_name: str, values: Any, convert: ConvertValues, place: PlaceOf) -> pa.Array:
    try:
        return convert(SchemaColumn(_UNNAMED, type_name), values)
    except SchemaError as error:
        if not error.rows:
            raise
        number = error.rows[0]
        raise _refused(str(error).removeprefix(f"row {number}, column {_UNNAMED!r}: "), *place(number)) from error.__cause__


def _array(type_name: str, element: str, values: Any, conversion: Conversion, place: PlaceOf) -> pa.Array:
    if isinstance(values, pa.Array):
        _check_kind(values, any(is_kind(values.type) for is_kind in _LISTS), type_name, place)
        layout = pa.list_(values.type.value_field)
        counts, content = entries(recast(values, layout))
    else:
        _check_values(values, list | tuple | np.ndarray, "an array is a list", type_name, place)
        counts, content = _counts(values), [one for value in values if value is not None for one in value]
    below = _converted(element, content, conversion, _place_in_list(counts, place))
    return listed(type_name, counts, _valid(values), [below])


def _map(type_name: str, entry: tuple[str, str], values: Any, conversion: Conversion, place: PlaceOf) -> pa.Array:
    if isinstance(values, pa.Array):
        _check_kind(values, pa.types.is_map(values.type), type_name, place)
        counts, content = entries(values)
        keys, items = fields(content)
    else:
        _check_values(values, Mapping | list | tuple, "a map is a mapping, or a list of pairs", type_name, place)
        counts, pairs = _counts(values), _pairs(values, type_name, place)
        keys, items = [key for key, _ in pairs], [item for _, item in pairs]
    in_map = _place_in_list(counts, place)
    found = _converted(
        entry[0], keys, conversion, lambda number: (in_map(number)[0], f"{_map_of(in_map, number)}.key"), is_key=True
    )
    _check_keys(found, counts, type_name, place)
    below = _converted(
        entry[1], items, conversion, lambda number: (in_map(number)[0], f"{_map_of(in_map, number)}[{_shown(found[number])}]")
    )
    return listed(type_name, counts, _valid(values), [found, below])


def _struct(type_name: str, values: Any, conversion: Conversion, place: PlaceOf) -> pa.Array:
    types = dict(fields_of(type_name) or ())
    if isinstance(values, pa.Array):
        _check_kind(values, pa.types.is_struct(values.type), type_name, place)
        names = [field.name for field in values.type]
        _check_fields(names, types, type_name, place, 0)
        content = dict(zip(names, values.flatten(), strict=True))
    else:
        _check_values(values, Mapping, "a struct is a mapping of names and values", type_name, place)
        for number, value in enumerate(values):
            if value is not None:
                _check_fields(list(value), types, type_name, place, number, is_sparse=conversion.is_sparse)
        content = {name: [None if value is None else value.get(name) for value in values] for name in types}
    children = [_converted(kind, content[name], conversion, _place_in_struct(name, place)) for name, kind in types.items()]
    return structured(type_name, len(values), _valid(values), children)


def _valid(values: Any) -> Mask | None:
    if isinstance(values, pa.Array):
        return valid_rows(values)
    valid = np.array([value is not None for value in values], np.bool_)
    return None if valid.all() else valid


def _counts(values: Sequence[Any]) -> Integers:
    return np.array([0 if value is None else len(value) for value in values], np.int64)


def _pairs(values: Sequence[Any], type_name: str, place: PlaceOf) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    for number, value in enumerate(values):
        pairs = value.items() if isinstance(value, Mapping) else value or ()
        for pair in pairs:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise _misfit(pair, type_name, "an entry is a pair of a key and a value", place(number))
            found.append((pair[0], pair[1]))
    return found


def _place_in_list(counts: Integers, place: PlaceOf) -> PlaceOf:
    ends = np.cumsum(counts)

    def found(number: int) -> tuple[int, str]:
        owner = int(np.searchsorted(ends, number, side="right"))
        row, path = place(owner)
        return row, f"{path}[{number - int(ends[owner] - counts[owner])}]"

    return found


def _place_in_struct(name: str, place: PlaceOf) -> PlaceOf:
    def found(number: int) -> tuple[int, str]:
        row, path = place(number)
        return row, f"{path}.{name}"

    return found


def _map_of(in_map: PlaceOf, number: int) -> str:
    """The path of the map that an entry is in."""
    return in_map(number)[1].rpartition("[")[0]


def _check_kind(values: pa.Array, is_right: bool, type_name: str, place: PlaceOf) -> None:
    if not is_right:
        valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        number = int(valid[0]) if len(valid) else 0
        raise _refused(f"found {_shown(values[number])} ({values.type}), expected {type_name}", *place(number))


def _check_values(values: Iterable[Any], kinds: Any, reason: str, type_name: str, place: PlaceOf) -> None:
    for number, value in enumerate(values):
        if value is not None and not isinstance(value, kinds):
            raise _misfit(value, type_name, reason, place(number))


def _check_fields(
    found: Sequence[Any], expected: Iterable[str], type_name: str, place: PlaceOf, number: int, *, is_sparse: bool = False
) -> None:
    missing = [] if is_sparse else [name for name in expected if name not in found]
    unknown = [name for name in found if name not in expected]
    if missing or unknown or len(set(found)) < len(found):
        complaint = "a field twice"
        if missing or unknown:
            complaint = f"no field {missing[0]!r}" if missing else f"the unknown field {unknown[0]!r}"
        names = ", ".join(map(str, found)) or "none"
        raise _refused(f"it has {complaint}; found {names}; expected {type_name}", *place(number))


def _check_keys(keys: pa.Array, counts: Integers, type_name: str, place: PlaceOf) -> None:
    owners = np.repeat(np.arange(len(counts)), counts)
    if keys.null_count:
        number = int(np.argmin(keys.is_valid().to_numpy(zero_copy_only=False)))
        raise _refused(f"found a null as a key, expected {type_name}, whose keys are not null", *place(int(owners[number])))
    repeated = repeated_keys(owners, keys)
    if repeated.any():
        first = int(np.argmax(repeated))
        raise _refused(
            f"found the key {_shown(keys[first])} twice, expected {type_name}, which has each key once",
            *place(int(owners[first])),
        )


def _check_sound(values: pa.Array, place: PlaceOf) -> None:
    """
    SchemaError, with row and path, unless an array holds what its type promises: offsets, indexes, texts and decimals.

    Of a slice Arrow looks at the entries of other rows too, which do not count here: nothing reads them.
    """
    try:
        validate_column(values)
    except pa.ArrowException as error:
        found = _unsound(values, place)
        if found is not None:
            reason = "it is not UTF-8" if "UTF8" in str(error) else str(error).splitlines()[0]
            raise _refused(f"found a value that is not sound; {reason}", *found) from error


def _unsound(values: pa.Array, place: PlaceOf) -> tuple[int, str] | None:
    """The place of the first value that is not sound, if there is one; nothing is copied, since Arrow would trust it."""
    kind = values.type
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _unsound_entry(values, place)
    if pa.types.is_struct(kind):
        found = (_unsound(values.field(number), _place_in_struct(field.name, place)) for number, field in enumerate(kind))
        return next((one for one in found if one is not None), None)
    if _is_sound(values):
        return None
    sound, refused = 0, len(values)
    while refused - sound > 1:
        middle = (sound + refused) // 2
        sound, refused = (middle, refused) if _is_sound(values[:middle]) else (sound, middle)
    return place(sound)


def _unsound_entry(values: pa.Array, place: PlaceOf) -> tuple[int, str] | None:
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    counts = np.diff(offsets)
    wrong = (counts < 0) | (offsets[:-1] < 0) | (offsets[1:] > len(values.values))
    if wrong.any():
        return place(int(np.argmax(wrong)))
    if not len(values):
        return None
    return _unsound(values.values.slice(offsets[0], offsets[-1] - offsets[0]), _place_in_list(counts, place))


def _is_sound(values: pa.Array) -> bool:
    try:
        validate_column(values)
    except pa.ArrowException:
        return False
    return True


def _misfit(value: Any, type_name: str, reason: str, place: tuple[int, str]) -> SchemaError:
    return _refused(f"found {_shown(value)} ({type(value).__name__}), expected {type_name}; {reason}", *place)


def _refused(complaint: str, row: int, path: str) -> SchemaError:
    return SchemaError(f"row {row}, column {path!r}: {complaint}", (row,))


def _shown(value: Any) -> str:
    try:
        text = repr(value.as_py() if isinstance(value, pa.Scalar) else value)
    except (ValueError, OverflowError, LookupError):  # a time beyond Python's, or beyond pandas', which its text is, too
        text = repr(getattr(value, "value", value.type))
    return text if len(text) <= 80 else f"{text[:77]}..."
