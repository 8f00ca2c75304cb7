"""Decimals are what they are whatever the thread's own context says of digits, rounding and signals, which is the user's."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamkit.errors import StreamKitError
from streamkit.expressions.aggregates import fold, lift, result_or_null
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.core.failing_rows import noted_failures
from streamkit.expressions.python.python_functions import exact_array
from streamkit.formats.codec import Codec, declare_format, schema_made_of
from streamkit.plan.duration import signed_duration_ms
from streamkit.plan.expression import Call, Expression, Literal, Reference, SqlText
from streamkit.query.predicate import parse_predicate
from streamkit.schema import Schema
from streamkit.sql.ksql.expressions import ksql_expression
from tests.unit.expressions.parity.cells import cells, in_arrow
from tests.unit.expressions.parity.random_decimals import (
    OF_ONE,
    OF_SHORT,
    OF_TWO,
    random_decimals,
    random_expressions_of_decimals,
    random_type,
)
from tests.unit.sql.ksql.cases import cases_of
from tests.unit.sql.ksql.reading import read
from tests.unit.sql.ksql.test_cases import evaluated

SIGNALS = [
    decimal.Clamped, decimal.Inexact, decimal.Rounded, decimal.Subnormal, decimal.FloatOperation, decimal.InvalidOperation,
    decimal.DivisionByZero, decimal.Overflow, decimal.Underflow,
]  # fmt: skip
ROOMY = decimal.Context(prec=900)
CONTEXTS = {
    "four digits": decimal.Context(prec=4),
    "as Python has it": decimal.Context(prec=28),
    "every signal": decimal.Context(prec=4, rounding=decimal.ROUND_UP, traps=SIGNALS),
    "no signal": decimal.Context(prec=1, rounding=decimal.ROUND_UP, Emin=-9, Emax=9, traps=[]),
}
OF_KSQL = (
    "CAST(CAST({a} AS STRING) AS DECIMAL({p}, {s}))", "CAST({a} AS DECIMAL({p}, {s}))", "CAST(CAST({a} AS DOUBLE) AS DECIMAL({p}, {s}))",
    "CAST({a} AS DOUBLE)", "CAST(CAST({a} AS DOUBLE) AS STRING)", "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} % {b}",
    "-{a}", "{a} < {b}", "{a} = {b}", "{a} IN ({b}, {a})", "ABS({a})", "ROUND({a})", "ROUND({a}, 2)", "TRUNC({a})", "TRUNC({a}, 2)",
    "CEIL({a})", "FLOOR({a})", "ROUND(CAST({a} AS DOUBLE), 3)", "TRUNC(CAST({a} AS DOUBLE), 1)", "GREATEST({a}, {b})", "SIGN({a})",
    "TO_JSON_STRING(ARRAY[{a}])", "CAST({a} AS STRING)", "ARRAY_MAX(ARRAY[{a}, {b}])", "ARRAY_SORT(ARRAY[{a}, {b}])",
    "JSON_ITEMS('[12345.678e3, ' + CAST({a} AS STRING) + ']')", "EXTRACTJSONFIELD('[12345.678e33]', '$[0]') + CAST({a} AS STRING)",
)  # fmt: skip
OF_SPARK = (
    "to_char({a}, '999999999999999999999999999D999999999999')", "format_string('%.3e %,.2f %f', CAST({a} AS DOUBLE), 1e9D, 12345.678D)",
    "TRY_CAST(concat(CAST({a} AS STRING), 'e-1') AS DECIMAL(38,10))", "round(CAST({a} AS DOUBLE), -3)", "round(CAST({a} AS DOUBLE), 20)",
    "from_json(concat('{{\"x\":', CAST({a} AS STRING), '}}'), 'x DECIMAL(38,5)')", "{a} > 123456.5", "CAST({a} AS DOUBLE) > 123456.5",
    "try_to_number('123,456.78', '999,999.99')", "format_number(CAST({a} AS DOUBLE), 12)", "DECIMAL '123456789.123456789' + {a}",
    "hash({a} * 1.0000001)", "CAST({a} AS STRING)",
)  # fmt: skip
DIRECTORY = Path(__file__).parent / "sql" / "ksql"
CASES = [case for file in sorted(DIRECTORY.glob("*.md")) for case in cases_of(file) if not case.error]
NUMBERS = [
    "9" * 34 + ".99", "-" + "9" * 34 + ".99", "1.01", "123456.78", "-0.05", None, "1" + "0" * 33 + ".00", "12345678901234567890.12"
]  # fmt: skip
KINDS = ("decimal(36,2)", "decimal(38,2)")
AGGREGATES: dict[str, Expression] = {
    **{name: Call(name, (Reference("M"),)) for name in ("sum", "avg", "min", "max", "stddev", "variance", "collect_list")},
    "percentiles": Call("percentile", (Reference("M"), Literal(0.3))),
    "close percentiles": Call("percentile_approx", (Reference("M"), Literal(0.3))),
    **{f"ksqlDB's {name}": ksql_expression(Call(name, (Reference("M"),)), {"M": KINDS[0]}) for name in ("sum", "min", "max")},
}
Digest = list[Any]


@pytest.fixture(params=CONTEXTS.values(), ids=list(CONTEXTS))
def context(request):
    return request.param


def check_same(compute: Callable[[], Digest], context: decimal.Context) -> None:
    """What is computed is the same in this context as in one that rounds nothing."""
    with decimal.localcontext(ROOMY):
        expected = compute()
    with decimal.localcontext(context):
        found = compute()
    differences = [pair for pair in zip(expected, found, strict=True) if pair[0] != pair[1]]
    assert not differences, differences[:5]


@pytest.mark.parametrize("seed", [1])
def test_expressions_of_the_spark_dialect(context, seed):
    """Operators, functions and casts of random decimals, which constants are in, too: types, values and failures."""
    schema, batch = random_decimals(seed)
    chance = random.Random(seed)
    texts = random_expressions_of_decimals(schema, len(OF_ONE + OF_TWO + OF_SHORT), seed)
    texts += [form.format(a=chance.choice(schema.names)) for form in OF_SPARK]

    def compute() -> Digest:
        found: Digest = []
        for text in texts:
            try:
                ((_, typed),) = ExpressionAnalyzer("UTC").project(schema, [("r", SqlText(text))], None)
            except StreamKitError as error:
                found.append((text, str(error)))
                continue
            found.extend((text, typed.type, cell) for cell in in_arrow(typed, batch))
        return found

    check_same(compute, context)


@pytest.mark.parametrize("seed", [1, 2])
def test_expressions_of_the_ksql_dialect(context, seed):
    """Operators, functions and casts of random decimals: types, values and failures."""
    schema, batch = random_decimals(seed)
    columns = {column.name.upper(): column.type for column in schema}
    rows = batch.rename_columns(list(columns))
    chance = random.Random(seed)

    def text_of(form: str) -> str:
        precision, scale = random_type(chance)
        return form.format(a=chance.choice(list(columns)), b=chance.choice(list(columns)), p=precision, s=scale)

    texts = [text_of(form) for form in OF_KSQL * 3]

    def compute() -> Digest:
        found: Digest = []
        for text in texts:
            tree = ksql_expression(read(text), columns)
            ((_, typed),) = ExpressionAnalyzer().project(Schema.from_arrow(rows.schema), [("r", tree)])
            with noted_failures() as notes:
                found.extend((text, typed.type, cell) for cell in cells(evaluate(typed, rows)))
            found.append((text, sorted(row for one in notes for row in one.rows.tolist())))
        return found

    check_same(compute, context)


def test_cases_of_the_ksql_dialect(context):
    """All functions of the dialect, by their tables of cases."""

    def compute() -> Digest:
        return [(str(case), type, cells(found), failed) for case in CASES for type, found, failed in [evaluated(case)]]

    check_same(compute, context)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates(name, kind, context):
    """Of one value, of several, and of so many that the total needs more digits than its type."""
    schema = Schema.parse(f"M {kind}")
    rows = [one for one in NUMBERS if one is None or len(one.lstrip("-").replace(".", "")) <= schema["M"].arrow.type.precision]
    values = pa.array([None if one is None else Decimal(one) for one in [*rows, *rows[:1] * 400]], schema["M"].arrow.type)
    groups = pa.array([min(place, len(rows)) for place in range(len(values))], pa.int64())
    ((typed),) = ExpressionAnalyzer().aggregates(schema, [("x", AGGREGATES[name])])

    argument = typed.argument
    assert argument is not None

    def compute() -> Digest:
        states = lift(typed, evaluate(argument, pa.record_batch({"M": values})), len(values))
        _, found = fold([groups], [], [typed], states)
        return list(cells(result_or_null(typed, found).values))

    check_same(compute, context)


@pytest.mark.parametrize("name", ["avro", "json", "csv", "protobuf", "ksql_json", "delimited", "kafka"])
def test_formats(name, context):
    """Decimals and doubles are written and read with all their digits."""
    if name == "protobuf":
        pytest.importorskip("grpc_tools")
    texts = [one for one in NUMBERS if one is not None]
    columns = Schema.parse("m decimal(38,2)" if name == "kafka" else "m decimal(38,2), d double")
    columns = Schema.parse("d double") if name == "kafka" else columns
    values = {"m": pa.array(list(map(Decimal, texts)), pa.decimal128(38, 2)), "d": pa.array(list(map(float, texts)))}
    rows = pa.record_batch({column: values[column] for column in columns.names})

    def compute() -> Digest:
        schema = schema_made_of(name, columns) if name in ("avro", "csv", "protobuf", "json") else None
        codec = Codec(declare_format(name, schema), columns)
        written = codec.encode(rows)
        return [*written.to_pylist(), *codec.decode(written).to_pylist()]

    check_same(compute, context)


def test_conditions(context):
    """A condition on a decimal column, with constants that have more digits than it."""
    rows = pa.record_batch({"m": pa.array([one and Decimal(one) for one in NUMBERS], pa.decimal128(38, 2))})
    bounds = [*filter(None, NUMBERS), "1.013", "-0.0500001", "123456.785", "9" * 34 + ".989", "1e300", "-1e-300"]

    def compute() -> Digest:
        return [
            rows.filter(parse_predicate(f"m {sign} {bound}", rows.schema).expression).to_pylist()
            for sign in ("<", "<=", "=", ">", ">=", "!=")
            for bound in bounds
        ]

    check_same(compute, context)


def test_lengths_of_time(context):
    """Of many digits, and of several units."""
    with decimal.localcontext(context):
        assert [signed_duration_ms(text) for text in ("123456 ms", "-12345.678 seconds", "52 weeks, 123456789 ms")] == [
            123_456, -12_345_678, 31_573_056_789
        ]  # fmt: skip
        assert signed_duration_ms("0.0123 hours") == 44_280


def test_values_of_users_functions(context):
    """A decimal without a fraction is an integer for a function that gives integers, however many digits it has."""
    with decimal.localcontext(context):
        assert exact_array([Decimal(123456), None], pa.int64()).to_pylist() == [123456, None]
        with pytest.raises(ValueError):
            exact_array([Decimal("123456.5")], pa.int64())


def test_exponents_in_json():
    """An exponent in JSON is a capital letter, as Java writes it, although a context may ask for a small one."""
    ((_, typed),) = ExpressionAnalyzer().project(Schema.parse("n int"), [("r", ksql_expression(read("JSON_ITEMS('[1e5]')"), {}))])
    with decimal.localcontext(capitals=0):
        assert evaluate(typed, pa.record_batch({"n": [1]})).to_pylist() == [["1E+5"]]
