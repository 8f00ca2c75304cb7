"""Ways to apply a function to the rows of a call that has no Arrow kernel, or none that takes a column for every argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.expressions.core.operation import Datum
from streamkit.expressions.core.sizes import repeated
from streamkit.plan.expression import TypedExpression
from streamkit.recast import recast

ArrayFunction = Callable[..., Datum]


def on_arrays(kernel: Callable[..., pa.Array]) -> ArrayFunction:
    """A kernel that takes arrays only, for a call in which some arguments, or all, are constants."""

    def compute(expression: TypedExpression, *values: Datum) -> Datum:
        count = next((len(value) for value in values if isinstance(value, pa.Array)), None)
        arrays = [value if isinstance(value, pa.Array) else repeated(value, 1 if count is None else count) for value in values]
        result = kernel(expression, *arrays)
        return result[0] if count is None else result

    return compute


def each_value(function: Callable[..., Any], type: pa.DataType, *values: Datum) -> Datum:
    """
    A Python function of each row, called once for each distinct value if one argument alone varies; null where an argument is.

    For what nobody has vectorised, and what is rare or has few distinct values. A ValueError of the function is the failure of a row.
    """
    arrays = [value for value in values if isinstance(value, pa.Array)]
    if any(isinstance(value, pa.Scalar) and not value.is_valid for value in values):
        return pa.nulls(len(arrays[0]), type) if arrays else pa.scalar(None, type)
    try:
        if not arrays:
            return pa.scalar(function(*(value.as_py() for value in values)), type)
        if len(arrays) > 1:
            return _each_row(function, type, values)
        return _each_distinct(function, type, values, arrays[0])
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None


def _each_row(function: Callable[..., Any], type: pa.DataType, values: Sequence[Datum]) -> pa.Array:
    count = next(len(value) for value in values if isinstance(value, pa.Array))
    columns = [value.to_pylist() if isinstance(value, pa.Array) else [value.as_py()] * count for value in values]
    return pa.array([None if None in row else function(*row) for row in zip(*columns, strict=True)], type)


def _each_distinct(function: Callable[..., Any], type: pa.DataType, values: Sequence[Datum], array: pa.Array) -> pa.Array:
    encoded = array.dictionary_encode()
    place = next(number for number, value in enumerate(values) if value is array)
    constants = [None if number == place else value.as_py() for number, value in enumerate(values)]
    before, after = constants[:place], constants[place + 1 :]
    found = pa.array([function(*before, value, *after) for value in encoded.dictionary.to_pylist()], type)
    return found.take(encoded.indices)


def each_constant(kernel: Callable[..., Datum], type: pa.DataType, values: Sequence[Datum], places: Sequence[int]) -> Datum:
    """
    A kernel that takes the arguments at these places as constants only, for columns too: once for the rows of each combination.

    Rows with a null among the arguments are null; rows whose other arguments are all null are not computed.
    """
    varying = [place for place in places if place < len(values) and isinstance(values[place], pa.Array)]
    if any(isinstance(value, pa.Scalar) and not value.is_valid for value in values):
        count = next((len(value) for value in values if isinstance(value, pa.Array)), None)
        return pa.scalar(None, type) if count is None else pa.nulls(count, type)
    if not varying:
        return kernel(*values)
    groups = _rows_by_value([values[place] for place in varying])
    parts = [_one_group(kernel, type, values, varying, rows) for rows in groups]
    if not parts:
        return pa.nulls(0, type)
    order = np.argsort(np.concatenate(groups), kind="stable")
    return pa.concat_arrays(parts).take(pa.array(order))


def _rows_by_value(arrays: Sequence[pa.Array]) -> list[np.ndarray]:
    """The numbers of the rows with equal values in all arrays."""
    count = len(arrays[0])
    codes = np.zeros(count, np.int64)
    for array in arrays:
        encoded = array.dictionary_encode()
        size = len(encoded.dictionary)
        codes = codes * (size + 1) + encoded.indices.fill_null(size).to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if count else []


def _one_group(
    kernel: Callable[..., Datum], type: pa.DataType, values: Sequence[Datum], varying: Sequence[int], rows: np.ndarray
) -> pa.Array:
    chosen = [value.take(pa.array(rows)) if isinstance(value, pa.Array) else value for value in values]
    for place in varying:
        chosen[place] = chosen[place][0]
        if not chosen[place].is_valid:
            return pa.nulls(len(rows), type)
    if any(isinstance(value, pa.Array) and value.null_count == len(value) for value in chosen):
        return pa.nulls(len(rows), type)
    result = kernel(*chosen)
    result = result if isinstance(result, pa.Array) else pa.repeat(result, len(rows))
    return recast(result, type)
