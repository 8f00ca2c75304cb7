"""Parity where one argument is null and another fails: Spark looks at no argument that it does not need, and at each that it does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamkit.expressions.core.operation import OPERATIONS
from tests.kit.sampling import TAKES_ALL
from tests.unit.expressions.parity.nulls_beside_failures import nulls_beside_failures
from tests.unit.expressions.parity.test_random_calls import batch, compared  # noqa: F401  # a fixture

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COUNT = None if TAKES_ALL else 40
ROWS = 6
KNOWN = (
    "cannot be null in Spark",
    "PARSE_SYNTAX_ERROR",
)  # elements of arrays that hold no nulls; Spark's parser takes `a[1] >> b` for a type


@pytest.mark.timeout(3_600)
def test_what_is_not_needed_is_not_looked_at(spark, batch):  # noqa: F811
    """Calls of all functions, and operators, with a null and a failure: the same value or failure in every row."""
    wrong, refused, done = compared(spark, batch.slice(0, ROWS), nulls_beside_failures(COUNT))
    different = [line for line in wrong if not any(one in line for one in KNOWN)]
    print(f"{done} expressions with a null beside a failure compared with Spark, {len(refused)} refused")

    assert done >= (COUNT or 1_000) * 0.9
    assert not different, "\n" + "\n".join(different)


ALWAYS = [  # what differed, and functions that look at arguments in an order of their own
    "try_add({null:i32}, {fails:j32})", "try_divide({fails:i32}, {null:j32})", "nanvl({null:f64}, {fails:g64})", "nanvl(1D, {fails:g64})",
    "nanvl(double('nan'), {fails:g64})", "locate({fails:t}, s, {null:small})", "locate({null:t}, {fails:s})", "locate(t, {fails:s}, {null:small})",
    "array_insert({null:ints}, {fails:small}, 1)", "array_insert(ints, {null:small}, {fails:i32})", "array_repeat({fails:i32}, {null:small})",
    "arrays_zip({null:ints}, {fails:texts})", "zip_with({null:ints}, {fails:ints}, (a, b) -> a + b)", "startswith({null:x}, {fails:x})",
    "zip_with({fails:ints}, {null:ints}, (a, b) -> a + b)", "map_zip_with({null:counts}, {fails:counts}, (k, a, b) -> a)",
    "startswith({null:s}, {fails:t})", "rpad({null:x}, {fails:small})", "lpad({null:s}, {fails:small})", "concat({null:s}, {fails:t})",
    "concat({null:ints}, {fails:ints})", "concat({null:x}, {fails:x})", "concat(s, {null:t}, {fails:s})", "trunc({null:d}, {fails:s})",
    "trunc({fails:d}, {null:s})", "date_trunc({null:s}, {fails:ts})", "named_struct('a', {fails:i32}, 'b', {null:s}).b",
    "struct({fails:i32} AS a, s AS b).b", "array({fails:i32}, small)[1]", "element_at(array({fails:i32}, small), 2)", "map('a', {fails:i32}, 'b', small)['b']",
    "coalesce({null:i32}, small, {fails:j32})", "coalesce(sk, {fails:s})", "if({null:b}, {fails:i32}, small)", "ifnull(j32k, {fails:i32})",
    "nvl2({null:s}, {fails:t}, s)", "nullif({null:i32}, {fails:j32})", "{null:b} AND {fails:c}", "{fails:c} AND {null:b}", "{null:b} OR {fails:c}",
    "{null:i32} IN ({fails:j32}, 1)", "{null:i32} BETWEEN {fails:j32} AND 3", "{null:i32} <=> {fails:j32}", "greatest({null:i32}, {fails:j32})",
    "CASE WHEN {null:b} THEN {fails:i32} WHEN c THEN small END", "split_part({null:s}, {fails:t}, 1)", "substring({fails:s}, {null:small})",
    "regexp_replace({null:s}, {fails:t}, 'a')", "elt({null:small}, {fails:s}, t)", "concat_ws({null:s}, {fails:t})", "hash({null:s}, {fails:t})",
]  # fmt: skip


def written(text):
    """The expression, with the columns that are null and that fail."""
    from tests.unit.expressions.parity.nulls_beside_failures import FAILING, NULL

    for kind, form in (("null", NULL), ("fails", FAILING)):
        while (start := text.find(f"{{{kind}:")) >= 0:
            end = text.index("}", start)
            text = text[:start] + form.replace("{0}", text[start + len(kind) + 2 : end]) + text[end + 1 :]
    return text


def test_functions_with_an_order_of_their_own(spark, batch):  # noqa: F811
    """So are those that differed once, and all that look at their arguments in another order or not at all."""
    wrong, refused, _ = compared(spark, batch.slice(0, ROWS), list(map(written, ALWAYS)))

    assert not [line for line in wrong if not any(one in line for one in KNOWN)], "\n" + "\n".join(wrong)
    assert not refused


def test_another_order_is_caught(spark, batch, monkeypatch):  # noqa: F811
    """An operation that looks at its arguments in another order differs."""
    monkeypatch.setitem(OPERATIONS, "array_repeat", replace(OPERATIONS["array_repeat"], looks_in_order=(0, 1)))

    assert compared(spark, batch.slice(0, ROWS), [written("array_repeat({fails:i32}, {null:small})")])[0]
