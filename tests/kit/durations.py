"""How long the tests of a run took, kept to be compared: by folder, by file, and each part of each test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest


def all_reports(terminal: pytest.TerminalReporter) -> list[pytest.TestReport]:
    """Every part of every test that ended."""
    return [report for reports in terminal.stats.values() for report in reports if isinstance(report, pytest.TestReport)]


def write_durations(file: Path, reports: Iterable[pytest.TestReport]) -> None:
    """Write the sums by folder and file, and the parts of tests, each with the longest first, in seconds."""
    parts = [(report.duration, f"{report.when:<9}{report.nodeid}") for report in reports]
    parts.sort(key=lambda part: -part[0])
    lines = [f"{seconds:9.2f}  {what}" for seconds, what in parts if seconds >= 0.01]
    by_folder, by_file = (_sums(parts, key) for key in (_folder_of, _file_of))
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join([*by_folder, "", *by_file, "", *lines]) + "\n", encoding="utf-8")


def _file_of(part: str) -> str:
    return part.split()[1].partition("::")[0]


def _folder_of(part: str) -> str:
    return "/".join(_file_of(part).split("/")[:2])


def _sums(parts: Iterable[tuple[float, str]], key: Callable[[str], str]) -> list[str]:
    sums: Counter[str] = Counter()
    for seconds, what in parts:
        sums[key(what)] += seconds  # type: ignore[assignment]
    return [f"{seconds:9.2f}  {name}" for name, seconds in sums.most_common()]
