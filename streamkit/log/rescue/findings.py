"""What a check of a log found, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ERROR = "error"  # an invariant does not hold: data is missing or damaged, or will be
WARNING = "warning"  # work goes on, but something should be done
INFORMATION = "information"  # nothing is wrong


@dataclass(frozen=True)
class Finding:
    """One thing that was found: its kind in a word or two, where, what exactly, and what to do about it."""

    severity: str
    kind: str
    where: str
    message: str
    action: str

    def to_json(self) -> dict[str, str]:
        """The finding as a dict of texts."""
        return dict(vars(self))


@dataclass(frozen=True)
class CheckReport:
    """All that a check found, worst first, and how much of what it looked at."""

    root: str
    is_deep: bool
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]

    @property
    def is_clean(self) -> bool:
        """Whether nothing but information was found."""
        return all(finding.severity == INFORMATION for finding in self.findings)

    def of(self, kind: str) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def to_json(self) -> dict[str, Any]:
        """The report as plain dicts, lists and scalars."""
        return {
            "root": self.root, "deep": self.is_deep, "clean": self.is_clean, "counts": dict(self.counts),
            "findings": [finding.to_json() for finding in self.findings],
        }  # fmt: skip


class Findings:
    """A report that is being written."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self.counts: Counter[str] = Counter()

    def error(self, kind: str, where: str, message: str, action: str) -> None:
        self._found.append(Finding(ERROR, kind, where, message, action))

    def warning(self, kind: str, where: str, message: str, action: str) -> None:
        self._found.append(Finding(WARNING, kind, where, message, action))

    def information(self, kind: str, where: str, message: str, action: str = "nothing needs to be done") -> None:
        self._found.append(Finding(INFORMATION, kind, where, message, action))

    def report(self, root: str, is_deep: bool) -> CheckReport:
        """What was found so far, worst first."""
        order = (ERROR, WARNING, INFORMATION)
        found = sorted(self._found, key=lambda finding: order.index(finding.severity))
        return CheckReport(root, is_deep, tuple(found), dict(self.counts))
