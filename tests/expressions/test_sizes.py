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
from streamkit.expressions import sizes
from streamkit.testing import TopologyTestDriver

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


@pytest.fixture(autouse=True)
def _little_memory():
    """What would take gigabytes fails here at once, and not on a machine that has more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    used = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_large_number_is_the_failure_of_its_record(expression):
    """It is left out and counted; those beside it are computed."""
    app = sk.Topology("app", on_error="skip")
    app.stream("in", schema=SCHEMA, key="k").select("k", r=F.expr(expression)).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [{"k": "ab"[number == 3], "i": number, **OTHERS} for number in (LARGE, 3, ALMOST)])
        assert [row["k"] for row in driver.read("out")] == ["b"]


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
