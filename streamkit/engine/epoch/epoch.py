"""
The plan of an epoch: everything its tasks need, so that they never open the catalog (law 2).

The driver's `EpochEnd` says where the epoch stops; it is all that Spark's offset holds. `EpochPlan` follows from it and the
catalog alone: the slices of the inputs, where each global table is read up to, and which changes each store still lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamkit.engine.epoch.row_counting import RowCounting
from streamkit.engine.epoch.stream_time import NO_TIME, StreamTimes, of_closings, of_windows, order_reached
from streamkit.formats.format import Format
from streamkit.log.slab.extent import Extent
from streamkit.plan.windows import Windowing
from streamkit.state.changelog import ChangelogOffsets, CommittedChanges


@dataclass(frozen=True)
class EpochEnd:
    """
    Where an epoch stops: positions behind its last records and the stream times it reaches (see `stream_time`).

    `closing` marks the epoch that ends a drain: it takes no records and closes every open window.
    """

    epoch: int
    positions: ChangelogOffsets
    times: StreamTimes = field(default_factory=dict)
    records: int = 0
    time_ms: int = 0
    closing: bool = False

    @property
    def order(self) -> int:
        """The largest order key that was reached."""
        return order_reached(self.times)


@dataclass(frozen=True)
class Slice:
    """
    Records [start, end) of one partition of one input, whole or in part.

    `floor_ms` is the order key reached before them. If jumps are bounded, the partition's time then is `time_ms`.
    """

    input: int
    topic: str
    partition: int
    start: int
    end: int
    floor_ms: int
    extents: tuple[Extent, ...]
    time_ms: int = NO_TIME


@dataclass(frozen=True)
class StoreNames:
    """What the catalog calls a store: its number in state keys and the id of its changelog topic."""

    number: int
    changelog_id: int


@dataclass(frozen=True)
class OutputTopic:
    """
    A topic that is written, as it is in the catalog.

    `timestamp` is the column that is the event time of its rows. `is_stamped_on_append`: that is the time of the epoch.
    """

    id: int
    name: str
    partitions: int
    partition_by: tuple[str, ...]
    compression: str = "none"
    timestamp: str | None = None
    is_stamped_on_append: bool = False


@dataclass(frozen=True)
class Application:
    """One generation of an application: what does not change between its epochs; `topic_ids` are those of the program's inputs."""

    id: int
    name: str
    generation: int
    tasks: int
    key_groups: int
    changelog_partitions: int
    store_memory_bytes: int
    topic_ids: tuple[int, ...]
    stores: Mapping[str, StoreNames]
    outputs: tuple[OutputTopic, ...]
    inline_slab_bytes: int = 0
    local_dir: str = ""


@dataclass(frozen=True)
class EpochPlan:
    """
    What every kernel task hears of an epoch: where it starts and ends, and what the stores and global tables need.

    `purged_below` has the offsets below which tombstones had been removed from the inputs when the plan was made. `inline` has the
    bytes of inline slabs that it names, by path, where tasks have no storage that finds them. `formats` are those of topics of Avro that have had
    several schemas, maybe some since the program was compiled. `counting` says how the rows of stores are
    counted. `planned_us` says when planning began and ended, by the clock of the driver's host that never goes back.
    """

    application: Application
    before: EpochEnd
    end: EpochEnd
    splits: int
    changes: CommittedChanges
    globals: Mapping[int, tuple[Extent, ...]]
    purged_below: ChangelogOffsets
    inline: Mapping[str, bytes] = field(default_factory=dict)
    counting: RowCounting = field(default_factory=RowCounting)
    formats: tuple[Format, ...] = ()
    planned_us: tuple[int, int] = field(default=(0, 0), compare=False)

    @property
    def epoch(self) -> int:
        return self.end.epoch

    def stream_time(self, window: Windowing) -> tuple[int, int]:
        """The stream time of an operator with these windows, before the epoch and at its end; past windows that were closed without it."""
        before, end = (of_closings(end.times, window, self.application.topic_ids) for end in (self.before, self.end))
        return before, end

    def reached(self, window: Windowing) -> tuple[int, int]:
        """The stream time that records have brought an operator with these windows to, before the epoch and at its end."""
        before, end = (of_windows(end.times, window, self.application.topic_ids) for end in (self.before, self.end))
        return before, end


@dataclass(frozen=True)
class ReaderSplit:
    """The part of an epoch's input that one reader takes, with the bytes of its `inline` slabs; number 0 carries the plan to the kernels."""

    number: int
    slices: tuple[Slice, ...]
    inline: Mapping[str, bytes] = field(default_factory=dict)
