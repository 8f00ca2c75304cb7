"""Aggregates of the ksql dialect take just the types that ksqlDB's have: nothing is converted, and nothing else is added up or compared."""

from __future__ import annotations

import pytest

from streamkit.expressions.aggregates.ksql.signature import KSQL_AGGREGATES
from streamkit.expressions.ksql.signature import ksql_type
from streamkit.plan.expression import Call
from streamkit.sql.ksql.expressions import MeaninglessExpressionError, ksql_expression
from tests.unit.sql.ksql.reading import read

COLUMNS = {
    "B": "boolean", "I": "int", "L": "bigint", "D": "double", "M": "decimal(4,2)", "S": "string", "Y": "binary", "DA": "date", "TI": "time",
    "TS": "timestamp", "A": "array<int>", "AM": "array<decimal(4,2)>", "AL": "array<bigint>", "MP": "map<string,int>", "ST": "struct<F:int>",
}  # fmt: skip
EVERY = " ".join(COLUMNS)
TAKES = {
    "SUM({})": "I L D M", "AVG({})": "I L D", "STDDEV_SAMP({})": "I L D", "STDDEV_SAMPLE({})": "I L D", "SUM_LIST({})": "A AL",
    "MIN({})": "I L D M S Y DA TI TS", "MAX({})": "I L D M S Y DA TI TS", "TOPK({}, 2)": "I L D S", "TOPK({}, S, M, 2)": "I L D S",
    "TOPK(I, {}, 2)": EVERY, "TOPKDISTINCT({}, 2)": "I L D M S Y DA TI TS", "HISTOGRAM({})": "S", "COUNT({})": EVERY,
    "COUNT_DISTINCT({})": EVERY, "COLLECT_LIST({})": EVERY, "COLLECT_SET({})": EVERY, "ATTR({})": EVERY, "LATEST_BY_OFFSET({})": EVERY,
    "EARLIEST_BY_OFFSET({}, 2)": EVERY, "CORRELATION({0}, {0})": "I L D", "CORRELATION(D, {})": "D", "SUM(COALESCE({0}, {0}))": "I L D M",
}  # fmt: skip


@pytest.mark.parametrize("call", TAKES)
def test_an_aggregate_takes_its_types(call):
    """Columns of all types, and TIME, which columns keep as integers; the message says what was found."""
    taken = []
    for name, type in COLUMNS.items():
        try:
            ksql_expression(read(call.format(name)), COLUMNS)
            taken.append(name)
        except MeaninglessExpressionError as error:
            assert ksql_type(type) in str(error)
    assert taken == sorted(TAKES[call].split(), key=list(COLUMNS).index)


@pytest.mark.parametrize(
    "call", ["SUM(NULL)", "AVG(1.5)", "AVG(I * 1.5)", "MIN(NULL)", "SUM(CAST(TI AS STRING))", "CORRELATION(I, NULL)"]
)
def test_what_an_argument_computes_has_its_type_too(call):
    """An expression of another type is refused like a column of it, and so is NULL, which has none."""
    with pytest.raises(MeaninglessExpressionError, match=r"does not take \(.*\); expected [A-Z]+\("):
        ksql_expression(read(call), COLUMNS)


def test_a_cast_is_the_way_out():
    """What the message says helps: the call is that of the aggregate."""
    for call in ("AVG(CAST(M AS DOUBLE))", "CORRELATION(D, CAST(L AS DOUBLE))", "SUM(CAST(NULL AS INT))", "COUNT(*)", "SUM(1)"):
        found = ksql_expression(read(call), COLUMNS)
        assert isinstance(found, Call) and found.function.endswith(call.partition("(")[0].lower())


def test_each_aggregate_is_here():
    """None is left out of the table."""
    assert {call.partition("(")[0].lower() for call in TAKES} == set(KSQL_AGGREGATES)
