"""What a processor is given: its context, and the record whose turn it is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from streamkit.engine.processors.call import ProcessorCall
from streamkit.engine.processors.processor_store import ProcessorStore
from streamkit.engine.processors.store_time import StoreTime, milliseconds
from streamkit.names import DELETED
from streamkit.plan.processing import ForeignCalls, RefusedCallError, Schedule

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class RecordMetadata(NamedTuple):
    """Where a record comes from: the topic, the partition of it, and the offset there."""

    topic: str
    partition: int
    offset: int


class Forwarding(Protocol):
    """Where rows go that a processor forwards."""

    def __call__(self, row: Any, timestamp: int | None, headers: Headers | None, to: str | None) -> None: ...


class Record:
    """
    A record that a processor is given, while `process` has it: afterwards it cannot be read.

    `key` and `value` are dicts of columns; a tombstone's value is None. `row` has all columns, and `_deleted` of a tombstone alone.
    `timestamp` is in ms since 1970 UTC. `headers` are pairs of a name and bytes, or None.
    """

    __slots__ = ("_call", "_headers", "_is_deleted", "_key_names", "_row", "_timestamp", "_turn")

    def __init__(
        self,
        call: ProcessorCall,
        row: dict[str, Any],
        key_names: tuple[str, ...],
        timestamp: int,
        is_deleted: bool,
        headers: Headers = (),
    ) -> None:
        self._call = call
        self._turn = call.turn
        self._row = {**row, DELETED: True} if is_deleted else row
        self._key_names = key_names
        self._timestamp = timestamp
        self._is_deleted = is_deleted
        self._headers = headers

    def __repr__(self) -> str:
        return f"Record({self._row}, timestamp={self._timestamp}, deleted={self._is_deleted})"

    def __getitem__(self, column: str) -> Any:
        """The value of a column."""
        try:
            return self.row[column]
        except KeyError:
            raise RefusedCallError(f"the record has no column {column!r}; it has {', '.join(self._row)}") from None

    @property
    def row(self) -> dict[str, Any]:
        """All columns; those of a tombstone's value are None, and it has `_deleted`."""
        self._check()
        return self._row

    @property
    def key(self) -> dict[str, Any]:
        """The key columns."""
        row = self.row
        return {name: row[name] for name in self._key_names}

    @property
    def value(self) -> dict[str, Any] | None:
        """The columns that are not of the key; None of a tombstone."""
        row = self.row
        return None if self._is_deleted else {name: value for name, value in row.items() if name not in self._key_names}

    @property
    def timestamp(self) -> int:
        """Its event time, in ms since 1970 UTC."""
        self._check()
        return self._timestamp

    @property
    def deleted(self) -> bool:
        """Whether it is a tombstone, which deletes its key."""
        self._check()
        return self._is_deleted

    @property
    def headers(self) -> Headers:
        """Its headers, in their order: pairs of a name, which may occur more than once, and bytes or None; empty if it has none."""
        self._check()
        return self._headers

    def header(self, name: str) -> bytes | None:
        """The value of the last header of this name; None if there is none."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    def _check(self) -> None:
        """RefusedCallError if the call of process() is over that the record was given to."""
        if self._turn != self._call.turn or self._call.what != "process":
            raise RefusedCallError(
                f"a record was used after the call of process() that it was given to, in the processor {self._call.name}; expected to "
                "keep its values, or to put them into a store"
            )


@dataclass
class Scheduled:
    """A schedule, and what it calls; `cancel` ends it, for its key group, for good."""

    schedule: Schedule
    callback: Callable[[int], object]
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Call it no more."""
        self.is_cancelled = True


class ProcessorContext(ForeignCalls):
    """
    What a processor can ask for, within `init`, `process`, `close` and what it schedules.

    Its key group is to it what a task is to Kafka Streams: stores, schedules and the object are of one key group.
    """

    def __init__(
        self,
        call: ProcessorCall,
        stores: Mapping[str, ProcessorStore[Any]],
        forwarding: Forwarding,
        scheduled: list[Scheduled],
        metadata: Callable[[int], RecordMetadata | None],
    ) -> None:
        self._call = call
        self._stores = stores
        self._forwarding = forwarding
        self._scheduled = scheduled
        self._metadata = metadata

    def forward(
        self,
        row: Any,
        timestamp: StoreTime | None = None,
        headers: Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] | None = None,
        to: str | None = None,
    ) -> None:
        """
        Hand on a row, as a dict of the declared columns, or the record itself, to all children, or to the one named `to`.

        Key columns that are not declared are the record's. None, or a dict with `_deleted` true, is a tombstone. `timestamp` is the
        record's unless it is given; in a call that was scheduled it is the time of the call. So are `headers`, a dict or pairs of a name
        and bytes; in a call that was scheduled there are none. With by="batch" the row is a pyarrow.RecordBatch, in which `_row` says which
        row of the batch each one comes from; `_timestamp` and `_headers` are columns of it. A call that was scheduled forwards either.
        """
        self._call.check("the context")
        if self._call.what in ("init", "close"):
            raise RefusedCallError("forward(); expected it in process() or in what schedule() calls")
        given = None if headers is None else checked_headers(headers)
        self._forwarding(
            row.row if isinstance(row, Record) else row, None if timestamp is None else milliseconds(timestamp), given, to
        )

    def store(self, name: str) -> Any:
        """The store of this name, as far as it belongs to the key group."""
        self._call.check("the context")
        if name not in self._stores:
            raise RefusedCallError(
                f"there is no store {name!r}; the processor was given {', '.join(self._stores) or 'none'}: expected it in stores=[…]"
            )
        return self._stores[name]

    def schedule(self, interval: dt.timedelta | str, clock: str, callback: Callable[[int], object]) -> Scheduled:
        """
        Call a function whenever an interval of "stream_time" or of the "wall_clock" has passed, with that time in ms.

        Only `init` can ask for it. `cancel()` of the result ends it.
        """
        self._call.check("the context")
        if self._call.what != "init":
            raise RefusedCallError(
                "schedule(); expected it in init(), because the engine must know of schedules before it runs: schedule there, and keep in a "
                "store what is to be done"
            )
        if not callable(callback):
            raise RefusedCallError(f"schedule() was given {callback!r}; expected a function of the time in ms")
        try:
            found = Scheduled(Schedule.of(interval, clock), callback)
        except ValueError as error:
            raise RefusedCallError(str(error)) from None
        self._scheduled.append(found)
        return found

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record; None where there is none, as in a call that was scheduled."""
        self._call.check("the context")
        return None if self._call.origin is None else self._metadata(self._call.origin)

    @property
    def stream_time(self) -> int | None:
        """The largest event time so far, of all inputs that feed the processor, in ms; None before the first record."""
        self._call.check("the context")
        return self._call.stream_time

    @property
    def wall_clock(self) -> int:
        """The time of the epoch by the wall clock, in ms; it stands still while the epoch runs."""
        self._call.check("the context")
        return self._call.wall_clock

    @property
    def task(self) -> int:
        """The number of the key group."""
        self._call.check("the context")
        return self._call.group


def checked_headers(headers: Any) -> Headers:
    """Headers as pairs; RefusedCallError unless each is a text with bytes or None."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    try:
        found = tuple((one["key"], one["value"]) if isinstance(one, dict) else tuple(one) for one in pairs)
    except (TypeError, KeyError):
        found = ((),)
    if not all(len(one) == 2 and isinstance(one[0], str) and isinstance(one[1], bytes | None) for one in found):
        raise RefusedCallError(f"found headers={headers!r}; expected a dict, or pairs, of a name and bytes or None")
    return cast(Headers, found)
