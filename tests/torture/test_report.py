"""Promises of the report: it says nothing good of what did not happen."""

from __future__ import annotations

import pytest

from tests.torture.report import Harness, Report


@pytest.mark.parametrize(
    ("harness", "verdict"),
    [
        (Harness("one", status=0, passed=3), "nothing lost"),
        (Harness("one", status=0, passed=0), "DID NOT RUN to its end (status 0)"),
        (Harness("one", status=2, passed=3), "DID NOT RUN to its end (status 2)"),
        (Harness("one", passed=3), "DID NOT RUN to its end (status None)"),
        (Harness("one", status=1, passed=3, failed=["a", "b"]), "2 FAILED"),
    ],
)
def test_a_harness_that_did_not_run_has_shown_nothing(harness, verdict):
    """Only tests that ran to their end and all passed count as a proof."""
    assert harness.verdict == verdict
    assert verdict in str(Report([harness])) and Report([harness]).to_json()["one"]["verdict"] == verdict
