"""Random cases are as varied as they are meant to be."""

from __future__ import annotations

from tests.harness.conformance.builder import Builder
from tests.harness.conformance.generator import random_case
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.run import results

CASES = [random_case(1, number) for number in range(300)]


def test_a_case_depends_on_seed_and_number_alone() -> None:
    """What failed once can be made again; another seed gives other cases."""
    assert [random_case(1, number) for number in range(20)] == CASES[:20]
    assert [random_case(2, number)["steps"] for number in range(20)] != [case["steps"] for case in CASES[:20]]


def test_random_cases_hold_every_operator() -> None:
    """Every operator that the runner can build occurs, except those whose functions take no text."""
    known = {name[1:] for name in vars(Builder) if name.startswith("_") and not name.startswith("__")}
    used = {node["op"] for case in CASES for node in case["topology"]["nodes"]}
    assert used <= known
    rest = {"map_values", "flat_map"}
    assert {"filter", "merge", "split", "cogroup", "window", "suppress", "join", "to_table", "to_stream"} <= used
    assert not rest & used
    kinds = {node["kind"] for case in CASES for node in case["topology"]["nodes"] if node["op"] == "join"}
    assert kinds == {"stream_stream", "stream_table", "stream_global_table", "table_table", "foreign_key"}


def test_random_cases_run_by_both_rules() -> None:
    """Each case is interpreted without an error of a function, most give something, and some differ by StreamKit's rules."""
    by_kafka = [results(case, Rules.kafka()) for case in CASES]
    by_streamkit = [results(case, Rules.streamkit()) for case in CASES]
    assert sum(any(steps) for steps in by_kafka) > 200
    assert 10 < sum(one != other for one, other in zip(by_kafka, by_streamkit, strict=True)) < 200
