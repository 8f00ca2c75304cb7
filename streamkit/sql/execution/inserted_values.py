"""The constants of VALUES in the types of their columns: all of one shape at once, any other one by one."""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.data_type import FLOATS, INTEGERS, atomic_types, decimal_of, element_of, entry_of, fields_of, is_nested
from streamkit.errors import EvaluationError, TopologyError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.analysis.refused_functions import OF_CONTEXT
from streamkit.expressions.core.failing_rows import noted_failures
from streamkit.expressions.ksql.casts import base64_bytes
from streamkit.expressions.ksql.signature import NUMBERS, is_number, kind_of, ksql_type, nearest_type
from streamkit.formats.conform import conformed
from streamkit.names import TIMESTAMP
from streamkit.plan.expression import Call, Cast, Expression, Literal, Reference
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.execution.constant_shapes import ConstantBatch, Shape, shape_of
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.unsaid_unit import advice_on_unit
from streamkit.sql.ksql.expressions import MeaninglessExpressionError, ksql_result_type
from streamkit.sql.lowering.expression_parts import below, calls, is_aggregate, references
from streamkit.sql.lowering.other_names import advice_on_name
from streamkit.sql.lowering.scope import ROW_TIMES
from streamkit.sql.pull.one_row import COLUMN, TYPE, one_row
from streamkit.sql.tree.span import Written

WRITTEN = {
    "array": "ARRAY('x', 'y')",
    "map": "MAP('x', 1, 'y', 2)",
    "struct": "NAMED_STRUCT('x', 1, 'y', 2)",
}  # constants, as in Spark
OF_NOW = ("now", "current_timestamp", "localtimestamp", "current_date", "curdate", "current_time")
FORMS_OF_TIMES = {"timestamp": "'2026-01-31T12:00:00'", "date": "'2026-01-31'", "time": "'12:00:00'"}  # in the ksql dialect
ONE_ROW = {COLUMN: TYPE}  # in which a constant is computed alone


@dataclass(frozen=True)
class InsertedValues:
    """Values in the types of their columns, by the dialect of a script."""

    state: ScriptState

    def columns(self, types: Mapping[str, str], rows: Sequence[Sequence[Written]]) -> dict[str, pa.Array]:
        """The columns of rows, by name; TopologyError for the first value that does not fit."""
        found = {}
        for place, (name, type) in enumerate(types.items()):
            column = self._column([row[place] for row in rows], type, name)
            if column is None:
                return self.columns_one_by_one(types, rows)
            found[name] = column
        return found

    def columns_one_by_one(self, types: Mapping[str, str], rows: Sequence[Sequence[Written]]) -> dict[str, pa.Array]:
        """As `columns`, each value by its own expression, in the order in which they are written."""
        arrays: dict[str, list[pa.Array]] = {name: [] for name in types}
        for row in rows:
            for (name, type), written in zip(types.items(), row, strict=True):
                arrays[name].append(self.value(written, type, name))
        return {name: pa.concat_arrays(values) for name, values in arrays.items()}

    def _column(self, column: Sequence[Written], type: str, name: str) -> pa.Array | None:
        """A column, whose values are computed together where they have one shape; None if one does not fit, which `value` then tells."""
        groups: dict[Shape | None, list[int]] = {}
        for number, written in enumerate(column):
            groups.setdefault(shape_of(written.expression), []).append(number)
        arrays = list[pa.Array]()
        try:
            for shape, numbers in groups.items():
                if shape is None or len(numbers) == 1:
                    arrays += [self.value(column[number], type, name) for number in numbers]
                    continue
                arrays.append(self._together([column[number] for number in numbers], type, name))
        except TopologyError:
            return None
        if len(arrays) == 1:
            return arrays[0]
        order = np.argsort(np.concatenate([np.array(numbers) for numbers in groups.values()]))
        return pa.concat_arrays(arrays).take(pa.array(order))

    def _together(self, same: Sequence[Written], type: str, name: str) -> pa.Array:
        """Values of one shape; TopologyError if one does not fit, at the place of the first."""
        batch = ConstantBatch.of([one.expression for one in same])
        return self._computed(batch, same[0], type, name)

    def value(self, written: Written, type: str, name: str) -> pa.Array:
        """A value in the type of its column; TopologyError for one that does not fit."""
        self.state.text.places.put_written(written)
        self._check_lasts(written, name)
        for column in references(written.expression):
            hint = self.state.text.quoting_hint(column) or advice_on_name(column.name)
            raise self.state.error(f"{name}: a value is a constant, and this has the column {column.name!r}{hint}", written.span)
        for call in calls(written.expression, is_aggregate):
            raise self.state.error(f"{name}: a value is a constant, and this has the aggregate {call.function}", written.span)
        return self._computed(ConstantBatch(written.expression, ONE_ROW, one_row()), written, type, name)

    def _check_lasts(self, written: Written, name: str) -> None:
        """TopologyError for what has another value each time, such as the time of now."""
        for part in below(written.expression):
            called = part.function if isinstance(part, Call) else part.name if isinstance(part, Reference) else ""
            if called.lower() in OF_CONTEXT:
                is_ksql = self.state.settings.script.meaning.names_results
                given, event_time = (
                    ("'2026-01-31T12:00:00'", ROW_TIMES) if is_ksql else ("TIMESTAMP '2026-01-31 12:00:00'", TIMESTAMP)
                )
                time = (
                    f"; write the time out, as in {given}; a row that names no {event_time} has the event time of now"
                    if called.lower() in OF_NOW
                    else ""
                )
                raise self.state.error(
                    f"{name}: a value is a constant, and {called.lower()} is another one each time{time}", written.span
                )

    def _computed(self, batch: ConstantBatch, written: Written, type: str, name: str) -> pa.Array:
        script = self.state.settings.script
        if script.meaning.names_results:
            return self._computed_by_ksql(batch, written, type, name)
        at, analyzer, schema = self.state.text.at(written.span), ExpressionAnalyzer(script.time_zone), _schema(batch.types)
        wanted: Expression = Cast(script.meaning.expression(batch.expression, {}), type)
        ((_, plain),) = analyzer.project(schema, [(name, batch.expression)], at)
        has_fraction = plain.type in FLOATS or decimal_of(plain.type) is not None
        if name == TIMESTAMP and has_fraction:  # a cast would read seconds, and wrap what is too large
            raise self.state.error(
                f"{name} is a time, or whole milliseconds of BIGINT, and the value {plain.type}; expected one of these",
                written.span,
            )
        if name == TIMESTAMP and plain.type in INTEGERS:
            wanted = Cast(Call("timestamp_millis", (batch.expression,)), type)
        if is_nested(type) and not is_nested(plain.type) and plain.type != "void":
            raise self.state.error(
                f"{name} is {type}, and the value {plain.type}; expected {WRITTEN[type.partition('<')[0]]}", written.span
            )
        if name != TIMESTAMP and (advice := advice_on_unit(plain.type, type)):
            raise self.state.error(f"{name} is {type}, and the value {plain.type}; expected {advice}", written.span)
        ((_, typed),) = analyzer.project(schema, [(name, wanted)], at)
        try:
            found = evaluate(typed, batch.rows)
            given = evaluate(plain, batch.rows) if _may_cut(plain.type, type) else found
        except EvaluationError as error:
            raise self.state.error(f"{name}: {error}", written.span) from None
        self._check_kept(given, found, type, name, written)
        return found

    def _check_kept(self, given: pa.Array, found: pa.Array, type: str, name: str, written: Written) -> None:
        """TopologyError for a number that has lost digits in the type of its column."""
        if given is not found and any(map(_is_cut, given.to_pylist(), found.to_pylist())):
            raise self.state.error(
                f"{name} is {type}, which does not keep all digits of the value; expected a value that it keeps, or a CAST",
                written.span,
            )

    def _computed_by_ksql(self, batch: ConstantBatch, written: Written, type: str, name: str) -> pa.Array:
        """Values of the ksql dialect in the type of their column: bytes from base 64, times from ISO texts and milliseconds."""
        if (near := nearest_type(type)) != type:
            found = self._computed_by_ksql(batch, written, near, name)
            try:
                return conformed(found, SchemaColumn(name, type).arrow.type, (name,), None)
            except pa.ArrowInvalid as error:
                raise self.state.error(
                    f"{name} is {ksql_type(type)}, which does not hold the value: {error}", written.span
                ) from None
        script = self.state.settings.script
        self._check_widens(written, type, name)
        given: Expression = Cast(batch.expression, "bigint" if name == TIMESTAMP else type)
        if type == "binary" and isinstance(written.expression, Literal) and isinstance(text := written.expression.value, str):
            given = Call("to_bytes", (batch.expression, Literal("base64")))
            try:
                base64_bytes(text)
            except ValueError:
                raise self.state.error(
                    f"{name} is BYTES, and {text!r} is no base 64; expected bytes as base 64, as in 'AQID', or TO_BYTES('…', 'utf8')",
                    written.span,
                ) from None
        try:
            wanted = script.meaning.expression(given, batch.types)
        except MeaninglessExpressionError as error:
            raise self.state.error(f"{name}: {error.message}", written.span) from None
        wanted = Call("timestamp_millis", (wanted,)) if name == TIMESTAMP else wanted
        at, analyzer = self.state.text.in_dialect(is_ksql=True).at(written.span), ExpressionAnalyzer(script.time_zone)
        shown = ROW_TIMES if name == TIMESTAMP else name
        with noted_failures() as failures:  # constants are computed while they are typed
            ((_, typed),) = analyzer.project(_schema(batch.types), [(name, wanted)], at)
            try:
                found = given_values = evaluate(typed, batch.rows)
                if any(map(decimal_of, atomic_types(type))):
                    plain_value = script.meaning.expression(batch.expression, batch.types)
                    ((_, plain),) = analyzer.project(_schema(batch.types), [(name, plain_value)], at)
                    given_values = evaluate(plain, batch.rows)
            except EvaluationError as error:
                raise self.state.error(f"{shown}: {error}", written.span) from None
        if failures:  # what is null without one is null as it is written
            form = f"; expected a text such as {FORMS_OF_TIMES[type]}" if name != TIMESTAMP and type in FORMS_OF_TIMES else ""
            raise self.state.error(f"{shown}: {failures[0].reason}{form}", written.span)
        self._check_kept(given_values, found, ksql_type(type), name, written)
        return found

    def _check_widens(self, written: Written, type: str, name: str) -> None:
        """TopologyError for a value of a type that does not become that of its column, as in ksqlDB, also within an array, a map or a struct."""
        try:
            given = ksql_result_type(written.expression, {})
        except TopologyError:
            return  # what is wrong is told where the value is made
        if name != TIMESTAMP and not _becomes(given, type):
            raise self.state.error(
                f"{name} is {ksql_type(type)}, and the value {ksql_type(given)}; expected one that becomes it, or a CAST",
                written.span,
            )


def _becomes(given: str, type: str) -> bool:
    """Whether ksqlDB makes values of a type those of the other without a CAST: numbers widen, and texts are read as times and as bytes."""
    if given in ("void", type):
        return True
    if is_number(given) and is_number(type):
        return NUMBERS.index(kind_of(given)) <= NUMBERS.index(kind_of(type))
    if given == "string":
        return type in ("date", "time", "timestamp", "binary")
    if (one := element_of(given)) and (other := element_of(type)):
        return _becomes(one, other)
    if (entry := entry_of(given)) and (wanted := entry_of(type)):
        return all(map(_becomes, entry, wanted))
    mine, theirs = dict(fields_of(given) or ()), dict(fields_of(type) or ())
    return bool(mine and theirs) and all(_becomes(mine[name], inner) for name, inner in theirs.items() if name in mine)


def _may_cut(given: str, type: str) -> bool:
    """Whether a cast may leave out digits: of numbers with fractions to such as have none, or only so many."""
    of_given, of_type = atomic_types(given), atomic_types(type)
    has_fractions = any(one == "double" or one.startswith("decimal") for one in of_given)
    return has_fractions and any(one in INTEGERS or one.startswith("decimal") for one in of_type)


def _is_cut(given: Any, found: Any) -> bool:
    """Whether a value, or one in it, is another number than it was given as; a double is what its nearest decimal says."""
    if isinstance(given, dict):
        return any(map(_is_cut, given.values(), found.values()))
    if isinstance(given, list | tuple):
        return any(map(_is_cut, given, found))
    if isinstance(given, float) and isinstance(found, int | decimal.Decimal):
        return float(found) != given
    return isinstance(given, decimal.Decimal) and isinstance(found, int | decimal.Decimal) and found != given


def _schema(types: Mapping[str, str]) -> Schema:
    return Schema(tuple(SchemaColumn(name, type) for name, type in types.items()))
