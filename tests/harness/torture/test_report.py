"""Promises of the report: it says nothing good of what did not happen, and is there at any time."""

from __future__ import annotations

import json

import pytest

from tests.harness.torture.report import Harness, Report

TESTS = ("tests/one/test_a.py::test_x[1]", "tests/one/test_a.py::test_x[2]", "tests/two.py::test_y")


def part(test, outcome="passed", when="call", **tried):
    """What pytest says when a part of a test has ended."""
    properties = [("tried", tried)] if tried else []
    return pytest.TestReport(test, (test, 0, test), {}, outcome, None, when, user_properties=properties, duration=1.0)


@pytest.fixture
def report(tmp_path):
    """A run that has collected two tests of one harness and one of another."""
    report = Report([Harness("first", ("tests/one",)), Harness("second", ("tests/two.py",))], tmp_path / "build")
    report.pytest_xdist_node_collection_finished(TESTS)
    return report


def run(report, test, outcome="passed", **tried):
    for when in ("setup", "call", "teardown"):
        report.pytest_runtest_logreport(part(test, outcome if when == "call" else "passed", when, **tried))
    report.pytest_runtest_logfinish(test)


def verdicts(report):
    return [harness["verdict"] for harness in json.loads((report.folder / "torture.json").read_text()).values()]


def test_a_harness_is_done_when_each_of_its_tests_has_passed(report):
    """What is left is said after every test, and the counts of tests add up by harness."""
    run(report, TESTS[0], images=3)
    assert verdicts(report) == ["NOT DONE (1 of 2 tests have ended)", "NOT DONE (0 of 1 tests have ended)"]
    run(report, TESTS[1], images=4)
    run(report, TESTS[2])
    assert verdicts(report) == ["nothing lost", "nothing lost"] and report.is_done
    assert "first: 2 tests passed, nothing lost, 6 s of one worker\n            7  images\n" in str(report)
    assert (report.folder / "torture.txt").read_text() == f"{report}\n"


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
def test_a_failure_anywhere_is_a_failure_of_its_harness(report, when):
    """A test that fails, or whose preparation or end does, is named."""
    for test in TESTS:
        run(report, test)
    report.pytest_runtest_logreport(part(TESTS[0], "failed", when))
    assert verdicts(report) == ["1 FAILED", "nothing lost"] and not report.is_done
    assert f"    {TESTS[0]}" in str(report).splitlines()


def test_a_harness_whose_tests_were_skipped_has_shown_nothing(report):
    """Only tests that ran count as a proof."""
    for test in TESTS:
        run(report, test, "skipped" if test is TESTS[2] else "passed")
    assert verdicts(report) == ["nothing lost", "NOT DONE (1 of 1 tests have ended)"] and not report.is_done


def test_a_run_that_collected_nothing_has_shown_nothing(tmp_path):
    """Neither has one that was ended before its first test."""
    assert not Report([Harness("first", ("tests/one",))], tmp_path).is_done
