"""Sequences of dates and times: from one to another by a constant step of months, or of days and parts of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.civil_dates import civil_from_days, months_later
from streamkit.data_type import INTEGERS, array_of, element_of, to_arrow
from streamkit.expressions.core.coercion import DAY_INTERVALS, MONTH_INTERVALS, TIMES
from streamkit.expressions.core.elements import Elements, as_numbers, on_columns, validity
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation, NoTranslationError, always, counted, function, operation
from streamkit.expressions.core.sizes import check_elements
from streamkit.expressions.logic.conditions import as_common_type
from streamkit.expressions.times.intervals import DAY_MICROS, moved_by_months
from streamkit.plan.expression import TypedExpression
from streamkit.zone_offsets import BEYOND

_UNITS = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}


@function("sequence")
def _sequence_rule(call: Invocation) -> TypedExpression | None:
    """Dates and times, by a day if no step is given; None of numbers."""
    values = counted(call, 2, 3)
    if all(value.type in (*INTEGERS, "void") for value in values):
        return None
    if not all(value.type in (*TIMES, "void") for value in values[:2]):
        raise NoTranslationError(f"a sequence of {call.types[0]} has no translation; expected whole numbers, dates or times")
    start, stop = as_common_type(call, values[:2])
    if len(values) == 2:
        _check_zone(call, start.type, DAY_MICROS)
        return TypedExpression("day_sequence", array_of(start.type), (start, stop))
    return _with_step(call, start, stop, values[2])


def _with_step(call: Invocation, start: TypedExpression, stop: TypedExpression, step: TypedExpression) -> TypedExpression:
    if step.name != "literal" or step.value is None or step.type not in (*DAY_INTERVALS, *MONTH_INTERVALS):
        raise NoTranslationError("the step of a sequence of dates must be a constant interval, such as INTERVAL 1 DAY")
    if not step.value:
        raise NoTranslationError("the step of a sequence of dates is zero, which gets nowhere")
    arguments = (start, stop, literal(step.value, "bigint"))
    if step.type in MONTH_INTERVALS:
        _check_zone(call, start.type, DAY_MICROS)
        return TypedExpression("month_sequence", array_of(start.type), arguments)
    if start.type == "date" and step.value % DAY_MICROS:
        raise NoTranslationError(
            f"a sequence of dates has no translation with the step of {step.value} microseconds; expected whole days"
        )
    _check_zone(call, start.type, step.value)
    return TypedExpression("day_sequence", array_of(start.type), arguments)


def _check_zone(call: Invocation, type: str, micros: int) -> None:
    """Days of a zone are not all as long."""
    if type == "timestamp" and call.zone != "UTC" and abs(micros) >= DAY_MICROS:
        raise NoTranslationError(
            f"a sequence of timestamps by days or months in {call.zone} has no translation; use dates or timestamp_ntz"
        )


@operation("day_sequence", fails=always, holds_null=False)
@on_columns
def _day_sequence(expression: TypedExpression, start: pa.Array, stop: pa.Array, step: pa.Array | None = None) -> pa.Array:
    """By days and parts of them; by a day, forwards or backwards, if there is no step."""
    type = str(element_of(expression.type))
    first, last = _numbers(start, type), _numbers(stop, type)
    day = 1 if type == "date" else DAY_MICROS
    by = np.where(first <= last, day, -day) if step is None else as_numbers(step) // (DAY_MICROS // day)
    valid = validity(start) & validity(stop)
    _check_direction(first, last, by, valid)
    if (np.abs(last / 2 - first / 2) >= 2.0**62).any():
        raise pa.ArrowInvalid(BEYOND)
    shape = _shape(np.abs(last - first) // np.maximum(np.abs(by), 1) + 1, valid)
    return _filled(shape, first[shape.parents] + _places(shape) * by[shape.parents], type)


@operation("month_sequence", fails=always, holds_null=False)
@on_columns
def _month_sequence(expression: TypedExpression, start: pa.Array, stop: pa.Array, step: pa.Array) -> pa.Array:
    """By months, each counted from the start, so that the 31st comes again after a shorter month."""
    type = str(element_of(expression.type))
    first, last, by = _numbers(start, type), _numbers(stop, type), as_numbers(step)
    valid = validity(start) & validity(stop)
    _check_direction(first, last, by, valid)
    steps = np.abs(_months_of(last, type) - _months_of(first, type)) // np.maximum(np.abs(by), 1)
    over = _later(first, steps * by, type)
    beyond = np.where(by > 0, over > last, over < last)
    shape = _shape(steps - beyond + 1, valid)
    return _filled(shape, _later(first[shape.parents], _places(shape) * by[shape.parents], type), type)


def _numbers(values: pa.Array, type: str) -> np.ndarray:
    """Days or microseconds since 1970."""
    return as_numbers(values.cast(_UNITS[type]))


def _months_of(moments: np.ndarray, type: str) -> np.ndarray:
    year, month, _ = civil_from_days(moments if type == "date" else moments // DAY_MICROS)
    return np.asarray(year * 12 + month)


def _later(moments: np.ndarray, months: np.ndarray, type: str) -> np.ndarray:
    if type == "date":
        return months_later(moments, months)
    return moved_by_months(moments, months)


def _check_direction(first: np.ndarray, last: np.ndarray, by: np.ndarray, valid: np.ndarray) -> None:
    wrong = valid & np.where(by == 0, first != last, (by > 0) & (first > last) | (by < 0) & (first < last))
    if wrong.any():
        raise pa.ArrowInvalid("a sequence has a step that never gets from its start to its end")


def _shape(lengths: np.ndarray, valid: np.ndarray) -> Elements:
    found = np.where(valid, lengths, 0)
    check_elements(found)
    return Elements(pa.nulls(0), found, valid)


def _places(shape: Elements) -> np.ndarray:
    """The place of each element in its row, from 0."""
    return np.asarray(np.arange(shape.lengths.sum()) - shape.starts[shape.parents])


def _filled(shape: Elements, moments: np.ndarray, type: str) -> pa.Array:
    return shape.with_values(pa.array(moments).cast(_UNITS[type]).cast(to_arrow(type))).as_arrays()
