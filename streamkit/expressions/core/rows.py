"""The rows an expression is evaluated on: all of a batch, or those that a condition lets through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import check_sound, is_overflow, is_text, too_large
from streamkit.data_type import to_arrow
from streamkit.errors import ColumnTooLargeError, EvaluationError
from streamkit.expressions.core.failing_rows import FailedPart, FailingRowsError
from streamkit.expressions.core.literals import to_scalar
from streamkit.expressions.core.operation import OPERATIONS, Datum, Operation, can_fail, columns_of
from streamkit.expressions.core.sizes import (
    TooLargeError,
    TooLargeTogetherError,
    check_growth,
    check_spread,
    check_value,
    repeated,
)
from streamkit.names import HEADERS
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text, typed_text
from streamkit.recast import recast

FAILURES = (pa.ArrowInvalid, pa.ArrowCapacityError, MemoryError)  # of a row, and of values that are too long together


class Rows:
    """
    A batch, or the part of another that a mask selects; columns are decoded, and repeated parts computed, once.

    `is_careful`: any operation may fail, as each can that makes too much, and is computed for no row that Spark would skip.
    `first` is the number of the first row, if the batch is a part of another.
    Errors: `value` raises EvaluationError for the first row on which Spark would fail under ANSI rules, and ColumnTooLargeError where
    rows are too long together.
    """

    def __init__(
        self,
        source: pa.RecordBatch | Rows,
        count: int,
        mask: pa.BooleanArray | None = None,
        is_careful: bool = False,
        first: int = 0,
    ) -> None:
        self.count = count
        self.is_careful = is_careful
        self.first = first
        self._source = source
        self._mask = mask
        self._columns: dict[str, pa.Array] = {}
        self._repeated: set[TypedExpression] = set()
        self._shared: dict[TypedExpression, Datum] = {}
        self._entries: dict[str, Rows] = {}

    @classmethod
    def of(cls, batch: pa.RecordBatch, is_careful: bool = False, first: int = 0) -> Rows:
        return cls(batch, batch.num_rows, is_careful=is_careful, first=first)

    def where(self, mask: pa.BooleanArray) -> Rows:
        """The rows where the mask is true; it has no nulls."""
        found = Rows(self, mask.true_count, mask, self.is_careful)
        found._repeated = self._repeated
        return found

    def within(self, parents: np.ndarray, columns: Mapping[str, pa.Array]) -> Rows:
        """Rows of their own columns, each of which also sees the columns of one of these rows: the one whose number `parents` gives."""
        return _InnerRows(self, parents, columns)

    def places_in(self, ancestor: Rows | None = None) -> np.ndarray | None:
        """Which row of rows that these come from each of them belongs to, without an argument of the whole batch; None if they come from others."""
        if self is ancestor or (ancestor is None and self._parent is None):
            return np.arange(self.count) + (self.first if ancestor is None else 0)
        outer = None if self._parent is None else self._parent.places_in(ancestor)
        return None if outer is None else self._chosen(outer)

    @property
    def _parent(self) -> Rows | None:
        """The rows from which these were chosen."""
        return self._source if isinstance(self._source, Rows) else None

    def _chosen(self, values: np.ndarray) -> np.ndarray:
        """Of a value for each row of the parent those of these rows."""
        return np.asarray(values[np.asarray(self._mask)])

    def encoded(self, name: str) -> pa.Array:
        """A column as it came, which may be dictionary-encoded."""
        if isinstance(self._source, Rows):
            return self._source.encoded(name).filter(self._mask)
        if name == HEADERS and name not in self._source.schema.names:  # a batch in which no record has any
            return pa.nulls(self.count)
        return self._source.column(name)

    def column(self, name: str, type: str) -> pa.Array:
        """A column as a plain array of its Spark type."""
        if name not in self._columns:
            self._columns[name] = plain(self.encoded(name), to_arrow(type))
        return self._columns[name]

    def value(self, expression: TypedExpression) -> Datum:
        """What the expression is, row by row; a scalar if it is the same for every row."""
        if expression.name == "column":
            return self.column(expression.value, expression.type)
        if expression.name == "literal":
            return to_scalar(expression.value, expression.type)
        if not self.count:  # a part without columns is the same for every row, but where there is none it does not fail either
            return pa.array([], to_arrow(expression.type))
        if (known := self._known(expression)) is not None:
            return known
        found = self._by_dictionary(expression) or self._by_row(expression)
        if self._repeated and expression in self._repeated:
            self._shared[expression] = found
        return found

    def _known(self, expression: TypedExpression) -> Datum | None:
        """The value of a repeated part that was computed before, for these rows, or for the rows from which they were chosen."""
        if self._shared and (own := self._shared.get(expression)) is not None:
            return own
        if not isinstance(self._source, Rows) or (known := self._source._known(expression)) is None:
            return None
        return known if isinstance(known, pa.Scalar) else known.filter(self._mask)

    def value_where(self, expression: TypedExpression, mask: pa.BooleanArray) -> Datum:
        """As `value`, but if a row could raise, only rows where the mask is true are computed; the others hold anything."""
        if not self.can_fail(expression) or mask.true_count == self.count:
            return self.value(expression)
        if not mask.true_count:
            return pa.scalar(None, to_arrow(expression.type))
        value = self.where(mask).value(expression)
        return value if isinstance(value, pa.Scalar) else scatter(value, mask)

    def can_fail(self, expression: TypedExpression) -> bool:
        """Whether some row could make the expression raise."""
        return self.is_careful or can_fail(expression)

    def share(self, expression: TypedExpression) -> None:
        """Compute the repeated parts of an expression once, when one is asked for."""
        self._repeated.update(part for part in _repeated(expression) if not self.can_fail(part))

    def _by_row(self, expression: TypedExpression) -> Datum:
        operation = OPERATIONS[expression.name]
        if operation.once:
            self._shared[expression] = self._of_rows(operation, expression)
            return self._shared[expression]
        if operation.lazy:
            return self._of_rows(operation, expression)
        arguments = self._arguments(expression, operation)
        if arguments is None:
            return pa.scalar(None, to_arrow(expression.type))
        try:
            return _computed(operation, expression, arguments, self.count)
        except TooLargeTogetherError as error:
            raise too_large(error, shown_text(expression), self.count) from error
        except FailingRowsError as error:
            failed = _of_all(error.rows, self.count)
            error.part = FailedPart(self, failed)
            raise _failure(expression, arguments, int(np.argmax(failed)), str(error)) from error
        except FAILURES as error:
            raise _together_too_large(operation, expression, arguments, self.count, error) or _failure(
                expression, arguments, _first_failure(operation, expression, arguments, self.count), str(error)
            ) from error

    def _of_rows(self, operation: Operation, expression: TypedExpression) -> Datum:
        """The value of an operation that looks at the rows itself."""
        try:
            return _typed(operation.compute(expression, self), expression)
        except FAILURES as error:
            if is_overflow(error):
                raise too_large(error, shown_text(expression), self.count) from error
            if isinstance(error, TooLargeError):
                raise EvaluationError(f"{shown_text(expression)} failed: {error}", expression=typed_text(expression)) from error
            raise
        except EvaluationError as error:
            error.expression = error.expression or typed_text(expression)  # a user's function does not know where it is called
            raise

    def _by_dictionary(self, expression: TypedExpression) -> Datum | None:
        """Compute on the dictionary of the one column the expression reads, where that is less work."""
        names = columns_of(expression)
        if len(names) != 1 or self.can_fail(expression):
            return None
        encoded = self.encoded(*names)
        if not pa.types.is_dictionary(encoded.type) or 2 * len(encoded.dictionary) > self.count:
            return None
        (name,) = names
        if name not in self._entries:
            values = pa.concat_arrays([encoded.dictionary, pa.nulls(1, encoded.dictionary.type)])
            self._entries[name] = Rows.of(pa.record_batch([values], names=[name]))
        entries = self._entries[name]
        entries.share(expression)
        computed = entries.value(expression)
        if isinstance(computed, pa.Scalar):
            return computed
        return computed.take(encoded.indices.fill_null(entries.count - 1) if encoded.null_count else encoded.indices)

    def arguments_of(self, expression: TypedExpression) -> list[Datum] | None:
        """The values of an operation's arguments, in Spark's order of evaluation; None if one is null for every row and so the result."""
        return self._arguments(expression, OPERATIONS[expression.name])

    def _arguments(self, expression: TypedExpression, operation: Operation) -> list[Datum] | None:
        if operation.looks_in_order:
            return self._in_order(expression, operation.looks_in_order)
        if operation.strict and operation.looks_at_all(expression):
            found = list(map(self.value, expression.arguments))
            return None if any(isinstance(one, pa.Scalar) and not one.is_valid for one in found) else found
        order = -1 if operation.right_first else 1
        values: list[Datum] = []
        for argument in expression.arguments[::order]:
            value = self._argument(argument, values) if operation.strict else self.value(argument)
            if operation.strict and isinstance(value, pa.Scalar) and not value.is_valid:
                return None
            values.append(value)
        return values[::order]

    def _in_order(self, expression: TypedExpression, order: Sequence[int]) -> list[Datum]:
        """The values of all arguments, each looked at where none before it in the order is null."""
        found: dict[int, Datum] = {}
        for place in order:
            found[place] = self._argument(expression.arguments[place], list(found.values()))
        return [found[place] for place in sorted(found)]

    def _argument(self, argument: TypedExpression, before: list[Datum]) -> Datum:
        """Spark does not look at an argument once an earlier one is null."""
        if any(isinstance(value, pa.Scalar) and not value.is_valid for value in before):
            return pa.scalar(None, to_arrow(argument.type))
        nullable = [value for value in before if isinstance(value, pa.Array) and value.null_count]
        if not nullable or not self.can_fail(argument):
            return self.value(argument)
        mask = nullable[0].is_valid()
        for value in nullable[1:]:
            mask = pc.and_(mask, value.is_valid())
        return self.value_where(argument, mask)


class _InnerRows(Rows):
    """The elements that lambdas are evaluated on."""

    def __init__(self, outer: Rows, parents: np.ndarray, columns: Mapping[str, pa.Array]) -> None:
        super().__init__(pa.record_batch({}), len(parents), is_careful=outer.is_careful)
        self._outer = outer
        self._parents = pa.array(parents)
        self._own = columns

    @property
    def _parent(self) -> Rows:
        return self._outer

    def _chosen(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values[np.asarray(self._parents)])

    def encoded(self, name: str) -> pa.Array:
        if name in self._own:
            return self._own[name]
        values = self._outer.encoded(name)
        check_spread(values, self._parents)
        return values.take(self._parents)


def plain(array: pa.Array, type: pa.DataType) -> pa.Array:
    """The array without dictionary, as an array of `type`."""
    decoded = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    return recast(decoded, type)


def scatter(values: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    """The values at the places where the mask is true, null elsewhere."""
    places = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), pa.scalar(1))
    return values.take(pc.if_else(mask, places, pa.scalar(None, pa.int64())))


def broadcast(value: Datum, count: int) -> pa.Array:
    """An array of `count` rows."""
    if isinstance(value, pa.Array):
        return value
    return repeated(value, count) if count else pa.array([], value.type)  # no array has no rows of arrays, says Arrow


def _typed(value: Datum, expression: TypedExpression) -> Datum:
    type = to_arrow(expression.type)
    if isinstance(value, pa.Scalar):
        return recast(repeated(value, 1), type)[0] if value.type != type else value
    found = recast(value, type)
    return check_value(check_sound(found, shown_text(expression)) if is_text(type) else found)


def _computed(operation: Operation, expression: TypedExpression, arguments: list[Datum], count: int) -> Datum:
    """The result in each row; an error, and no result that has no room, where it would be too large."""
    check_growth(expression, arguments, count)
    return _typed(operation.compute(expression, *arguments), expression)


def _together_too_large(
    operation: Operation, expression: TypedExpression, arguments: list[Datum], count: int, error: Exception
) -> ColumnTooLargeError | None:
    """The error for texts that are too long together, though each row alone can be computed; else None."""
    if count == 1 or not is_overflow(error):
        return None
    row = _first_failure(operation, expression, arguments, count)
    alone = [value.slice(row, 1) if isinstance(value, pa.Array) else value for value in arguments]
    try:
        _computed(operation, expression, alone, 1)
    except FAILURES:
        return None
    return too_large(error, shown_text(expression), count)


def _of_all(rows: pa.BooleanArray, count: int) -> np.ndarray:
    """Which of the rows fail, where one alone stands for all."""
    failed = np.asarray(rows)
    return np.repeat(failed, count) if len(failed) == 1 else failed


def _failure(expression: TypedExpression, arguments: list[Datum], row: int, reason: str) -> EvaluationError:
    """Name the expression and the first row that makes it fail."""
    found = [
        f"{shown_text(argument)} = {_cell(value, row)!r}"
        for argument, value in zip(expression.arguments, arguments)
        if argument.name != "literal"
    ]
    given = f" with {', '.join(found)}" if found else ""
    return EvaluationError(f"{shown_text(expression)} failed{given}: {reason}", expression=typed_text(expression))


def _first_failure(operation: Operation, expression: TypedExpression, arguments: list[Datum], count: int) -> int:
    """Bisect: the longest prefix that can be computed ends before the row that fails."""
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        part = [value.slice(good, middle - good) if isinstance(value, pa.Array) else value for value in arguments]
        try:
            _computed(operation, expression, part, middle - good)
            good = middle
        except FAILURES:
            bad = middle
    return good


def _cell(value: Datum, row: int) -> object:
    cell = value[row] if isinstance(value, pa.Array) else value
    try:
        return cell.as_py()
    except (ValueError, OverflowError):  # a date or timestamp beyond Python's years
        return f"{cell.cast(pa.int32() if pa.types.is_date32(cell.type) else pa.int64()).as_py()} since 1970"


@lru_cache(maxsize=1024)
def _repeated(expression: TypedExpression) -> tuple[TypedExpression, ...]:
    """The parts that occur more than once, inner ones first."""
    seen: Counter[TypedExpression] = Counter()
    order: list[TypedExpression] = []

    def visit(part: TypedExpression) -> None:
        if part.name == "lambda":  # it is computed on other rows
            return
        for argument in part.arguments:
            visit(argument)
        if part.arguments:
            seen[part] += 1
            order.append(part)

    visit(expression)
    return tuple(dict.fromkeys(part for part in order if seen[part] > 1))
