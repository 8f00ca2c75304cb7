"""What the harnesses tried, as their tests say it: a test records a property `tried`, counts by what was counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Harness:
    """The tests of some files and folders, and what has come of them."""

    name: str
    paths: tuple[str, ...] = ()
    collected: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    passed: int = 0
    seconds: float = 0.0
    tried: Counter[str] = field(default_factory=Counter)

    @property
    def verdict(self) -> str:
        """What may be said of it: a harness that has not run, or not to its end, has shown nothing."""
        if self.failed:
            return f"{len(self.failed)} FAILED"
        if self.collected - self.ended or not self.passed:
            return f"NOT DONE ({len(self.ended)} of {len(self.collected)} tests have ended)"
        return "nothing lost"

    @property
    def is_done(self) -> bool:
        """Whether every test has run, and all have passed."""
        return self.verdict == "nothing lost"

    def owns(self, test: str) -> bool:
        """Whether a test is one of its own."""
        file = test.partition("::")[0]
        return any(file == path or file.startswith(f"{path}/") for path in self.paths)

    def take(self, report: pytest.TestReport) -> None:
        """Count what a part of a test has come to, and what it tried."""
        self.seconds += report.duration
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
    """All harnesses of a run: a pytest plugin that writes down, after every test, what has been tried so far."""

    harnesses: list[Harness]
    folder: Path

    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        """Note which tests there are."""
        for test in ids:
            self.of(test).collected.add(test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a part of a test."""
        self.of(report.nodeid).take(report)
        self.write()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Count a test that has ended; a part of it that had nothing to tell may not be reported."""
        self.of(nodeid).ended.add(nodeid)
        self.write()

    def of(self, test: str) -> Harness:
        """The harness that a test belongs to."""
        return next(harness for harness in self.harnesses if harness.owns(test))

    @property
    def is_done(self) -> bool:
        """Whether every harness is."""
        return all(harness.is_done for harness in self.harnesses)

    def write(self) -> None:
        """Write `torture.json` and `torture.txt`."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "torture.json").write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        (self.folder / "torture.txt").write_text(f"{self}\n", encoding="utf-8")

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
            lines.append(
                f"{harness.name}: {harness.passed} tests passed, {harness.verdict}, {harness.seconds:,.0f} s of one worker"
            )
            lines += [f"    {count:>9,}  {what}" for what, count in sorted(harness.tried.items())]
            lines += [f"    {nodeid}" for nodeid in harness.failed]
        return "\n".join(lines)
