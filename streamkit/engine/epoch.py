"""
The plan of an epoch: everything its tasks need, so that they never open the catalog (law 2).

The driver's `EpochEnd` says where the epoch stops; it is all that Spark's offset holds. `EpochPlan` follows from it and the
catalog alone: the slices of the inputs, where each global table is read up to, and which changes each store still lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from streamkit.engine.order import NO_TIME
from streamkit.log.slab.extent import Extent
from streamkit.state.changelog import Changes, Offsets, offsets_from_json, offsets_to_json


@dataclass(frozen=True)
class EpochEnd:
    """
    Where an epoch stops: positions behind its last records and the stream time it reaches.

    `closing` marks the epoch that ends a drain: it takes no records and moves stream time past every open window.
    """

    epoch: int
    positions: Offsets
    stream_time_ms: int = NO_TIME
    records: int = 0
    time_ms: int = 0
    closing: bool = False

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "positions": offsets_to_json(self.positions)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> EpochEnd:
        return cls(**{**value, "positions": offsets_from_json(value["positions"])})


@dataclass(frozen=True)
class Slice:
    """Records [start, end) of one partition of one input, whole or in part; `floor_ms` is the order key reached before them."""

    input: int
    topic: str
    partition: int
    start: int
    end: int
    floor_ms: int
    extents: tuple[Extent, ...]

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "extents": [extent.to_json() for extent in self.extents]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Slice:
        return cls(**{**value, "extents": tuple(map(Extent.from_json, value["extents"]))})


@dataclass(frozen=True)
class StoreNames:
    """What the catalog calls a store: its number in state keys and the id of its changelog topic."""

    number: int
    changelog_id: int


@dataclass(frozen=True)
class OutputTopic:
    """A topic that is written, as it is in the catalog."""

    id: int
    name: str
    partitions: int
    partition_by: tuple[str, ...]
    compression: str = "none"


@dataclass(frozen=True)
class Application:
    """One generation of an application: what stays the same from epoch to epoch."""

    id: int
    name: str
    generation: int
    tasks: int
    key_groups: int
    changelog_partitions: int
    store_memory_bytes: int
    stores: Mapping[str, StoreNames]
    outputs: tuple[OutputTopic, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Application:
        return cls(
            **{
                **value,
                "stores": {name: StoreNames(**store) for name, store in value["stores"].items()},
                "outputs": tuple(
                    OutputTopic(**{**output, "partition_by": tuple(output["partition_by"])}) for output in value["outputs"]
                ),
            }
        )


@dataclass(frozen=True)
class EpochPlan:
    """
    What every kernel task hears of an epoch: where it starts and ends, and what the stores and global tables need.

    `purged_below`: below it, deletions had left the inputs when they were looked up.
    """

    application: Application
    before: EpochEnd
    end: EpochEnd
    splits: int
    changes: Changes
    globals: Mapping[int, tuple[Extent, ...]]
    purged_below: Offsets

    @property
    def epoch(self) -> int:
        return self.end.epoch

    def to_json(self) -> dict[str, Any]:
        return {
            "application": self.application.to_json(),
            "before": self.before.to_json(),
            "end": self.end.to_json(),
            "splits": self.splits,
            "changes": self.changes.to_json(),
            "globals": {str(number): [extent.to_json() for extent in extents] for number, extents in self.globals.items()},
            "purged_below": offsets_to_json(self.purged_below),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> EpochPlan:
        return cls(
            application=Application.from_json(value["application"]),
            before=EpochEnd.from_json(value["before"]),
            end=EpochEnd.from_json(value["end"]),
            splits=value["splits"],
            changes=Changes.from_json(value["changes"]),
            globals={int(number): tuple(map(Extent.from_json, found)) for number, found in value["globals"].items()},
            purged_below=offsets_from_json(value["purged_below"]),
        )


@dataclass(frozen=True)
class Split:
    """The part of an epoch's input that one reader takes; number 0 carries the plan to the kernels."""

    number: int
    slices: tuple[Slice, ...]

    def to_json(self) -> dict[str, Any]:
        return {"number": self.number, "slices": [piece.to_json() for piece in self.slices]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Split:
        return cls(value["number"], tuple(map(Slice.from_json, value["slices"])))
