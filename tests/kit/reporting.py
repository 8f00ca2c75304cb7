"""What a worker tells of a test: each message costs both sides a tenth of what a small test takes, and there are ten thousand tests."""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

SHORT_SECONDS = 0.005


def run_and_tell(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Run a test as pytest does, and tell its call, and of set-up and tear-down what went wrong, took long, or has an output."""
    hook = item.ihook
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if is_told(report):
            hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def is_told(report: pytest.TestReport) -> bool:
    return report.when == "call" or not report.passed or report.duration > SHORT_SECONDS or bool(report.sections)
