"""What the harnesses tried, as their tests say it: a test records a property `tried`, counts by what was counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass
class Harness:
    """One harness: a pytest plugin that listens to its tests."""

    name: str
    status: int | None = None  # that of pytest; None while it runs
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    tried: Counter[str] = field(default_factory=Counter)

    @property
    def verdict(self) -> str:
        """What may be said of it: a harness that did not run, or not to its end, has shown nothing."""
        if self.failed:
            return f"{len(self.failed)} FAILED"
        if self.status != 0 or not self.passed:
            return f"DID NOT RUN to its end (status {self.status})"
        return "nothing lost"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test, and what it tried."""
        if report.failed:
            self.failed.append(report.nodeid)
        if report.when != "call":
            return
        self.passed += report.passed
        for name, counts in report.user_properties:
            if name == "tried" and isinstance(counts, dict):
                self.tried.update(counts)


@dataclass
class Report:
    """All harnesses of a run."""

    harnesses: list[Harness] = field(default_factory=list)

    def harness(self, name: str) -> Harness:
        self.harnesses.append(Harness(name))
        return self.harnesses[-1]

    def to_json(self) -> dict[str, Any]:
        """The report as plain dicts, lists and scalars."""
        return {
            harness.name: {
                "verdict": harness.verdict,
                "passed": harness.passed,
                "failed": harness.failed,
                "seconds": round(harness.seconds, 1),
                "tried": dict(sorted(harness.tried.items())),
            }
            for harness in self.harnesses
        }

    def __str__(self) -> str:
        lines = []
        for harness in self.harnesses:
            lines.append(f"{harness.name}: {harness.passed} tests passed, {harness.verdict}, {harness.seconds:,.0f} s")
            lines += [f"    {count:>9,}  {what}" for what, count in sorted(harness.tried.items())]
            lines += [f"    {nodeid}" for nodeid in harness.failed]
        return "\n".join(lines)
