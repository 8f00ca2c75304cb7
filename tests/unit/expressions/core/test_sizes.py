"""A number among the data that asks for gigabytes is the failure of its record, which `on_error` may leave out; others go on."""

from __future__ import annotations

import datetime as dt
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import EvaluationError
from streamkit.expressions.core import sizes
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import TAKES_ALL

LARGE, ALMOST = 2**31 - 1, 2**31 - 100
SCHEMA = "k string, i int, l bigint, s string, b binary, a array<int>, at timestamp"
OTHERS = {"l": 10**15, "s": "abc", "b": b"abc", "a": [1, 2], "at": dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)}
EXPRESSIONS = [
    "array_insert(a, i, 1)", "array_insert(a, -i, 1)", "array_repeat(s, i)", "array_repeat(a, i)", "array_repeat(k, i)",
    "repeat(s, i)", "lpad(s, i, 'x')", "rpad(s, i, 'xy')", "lpad(b, i)", "rpad(b, i, b)", "sequence(1, i)", "sequence(-i, i)",
    "sequence(0L, i * 1000000000L div 1000000000)", "sequence(i, 0, -1)", "format_number(l, i)", "format_number(1.5D, i)", "format_number(1.50, i)",
    "sequence(at, timestamp_seconds(1704067200L + i), interval 1 second)",
    "array_repeat(array_repeat(s, 1000), i)", "concat(array_repeat(1, i), a)", "size(array_repeat(1, i))",
]  # fmt: skip


def at_once(expressions):
    """All in one topology; in torture each in its own."""
    return [[one] for one in expressions] if TAKES_ALL else [expressions]


def selecting(schema, columns):
    """A topology with an output of each column."""
    app = sk.Topology("app", on_error="skip")
    stream = app.stream("in", schema=schema, key="k")
    for number, column in enumerate(columns):
        stream.select("k", r=column).to(f"out{number}")
    return app


@pytest.fixture(autouse=True)
def _little_memory():
    """What would take gigabytes fails here at once, and not on a machine that has more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    used = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("expressions", at_once(EXPRESSIONS))
def test_a_large_number_is_the_failure_of_its_record(expressions):
    """It is left out and counted; those beside it are computed."""
    with TopologyTestDriver(selecting(SCHEMA, [F.expr(one) for one in expressions])) as driver:
        driver.pipe("in", [{"k": "ab"[number == 3], "i": number, **OTHERS} for number in (LARGE, 3, ALMOST)])
        for number, expression in enumerate(expressions):
            assert [row["k"] for row in driver.read(f"out{number}")] == ["b"], expression


def test_the_error_names_the_record():
    """Topic, partition and offset, and the number."""
    app = sk.Topology("app")
    app.stream("in", schema=SCHEMA, key="k").select(r=F.expr("lpad(s, i, 'x')")).to("out")
    with TopologyTestDriver(app) as driver, pytest.raises(EvaluationError, match=r"topic in, partition 0, offset 1.*would have"):
        driver.pipe("in", [{"k": "a", "i": number, **OTHERS} for number in (1, LARGE)])


def test_a_row_and_a_batch_have_bounds():
    """A row beyond its bound is refused, and rows that are too many together are an error that says so."""
    sizes.check_elements(np.array([sizes.ELEMENTS_MAX]))
    with pytest.raises(pa.ArrowInvalid, match="would have"):
        sizes.check_elements(np.array([sizes.ELEMENTS_MAX + 1]))
    with pytest.raises(pa.ArrowCapacityError, match="together"):
        sizes.check_elements(np.full(5, sizes.ELEMENTS_MAX))


PRODUCTS = [
    "array_join(split(s, ','), t)", "array_join(transform(split(s, ','), x -> cast(null as string)), ',', t)", "concat_ws(t, split(s, ','))",
    "replace(s, ',', t)", "replace(s, substring(s, 1, 1), t)", "regexp_replace(s, ',', t)", "regexp_replace(s, '(,)', concat(t, '$1'))",
    "size(transform(split(s, ','), x -> t))",
]  # fmt: skip
ROWS = [{"k": "a", "s": ",,", "t": "xy"}, {"k": "b", "s": "," * 60_000, "t": "b" * 60_000}, {"k": "c", "s": "a,", "t": ""}]


@pytest.mark.parametrize("expressions", at_once(PRODUCTS))
@pytest.mark.parametrize("batching", ["one", "all"])
def test_two_short_texts_may_make_a_large_one(expressions, batching):
    """One of 60 KB in place of each character of another is 3.6 GB: its record is left out, and Arrow is not asked for the bytes."""
    app = selecting("k string, s string, t string", [F.expr(one) for one in expressions])
    with TopologyTestDriver(app, batching=batching) as driver:
        driver.pipe("in", ROWS)
        for number, expression in enumerate(expressions):
            assert [row["k"] for row in driver.read(f"out{number}")] == ["a", "c"], expression


CUTS = [
    *PRODUCTS, "concat(s, t, s, t)", "s || t || s", "format_string('%s%s%s', s, t, s)", "repeat(s, 3)", "upper(s)", "array_repeat(s, 10)",
    "aggregate(sequence(1, 3), s, (acc, x) -> concat(acc, acc))", "transform(sequence(1, length(s)), x -> t)", "lpad(t, 30, s)",
    "case when length(s) > 20 then 'long' else concat(s, t, s, t, s, t, s, t) end", "flatten(array(split(s, ','), array(t, t, t)))",
]  # fmt: skip


@pytest.mark.parametrize("expressions", at_once(CUTS))
def test_what_a_record_gives_does_not_depend_on_those_beside_it(expressions, monkeypatch):
    """With a small bound: each record fails alone as it does among others, and records that are too long together are taken apart."""
    monkeypatch.setattr(sizes, "BYTES_MAX", 100)
    monkeypatch.setattr(sizes, "ELEMENTS_MAX", 1000)
    monkeypatch.setattr(sizes, "_LITTLE", 1)
    found = []
    for batching in ("one", "all"):
        app = selecting("k string, s string, t string", [F.expr(one).cast("string") for one in expressions])
        with TopologyTestDriver(app, batching=batching) as driver:
            driver.pipe(
                "in", [{"k": str(size), "s": "a," * size, "t": "t" * (size // 2)} for size in (3, 30, 4, 5, 12, 6, 20, 9, 7)]
            )
            found.append([{row["k"]: row["r"] for row in driver.read(f"out{number}")} for number in range(len(expressions))])
    for expression, one, together in zip(expressions, *found, strict=True):
        assert one == together, expression
        assert "3" in one, expression
        assert all(len(text.encode()) <= 100 for text in one.values()), expression
