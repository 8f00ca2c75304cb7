"""What the parts of an epoch report, until all of it reaches the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from streamkit.engine.epoch import Application, EpochEnd
from streamkit.log.slab.reference import SlabReference
from streamkit.state.changelog import Offsets, offsets_from_json, offsets_to_json

Counts = tuple[tuple[str, str, int], ...]  # metric, operator id, rows


@dataclass(frozen=True)
class SplitReport:
    """What a reader took and sent: records consumed, and a digest of the rows it sent."""

    number: int
    records: int
    content: str
    counts: Counts

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SplitReport:
        return cls(**{**value, "counts": _counts(value)})


@dataclass(frozen=True)
class KernelReport:
    """What one attempt of a kernel made: its slab (None if there was nothing to write), and a digest of all it made."""

    stage: int
    task: int
    content: str
    slab: SlabReference | None
    counts: Counts
    restored: int

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "slab": self.slab.to_json() if self.slab else None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KernelReport:
        slab = SlabReference.from_json(value["slab"]) if value["slab"] else None
        return cls(**{**value, "slab": slab, "counts": _counts(value)})


@dataclass(frozen=True)
class EpochClaim:
    """Which epoch of which generation was run, from where to where, in how many splits, of inputs purged how far."""

    application: Application
    before: EpochEnd
    end: EpochEnd
    splits: int
    purged_below: Offsets

    def to_json(self) -> dict[str, Any]:
        return {
            "application": self.application.to_json(),
            "before": self.before.to_json(),
            "end": self.end.to_json(),
            "splits": self.splits,
            "purged_below": offsets_to_json(self.purged_below),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> EpochClaim:
        return cls(
            Application.from_json(value["application"]),
            EpochEnd.from_json(value["before"]),
            EpochEnd.from_json(value["end"]),
            value["splits"],
            offsets_from_json(value["purged_below"]),
        )


@dataclass(frozen=True)
class TaskReport:
    """What a task of the last kernel tells the commit: its own report and everything it heard from upstream."""

    task: int
    claim: EpochClaim
    kernels: tuple[KernelReport, ...]
    splits: tuple[SplitReport, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "claim": self.claim.to_json(),
            "kernels": [report.to_json() for report in self.kernels],
            "splits": [report.to_json() for report in self.splits],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TaskReport:
        return cls(
            value["task"],
            EpochClaim.from_json(value["claim"]),
            tuple(map(KernelReport.from_json, value["kernels"])),
            tuple(map(SplitReport.from_json, value["splits"])),
        )


def _counts(value: Mapping[str, Any]) -> Counts:
    return tuple((name, operator, rows) for name, operator, rows in value["counts"])
