"""Where one argument is null for sure, Spark does not look at the others, which may fail; and names that Spark has not are refused."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import UnsupportedExpressionError
from streamkit.testing import TopologyTestDriver


@pytest.mark.parametrize(
    "text",
    [
        "timestampadd(HOUR, small, to_timestamp(s))",
        "timestampadd(MONTH, small, cast(s as timestamp))",
        "timestampadd(DAY, cast(null as int), cast(s as timestamp_ntz))",
        "format_string(cast(null as string), cast(s as int))",
        "printf(null, cast(s as int))",
    ],
)
def test_a_null_is_seen_before_what_fails(text: str) -> None:
    """The result is null, as in Spark, though an argument beside the null cannot be computed."""
    app = sk.Topology("lazy")
    app.stream("in", schema="k string, small int, s string", key="k").select("k", r=F.expr(text)).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "small": None, "s": "x"})
        assert [row["r"] for row in driver.read("out")] == [None]


@pytest.mark.parametrize("name", ["todegrees", "toradians", "bitwisenot"])
def test_names_of_pyspark_are_no_names_of_sql(name: str) -> None:
    """SQL text that Spark would refuse is refused at once; the functions of these names in Python stay."""
    with pytest.raises(UnsupportedExpressionError, match=f"no function '{name}'"):
        F.expr(f"{name}(v)")
    assert F.toDegrees("v") is not None
    assert F.bitwiseNOT("v") is not None
