"""
How large the values of one row may become: what needs gigabytes is the failure of its record, not of the run.

The bound is one of each row, computed from lengths before the bytes are there, since Arrow may end the process where a column has no room.
Rows that are too long together only in their batch are an error of another kind, at which the batch is taken apart (`arrow`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import COLUMN_BYTES_MAX
from streamkit.conditionals import repeat
from streamkit.expressions.core.operation import OPERATIONS, Datum
from streamkit.plan.expression import TypedExpression

ELEMENTS_MAX = 1 << 26  # of one array: what is computed on them takes 512 MiB a number
BYTES_MAX = 1 << 28  # of one text
_TOGETHER_MAX = 4  # times as many in the rows of a batch
FEW = 1 << 10  # elements that need no closer look
_ELEMENTS, _BYTES = "an array would have {} elements", "a value would have {} bytes"
_LITTLE = 1 << 26  # bytes of a batch that need no closer look


class TooLargeError(pa.ArrowInvalid):  # type: ignore[misc]
    """The value of a row would be larger than its bound."""


class TooLargeTogetherError(pa.ArrowCapacityError):  # type: ignore[misc]
    """The values of rows would be larger together than a batch may be, each of them within its bound."""


def check_elements(lengths: np.ndarray, valid: np.ndarray | bool = True) -> None:
    """TooLargeError if an array would have too many elements, TooLargeTogetherError if the arrays of a batch would have them together."""
    _check(np.where(valid, lengths, 0), ELEMENTS_MAX, _ELEMENTS)


def check_bytes(sizes: np.ndarray, valid: np.ndarray | bool = True) -> None:
    """As `check_elements`, of the bytes of texts and binary values."""
    _check(np.where(valid, sizes, 0), BYTES_MAX, _BYTES)


def check_copies(values: pa.Array, times: np.ndarray) -> None:
    """As `check_bytes`, of values of any type that stand as often in a row's array."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        check_bytes(np.asarray(pc.fill_null(pc.binary_length(values), 0)).astype(np.float64) * times)
    elif pa.types.is_nested(values.type):
        sizes = np.zeros(len(values))
        for row in np.flatnonzero(times > FEW).tolist():
            sizes[row] = float(values.slice(row, 1).nbytes) * float(times[row])
        check_bytes(sizes)


def may_be_large(expression: TypedExpression, place: int) -> bool:
    """Whether the number at a place of the arguments may be one that makes too much."""
    number = expression.arguments[place]
    return number.name != "literal" or (number.value is not None and abs(number.value) > FEW)


def _check(sizes: np.ndarray, most: int, text: str) -> None:
    _check_each(sizes, most, text)
    _check_together(sizes, most)


def _check_together(sizes: np.ndarray, most: int) -> None:
    if (together := sizes.sum(dtype=np.float64)) > _TOGETHER_MAX * most:
        raise TooLargeTogetherError(f"{int(together)} bytes or elements together; expected at most {_TOGETHER_MAX * most}")


def _check_each(sizes: np.ndarray, most: int, text: str) -> None:
    if sizes.max(initial=0) > most:
        raise TooLargeError(f"{text.format(int(sizes.max()))}; expected at most {most}")


def check_growth(expression: TypedExpression, arguments: Sequence[Datum], count: int) -> None:
    """As `check_bytes`, of what an operation will make of its arguments, which may be more than they are."""
    if expression.type not in ("string", "binary"):
        return
    grows = OPERATIONS[expression.name].grows
    if callable(grows):
        grows(arguments, count)
        return
    most = grows * sum(_total(value, count) for value in arguments)
    if most > COLUMN_BYTES_MAX:
        raise (TooLargeTogetherError if count > 1 else TooLargeError)(f"a value could have {most} bytes; expected less")


def check_joined(parts: Sequence[Datum], count: int) -> None:
    """As `check_bytes`, of texts that are put one behind the other in each row."""
    if sum(_total(part, count) for part in parts) > _LITTLE:
        check_bytes(np.asarray(sum(sizes_of_rows(part, count) for part in parts)))


def check_spread(values: pa.Array, rows: pa.Array) -> None:
    """TooLargeTogetherError if the values of rows, one for each element that sees it, are too long together."""
    if not len(values) or values.nbytes * max(len(rows) / len(values), 1) <= _LITTLE or pa.types.is_dictionary(values.type):
        return
    times = np.bincount(np.asarray(rows), minlength=len(values))
    _check_together(sizes_of_rows(values, len(values)) * times, BYTES_MAX)


def is_little(text: Datum, new: Datum, count: int) -> bool:
    """Whether texts need no closer look, though the new text may be put in place of each of their characters."""
    return float(np.sum((sizes_of_rows(text, count) + 1) * sizes_of_rows(new, count))) + _total(text, count) <= _LITTLE


def check_separated(parts: Sequence[Datum], between: Sequence[Datum], count: int) -> None:
    """As `check_joined`, of texts and lists of texts with a separator between them; what stands for null is as long at most as the last."""
    longest = max(float(sizes_of_rows(value, count).max(initial=0)) for value in between)
    if sum(_total(part, count) + 4 * count for part in parts) * (1 + longest) <= _LITTLE:
        return
    separator, instead = (sizes_of_rows(value, count) for value in (between[0], between[-1]))
    instead = instead if len(between) > 1 else np.zeros(count)
    sizes = [
        _of_lists(part, separator, instead, count) if pa.types.is_list(part.type) else sizes_of_rows(part, count) + separator
        for part in parts
    ]
    check_bytes(np.asarray(sum(sizes, start=np.zeros(count))))


def check_value(value: Datum) -> Datum:
    """The values of rows, or one for all; TooLargeError if one is larger than a row may have."""
    if isinstance(value, pa.Scalar) or value.nbytes <= BYTES_MAX:
        return value
    if pa.types.is_list(value.type) or pa.types.is_map(value.type):
        _check_each(np.diff(_ends(value)[1]), ELEMENTS_MAX, _ELEMENTS)
    _check_each(np.diff(_text_ends(value)), BYTES_MAX, _BYTES)
    return value


def repeated(value: pa.Scalar, count: int) -> pa.Array:
    """One value in each of so many rows; TooLargeTogetherError if they have no room, which Arrow does not look at."""
    if count > 1 and _total(value, count) > _TOGETHER_MAX * BYTES_MAX:
        raise TooLargeTogetherError(f"{_total(value, count)} bytes together; expected at most {_TOGETHER_MAX * BYTES_MAX}")
    return repeat(value, count)


def sizes_of_rows(value: Datum, count: int) -> np.ndarray:
    """How many bytes of texts, and of other values in arrays, each row has; of a null none."""
    if isinstance(value, pa.Scalar):
        return np.full(count, float(_total(value, 1)))
    if pa.types.is_string(value.type) or pa.types.is_binary(value.type):
        return np.asarray(pc.fill_null(pc.binary_length(value), 0)).astype(np.float64)
    if pa.types.is_nested(value.type):
        return np.diff(_text_ends(value, of_others=8)).astype(np.float64)
    return np.full(count, 32.0)  # of a number as a text


def _total(value: Datum, count: int) -> int:
    """At most how many bytes the rows have together; of one value, as often as it stands there."""
    if isinstance(value, pa.Array):
        return int(value.nbytes)
    if not value.is_valid:
        return 0
    if pa.types.is_string(value.type) or pa.types.is_binary(value.type):
        return len(value.as_buffer()) * count
    return int(repeat(value, 1).nbytes) * count if pa.types.is_nested(value.type) else 8 * count


def _ends(array: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """What lists or maps hold, and where each row begins and ends there."""
    offsets = np.asarray(array.offsets).astype(np.int64)
    return (
        pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"]) if pa.types.is_map(array.type) else array.values
    ), offsets


def _text_ends(array: pa.Array, of_others: int = 0) -> np.ndarray:
    """How many bytes of text lie before each row, and in all; a value that is no text counts `of_others` bytes."""
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        return np.concatenate([[0], np.cumsum(np.asarray(pc.fill_null(pc.binary_length(array), 0)), dtype=np.int64)])
    if pa.types.is_list(array.type) or pa.types.is_map(array.type):
        inner, ends = _ends(array)
        return np.asarray(_text_ends(inner, of_others)[ends])
    if pa.types.is_struct(array.type):
        nothing = np.zeros(len(array) + 1, np.int64)
        return np.asarray(sum((_text_ends(part, of_others) for part in array.flatten()), start=nothing))
    return np.arange(len(array) + 1, dtype=np.int64) * of_others


def _of_lists(lists: Datum, between: np.ndarray, instead: np.ndarray, count: int) -> np.ndarray:
    """The bytes of the texts of each list, with as many between them, and as many in place of each null."""
    rows = repeated(lists, count) if isinstance(lists, pa.Scalar) else lists
    inner, ends = _ends(rows)
    missing = np.concatenate([[0], np.cumsum(np.asarray(inner.is_null()), dtype=np.int64)])
    lengths = np.diff(ends)
    return np.asarray(np.diff(_text_ends(inner)[ends]) + lengths * between + np.diff(missing[ends]) * instead)
