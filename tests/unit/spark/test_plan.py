"""Spark's plan of a program, looked at without running it."""

from __future__ import annotations

import pytest

from streamkit.spark.plan import explain_spark
from tests.kit import sales

pytestmark = pytest.mark.spark


def test_a_session_beside_another_is_asked(spark):
    """Another session of the same thread may know StreamKit's data source already; that of the caller is asked all the same."""
    program = sales.load_program()
    plan = explain_spark(program, spark)

    assert "BatchEvalPython" not in plan and plan.count("Exchange") == program.stages
    assert explain_spark(program, spark.newSession()).count("Exchange") == program.stages
