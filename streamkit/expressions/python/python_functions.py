"""
Calls of users' functions, in the process that knows them.

A plan names a function by its id. The process that compiled the plan knows it; to other processes of a query it travels with the job
(`with_functions` in `streamkit.spark.job`), never with the data.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.chunks import one_array
from streamkit.data_type import element_of, fields_of, to_arrow
from streamkit.errors import EvaluationError, UnfitFunctionError
from streamkit.expressions.core.operation import always, always_nullable, operation
from streamkit.expressions.core.rows import Rows, broadcast
from streamkit.expressions.python.one_form import check_arrow, in_one_form
from streamkit.formats.counted_times import has_times, in_type, with_counted_times
from streamkit.log.values.python_values import python_values
from streamkit.names import DELETED, ROW_NUMBER
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text
from streamkit.plan.function_digest import type_name
from streamkit.plan.python_function import (
    ARRAY,
    BATCH,
    BATCHES,
    CONDITION,
    EFFECT,
    RECORD,
    RECORDS,
    ROW,
    SERIES,
    PythonFunction,
)
from streamkit.recast import recast

FRACTION = "a fraction"  # what is wrong with a value that has one where its type has none
PYTHON_FUNCTIONS: dict[str, PythonFunction] = {}  # by id
_is_checked: ContextVar[bool] = ContextVar("_is_checked", default=False)


def registered(function: PythonFunction) -> str:
    """The id under which this process knows a function; two that only their captured objects tell apart have two ids."""
    PYTHON_FUNCTIONS.setdefault(function.known_as, function)
    return function.known_as


@contextmanager
def called_twice() -> Iterator[None]:
    """Call every function twice within the block; EvaluationError if the results differ, because it is not deterministic."""
    token = _is_checked.set(True)
    try:
        yield
    finally:
        _is_checked.reset(token)


def functions_in(value: Any) -> set[str]:
    """The ids of the functions that a plan, or a part of one, calls."""
    if isinstance(value, TypedExpression):
        own = {value.value} if value.name == "python" else set()
        return own.union(*map(functions_in, value.arguments))
    if is_dataclass(value):
        return set().union(*(functions_in(getattr(value, one.name)) for one in fields(value)))
    if isinstance(value, (tuple, list)):
        return set().union(*map(functions_in, value))
    return set().union(*map(functions_in, value.values())) if isinstance(value, dict) else set()


def function_of(expression: TypedExpression) -> PythonFunction:
    """The function that an expression calls; EvaluationError if this process does not know it."""
    function = PYTHON_FUNCTIONS.get(expression.value)
    if function is None:
        raise UnfitFunctionError(
            f"the function {expression.value!r} is not known to this process; expected the program to come from the topology that has it"
        )
    return function


def calls_twice() -> bool:
    """Whether functions are called twice, within `called_twice`."""
    return _is_checked.get()


@operation("python", lazy=True, fails=always, nullable=always_nullable, once=True)
def _python(expression: TypedExpression, rows: Rows) -> pa.Array:
    """The function's results; EvaluationError if it raises, or gives what its declared type does not hold."""
    function = function_of(expression)
    arguments = [broadcast(rows.value(argument), rows.count) for argument in expression.arguments]
    call = _BatchCall(function, expression, arguments, rows.count)
    found = call.results()
    if calls_twice() and function.style != EFFECT:
        if not _is_same(found, call.results()):
            raise UnfitFunctionError(
                f"{shown_text(expression)} gave two results for the same values; expected a deterministic function"
            )
        if function.style == BATCHES and not _is_same(found, call.results_of_halves()):
            raise UnfitFunctionError(
                f"{shown_text(expression)} gave other results when the rows came in two batches; expected results of each row that "
                "do not depend on the rows beside it"
            )
    return found


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    return list(map(repr, python_values(one))) == list(map(repr, python_values(other)))


class _BatchCall:
    """One call of a function on a batch of rows."""

    def __init__(self, function: PythonFunction, expression: TypedExpression, arguments: Sequence[pa.Array], count: int) -> None:
        self.function = function
        self.expression = expression
        self.arguments = arguments
        self.count = count
        self.type = to_arrow(function.type)
        self.fields = frozenset(name for name, _ in fields_of(element_of(function.type) or function.type) or ())

    def results(self) -> pa.Array:
        """One value a row."""
        return _STYLES[self.function.style](self)

    def results_of_halves(self) -> pa.Array:
        """One value a row, of two calls with half of the rows each."""
        if self.count < 2:
            return self.results()
        middle = self.count // 2
        halves = [(slice(0, middle), middle), (slice(middle, None), self.count - middle)]
        calls = [
            _BatchCall(self.function, self.expression, [array[part] for array in self.arguments], rows) for part, rows in halves
        ]
        return pa.concat_arrays([call.results() for call in calls])

    def by_row(self) -> pa.Array:
        rows = zip(*map(python_values, self.arguments)) if self.arguments else [()] * self.count
        return self._converted([self._called(row, *row) for row in rows])

    def by_record(self) -> pa.Array:
        """Structs, null where the function gives None."""
        values = []
        for row in zip(*map(python_values, self.arguments)):
            value = self._without_same(self._called(row, dict(zip(self.function.parameters, row))), row)
            self._check_names(value, row)
            values.append(value)
        return self._converted(values)

    def by_records(self) -> pa.Array:
        """Lists of structs, null where the function gives None for one."""
        values = []
        for row in zip(*map(python_values, self.arguments)):
            items = [self._without_same(item, row) for item in self._listed(row)]
            for item in items:
                self._check_names(item, row)
            values.append(items)
        return self._converted(values)

    def by_condition(self) -> pa.Array:
        """Booleans, null where the function gives None."""
        values = []
        for row in zip(*map(python_values, self.arguments)):
            value = self._called(row, dict(zip(self.function.parameters, row)))
            if value is not None and not isinstance(value, (bool, np.bool_)):
                raise self._wrong(f"gave {value!r} ({type_name(value)}); expected True, False or None", row)
            values.append(value)
        return pa.array(values, pa.bool_())

    def by_effect(self) -> pa.Array:
        """Nulls, whatever the function gives. The last argument tells a tombstone, and is shown of tombstones alone."""
        names = self.function.parameters
        for row in zip(*map(python_values, self.arguments)):
            seen = row if row[-1] else row[:-1]
            self._called(seen, dict(zip(names, seen)))
        return pa.nulls(self.count)

    def by_series(self) -> pa.Array:
        import pandas as pd

        found = self._called((), *map(_series, self.arguments))
        if isinstance(found, pd.DataFrame):
            return self._checked_length(self._from_frame(found))
        if not isinstance(found, pd.Series):
            raise self._wrong(f"gave a {type_name(found)}; expected a pandas Series")
        return self._checked_length(self._from_pandas(found, self.type))

    def by_array(self) -> pa.Array:
        return self._checked_length(self._from_arrow(self._called((), *self.arguments)))

    def by_batch(self) -> pa.Array:
        """Of a record batch, one of the same length with the declared columns."""
        found = self._table()
        if len(found) != self.count:
            raise self._wrong(f"gave {len(found)} rows for {self.count}; expected one a row, or map_batches() for any number")
        found = self._table_without_same(found)
        self._check_columns(found)
        return self._structs(found, self.type)

    def by_batches(self) -> pa.Array:
        """Of a record batch, lists of structs: one a row, or those that a column of row numbers says."""
        found = self._table()
        parents = self._parents(found)
        found = found.drop_columns([ROW_NUMBER]) if ROW_NUMBER in found.schema.names else found
        self._check_columns(found)
        order = np.argsort(parents, kind="stable")
        structs = self._structs(found, self.type.value_type).take(pa.array(order))
        offsets = np.searchsorted(parents[order], np.arange(self.count + 1))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs).cast(self.type)

    def _table(self) -> pa.Table:
        """What the function gives of all rows as a record batch."""
        batch = pa.RecordBatch.from_arrays(list(self.arguments), names=list(self.function.parameters))
        found = self._called((), batch)
        if isinstance(found, dict):
            try:
                found = pa.table(found)
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise self._wrong(f"gave a dict that is no table: {error}") from None
        if isinstance(found, pa.RecordBatch):
            found = pa.Table.from_batches([found])
        if not isinstance(found, pa.Table):
            raise self._wrong(f"gave a {type_name(found)}; expected a RecordBatch, a Table or a dict of arrays")
        return found

    def _parents(self, found: pa.Table) -> np.ndarray:
        """The number of the row that each row of the result comes from."""
        if ROW_NUMBER not in found.schema.names:
            if len(found) != self.count:
                raise self._wrong(
                    f"gave {len(found)} rows for {self.count}; expected one a row, or a column {ROW_NUMBER} that says of each row which row of "
                    "the batch it comes from, counted from 0"
                )
            return np.arange(self.count)
        numbers = found[ROW_NUMBER]
        if not pa.types.is_integer(numbers.type) or numbers.null_count:
            raise self._wrong(
                f"gave {ROW_NUMBER} as {numbers.type} with {numbers.null_count} nulls; expected the numbers of rows"
            )
        parents: np.ndarray = one_array(numbers).to_numpy().astype(np.int64)
        outside = parents[(parents < 0) | (parents >= self.count)]
        if len(outside):
            raise self._wrong(
                f"gave the {ROW_NUMBER} {outside[0]}, and the batch has {self.count} rows; expected 0 to {self.count - 1}"
            )
        return parents

    def _without_same(self, value: Any, row: Sequence[Any]) -> Any:
        """A dict without the columns that it may have again; EvaluationError if one is not as it was."""
        if not isinstance(value, dict) or not (again := [name for name in self.function.same if name in value]):
            return value
        for name in again:
            own, given = row[self.function.parameters.index(name)], value[name]
            if own != given and not (_is_nan(own) and _is_nan(given)):
                raise self._other_key(name, f" = {given!r}", row)
        return {name: one for name, one in value.items() if name not in again}

    def _table_without_same(self, found: pa.Table) -> pa.Table:
        """A table without the columns that it may have again; EvaluationError if one is not as it was."""
        again = [name for name in self.function.same if name in found.schema.names]
        for name in again:
            own = self.arguments[self.function.parameters.index(name)]
            if python_values(self._from_arrow(found.column(name), own.type)) != python_values(own):
                raise self._other_key(name, "", [python_values(one)[0] for one in self.arguments] if self.count == 1 else ())
        return found.drop_columns(again) if again else found

    def _other_key(self, name: str, value: str, row: Sequence[Any]) -> EvaluationError:
        return self._wrong(
            f"gave the key column {name}{value}, which is not as it was; expected it as it was or left out, or map(…), which may give another "
            "key",
            row,
        )

    def _check_columns(self, found: pa.Table) -> None:
        declared = self._declared()
        if sorted(found.schema.names) != sorted(declared):
            raise self._wrong(f"gave the columns {', '.join(found.schema.names)}; declared are {', '.join(declared)}")

    def _structs(self, found: pa.Table, type: pa.StructType) -> pa.Array:
        columns = [self._from_arrow(found.column(field.name), field.type) for field in type]
        return pa.StructArray.from_arrays(columns, fields=list(type))

    def _declared(self) -> list[str]:
        """The columns that the function gives."""
        return [name for name, _ in fields_of(element_of(self.function.type) or self.function.type) or () if name != DELETED]

    def _listed(self, row: Sequence[Any]) -> list[Any]:
        """What the function gives of a row, which is a list, or a generator."""
        found = self._called(row, dict(zip(self.function.parameters, row)))
        if isinstance(found, (list, tuple)):
            return list(found)
        if not isinstance(found, Iterator):
            raise self._wrong(f"gave {found!r}; expected a list of dicts of the columns {', '.join(self._declared())}", row)
        try:
            return list(found)
        except Exception as error:
            raise self._wrong(f"raised {type_name(error)}: {error}", row) from error

    def _called(self, row: Sequence[Any], *arguments: Any) -> Any:
        try:
            return self.function.call(*arguments)
        except Exception as error:
            raise self._wrong(f"raised {type_name(error)}: {error}", row) from error

    def _converted(self, values: list[Any]) -> pa.Array:
        """Python values as an array of the declared type."""
        try:
            return exact_array(values, self.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        for place, value in enumerate(values):
            try:
                exact_array([value], self.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                row = [python_values(argument.slice(place, 1))[0] for argument in self.arguments]
                raise self._wrong(self._misfit(value, error), row) from None
        raise self._wrong(f"gave values that together are no array of {self.function.type}")

    def _misfit(self, value: Any, error: Exception) -> str:
        """What of a value does not fit: a column of a dict, or of one in a list, where it is known; else all of it."""
        struct = self.type.value_type if pa.types.is_list(self.type) else self.type
        declared = dict(fields_of(element_of(self.function.type) or self.function.type) or ())
        for one in value if isinstance(value, list) else [value]:
            for name, found in one.items() if isinstance(one, dict) and pa.types.is_struct(struct) else ():
                try:
                    exact_array([found], struct.field(name).type)
                except (pa.ArrowException, TypeError, ValueError, OverflowError, KeyError) as inner:
                    if name in declared:
                        given = f"gave {name} = {found!r} ({type_name(found)}), and declared is {name} {declared[name]}"
                        return f"{given}{_reason(inner)}"
        return f"gave {value!r} ({type_name(value)}); declared is {self.function.type}{_reason(error)}"

    def _check_names(self, value: Any, row: Sequence[Any]) -> None:
        if value is None:  # a tombstone, where one is allowed
            return
        if not isinstance(value, dict):
            raise self._wrong(f"gave {value!r}; expected a dict of the columns {', '.join(self._declared())}", row)
        if not self.fields.issuperset(value):
            unknown = sorted(str(name) for name in value if name not in self.fields)
            raise self._wrong(f"gave the column {unknown[0]!r}; declared are {', '.join(self._declared())}", row)

    def _from_frame(self, frame: Any) -> pa.Array:
        """A DataFrame as structs, its columns by their names."""
        if not pa.types.is_struct(self.type):
            raise self._wrong(f"gave a DataFrame; declared is {self.function.type}, so expected a pandas Series")
        declared = [field.name for field in self.type]
        if sorted(map(str, frame.columns)) != sorted(declared):
            raise self._wrong(f"gave the columns {', '.join(map(str, frame.columns))}; declared are {', '.join(declared)}")
        columns = [self._from_pandas(frame[field.name], field.type) for field in self.type]
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def _from_pandas(self, series: Any, type: pa.DataType) -> pa.Array:
        try:
            return one_array(_from_pandas(series, type))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise self._wrong(f"gave values that are no {self.function.type}: {error}") from None

    def _from_arrow(self, found: Any, type: pa.DataType | None = None) -> pa.Array:
        if not isinstance(found, (pa.Array, pa.ChunkedArray)):
            raise self._wrong(f"gave a {type_name(found)}; expected an Arrow array")
        try:
            check_arrow(found, type or self.type)
            return in_type(one_array(found), type or self.type)
        except (pa.ArrowException, ValueError) as error:
            raise self._wrong(f"gave values that are no {self.function.type}: {error}") from None

    def _checked_length(self, found: pa.Array) -> pa.Array:
        if len(found) != self.count:
            raise self._wrong(f"gave {len(found)} values for {self.count} rows; expected one a row")
        return found

    def _wrong(self, what: str, row: Sequence[Any] = ()) -> EvaluationError:
        names = self.function.parameters or [shown_text(argument) for argument in self.expression.arguments]
        given = ", ".join(f"{name} = {value!r}" for name, value in zip(names, row))
        return EvaluationError(f"the function {self.function.name} {what}{f', called with {given}' if given else ''}")


def _series(array: pa.Array) -> Any:
    """
    A pandas Series whose dtype depends on the type alone, not on the nulls that a batch happens to have.

    Without this a null would turn the integers beside it into doubles, and results would depend on the cut into epochs.
    """
    import pandas as pd

    if pa.types.is_nested(array.type):
        return pd.Series(python_values(array), dtype=object)
    if pa.types.is_boolean(array.type):
        return array.to_pandas(types_mapper={array.type: pd.BooleanDtype()}.get)
    if pa.types.is_integer(array.type):
        return array.to_pandas(types_mapper={array.type: getattr(pd, f"Int{array.type.bit_width}Dtype")()}.get)
    series = array.to_pandas()
    return series if series.to_numpy().flags.writeable else series.copy()  # whether a function may write must not depend on nulls


def _reason(error: Exception) -> str:
    """What an error of ours adds; Arrow's own words, and a fraction, say no more than the value and its type."""
    is_own = type(error) is ValueError and str(error) != FRACTION
    return f": {error}" if is_own else ""


def exact_array(values: list[Any], type: pa.DataType) -> pa.Array:
    """
    The array of these values; ValueError for a fraction where the type wants an integer, which Arrow would cut off.

    Whole numbers for times are milliseconds since 1970. ValueError, too, for a field that a struct has not, and for a number beyond a float.
    """
    values = in_one_form(values, type)
    array = pa.array(with_counted_times(values, pa.list_(type)), type)
    if _has_fraction(values, pa.list_(type)):
        raise ValueError(FRACTION)
    return array


def _from_pandas(series: Any, type: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """A Series in a type; whole numbers for times are milliseconds since 1970, NaN is null."""
    if series.dtype == object and (
        pa.types.is_nested(type) or pa.types.is_float32(type) or pa.types.is_decimal(type)
    ):  # which Arrow would look through for one type
        series = _series_of(in_one_form([None if _is_nan(value) else value for value in series], type))
    elif pa.types.is_float32(type):
        check_arrow(one_array(pa.Array.from_pandas(series)), type)
    elif pa.types.is_decimal(type) and series.dtype.kind in "iu":  # whose bytes Arrow would take for decimals
        return recast(one_array(pa.Array.from_pandas(series)), type)
    if not has_times(type):
        return pa.Array.from_pandas(series, type=type)
    if series.dtype == object:
        return pa.Array.from_pandas(with_counted_times(list(series), pa.list_(type)), type=type)
    return in_type(one_array(pa.Array.from_pandas(series)), type)


def _series_of(values: list[Any]) -> Any:
    import pandas as pd

    return pd.Series(values, dtype=object)


def _has_fraction(value: Any, type: pa.DataType) -> bool:
    """Whether a value has a fraction somewhere where its type has an integer."""
    if value is None:
        return False
    if pa.types.is_integer(type):
        return isinstance(value, (float, np.floating, decimal.Decimal)) and (not math.isfinite(value) or int(value) != value)
    if pa.types.is_map(type):
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        return any(_has_fraction(key, type.key_type) or _has_fraction(item, type.item_type) for key, item in pairs)
    if pa.types.is_struct(type):
        if isinstance(value, tuple):
            return any(_has_fraction(part, field.type) for part, field in zip(value, type))
        named = dict(value)
        return any(_has_fraction(named.get(field.name), field.type) for field in type)
    if not pa.types.is_list(type) or not _has_integer(type.value_type):
        return False
    return not isinstance(value, (str, bytes)) and any(_has_fraction(item, type.value_type) for item in value)


def _has_integer(type: pa.DataType) -> bool:
    """Whether a type is an integer, or has one inside."""
    return pa.types.is_integer(type) or any(_has_integer(type.field(place).type) for place in range(type.num_fields))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value  # noqa: PLR0124  # what NaN alone is


_STYLES: dict[str, Callable[[_BatchCall], pa.Array]] = {
    ROW: _BatchCall.by_row,
    RECORD: _BatchCall.by_record,
    SERIES: _BatchCall.by_series,
    ARRAY: _BatchCall.by_array,
    RECORDS: _BatchCall.by_records,
    BATCH: _BatchCall.by_batch,
    BATCHES: _BatchCall.by_batches,
    EFFECT: _BatchCall.by_effect,
    CONDITION: _BatchCall.by_condition,
}


def known_functions(ids: Iterable[str]) -> dict[str, PythonFunction]:
    """The functions of these ids that this process knows."""
    return {name: PYTHON_FUNCTIONS[name] for name in sorted(ids) if name in PYTHON_FUNCTIONS}
