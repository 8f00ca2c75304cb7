"""
Stream time of inputs and of operators (law 11).

An input's stream time is the largest committed order key of its topic. An operator's is the largest of the stream inputs that
feed it, but never less than what was committed for the operator's store, even if other inputs feed it after a restart. Windows
may have been closed beyond that, by a drain or because nothing came: rows for them are late, and nothing expires by it. All
travel in one mapping, from the catalog to the plan and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from streamkit.log.catalog.applications import EXPIRED_TIME, TIMES_METRIC, ApplicationState
from streamkit.plan.windows import Windowing

StreamTimes: TypeAlias = Mapping[str, int]  # in ms, by `of_input` and `of_store`

METRIC = TIMES_METRIC  # (name, time) pairs in the metrics of an epoch; those of the last committed epoch count
CLOCK_SEEN = "clock/seen"  # among the stream times: when the last epoch was, by the wall clock, if operators ask for ticks
CLOSED = "closed/"  # begins the names of the times up to which windows were closed without a record
BOOTSTRAP = "bootstrap/"  # begins the names of the offsets up to which tables are read before all streams
STORE, GIVEN, GRACE, PURGE, PARTITION = "store/", "given/", "grace/", "purge/", "partition/"
ARRIVAL, CLOCK_START = "arrival/", "clock/start/"  # begin the names of other times
NO_TIME = -(2**63)  # before every event time
ALWAYS_AHEAD = (1 << 63) - 1  # of results that came ahead of stream time: which ones is not known at any stream time
UNKNOWN = -((1 << 63) - 1) // 1000  # before all event times: that of a record whose column says none: it moves no time


def of_input(topic_id: int) -> str:
    """The name under which a topic's stream time is kept."""
    return f"input/{topic_id}"


def of_store(name: str) -> str:
    """The name under which the stream time of a store's operator is kept."""
    return f"{STORE}{name}"


def of_closed(name: str) -> str:
    """The name under which it is kept up to which stream time the windows of a store were closed without a record."""
    return f"{CLOSED}{name}"


def of_given(name: str) -> str:
    """The name under which it is kept up to which stream time results of a store came ahead of it, if records have come since."""
    return f"{GIVEN}{name}"


def of_grace(name: str) -> str:
    """The name under which the grace of a store's windows is kept by which its stream time goes, if a start has changed it."""
    return f"{GRACE}{name}"


def of_purge(name: str) -> str:
    """The name that stands there for an epoch in which a store forgets all that has expired, however long ago."""
    return f"{PURGE}{name}"


def of_expired(changelog_id: int) -> str:
    """The name under which an epoch says up to which event time the records of a changelog are of windows that have expired."""
    return f"{EXPIRED_TIME}{changelog_id}"


def without_sayings(times: StreamTimes) -> StreamTimes:
    """The times without those of one epoch: which stores were to forget what has expired, and what had expired by its end."""
    return {name: time for name, time in times.items() if not name.startswith((PURGE, EXPIRED_TIME))}


def clock_start(operator_id: str) -> str:
    """The name under which the time of the wall clock is kept at which an operator that asks for ticks had its first epoch."""
    return f"{CLOCK_START}{operator_id}"


def of_arrival(topic_id: int) -> str:
    """The name under which it is kept when, by the clock, an epoch last took records of a topic."""
    return f"{ARRIVAL}{topic_id}"


def of_bootstrap(topic_id: int, partition: int) -> str:
    """The name under which it is kept up to which offset a partition of a table is read before all streams."""
    return f"{BOOTSTRAP}{topic_id}/{partition}"


def of_partition(topic_id: int, partition: int) -> str:
    """The name under which the time of a partition is kept, the largest event time in it, if jumps of stream time are bounded."""
    return f"{PARTITION}{topic_id}/{partition}"


def of_windows(times: StreamTimes, window: Windowing, topic_ids: tuple[int, ...]) -> int:
    """
    The stream time of an operator with these windows; `topic_ids` are those of the program's inputs.

    It is that of its store. An input that a restart gave it may be ahead: `behind_inputs` says to where its time has to move first, so that
    what is due in between is given, and what has expired is deleted.
    """
    own = times.get(of_store(window.store))
    return _of_all(times, window, topic_ids) if own is None else own


def moved_on(times: StreamTimes, windows: Iterable[Windowing], topic_ids: tuple[int, ...]) -> StreamTimes:
    """The stream times of the operators with these windows, where their inputs are by these times."""
    found = {of_store(window.store): _of_all(times, window, topic_ids) for window in windows}
    return {name: time for name, time in found.items() if time != NO_TIME}


def behind_inputs(times: StreamTimes, windows: Iterable[Windowing], topic_ids: tuple[int, ...]) -> StreamTimes:
    """The stream times that inputs have passed without the operators which they feed: a restart gave them these inputs."""
    return {name: time for name, time in moved_on(times, windows, topic_ids).items() if times.get(name, time) < time}


def _of_all(times: StreamTimes, window: Windowing, topic_ids: tuple[int, ...]) -> int:
    names = [of_store(window.store), *(of_input(topic_ids[number]) for number in window.streams)]
    return max((times[name] for name in names if name in times), default=NO_TIME)


def of_closings(times: StreamTimes, window: Windowing, topic_ids: tuple[int, ...]) -> int:
    """The stream time up to which these windows have closed: that of their operator, or beyond it where no record closed them."""
    return max(of_windows(times, window, topic_ids), times.get(of_closed(window.store), NO_TIME))


def order_reached(times: StreamTimes) -> int:
    """The largest order key of any input."""
    return max((time for name, time in times.items() if name.startswith("input/")), default=NO_TIME)


def committed_times(state: ApplicationState, topic_ids: Iterable[int]) -> StreamTimes:
    """
    The stream times that an application had committed.

    Older applications had one stream time for all inputs: each input and store goes on from that.
    """
    kept: list[tuple[str, int]] | None = state.metrics.get(METRIC)
    if kept is not None:
        return dict(kept)
    if state.stream_time_ms is None:
        return {}
    names = [*map(of_input, topic_ids), *map(of_store, state.stores)]
    return dict.fromkeys(names, state.stream_time_ms)


def as_metric(times: StreamTimes) -> list[Any]:
    """The times as the metrics of an epoch hold them."""
    return [list(pair) for pair in sorted(times.items())]


def idle_from(times: StreamTimes, window: Windowing, topic_ids: tuple[int, ...]) -> int | None:
    """When, by the clock, the inputs of an operator will have been idle for as long as its windows wait; None if they do not, or nothing came."""
    arrivals = [times[name] for number in window.streams if (name := of_arrival(topic_ids[number])) in times]
    return None if window.close_after_idle_ms is None or not arrivals else max(arrivals) + window.close_after_idle_ms


def closed_by_idleness(times: StreamTimes, window: Windowing, topic_ids: tuple[int, ...], now_ms: int) -> StreamTimes:
    """
    The time, by name, that closes all windows of an operator, if its inputs have been idle for as long as it says.

    Nothing if they have not, or if that has closed them already.
    """
    moment = idle_from(times, window, topic_ids)
    if moment is None or now_ms < moment:
        return {}
    reached = max(times.get(of_input(topic_ids[number]), NO_TIME) for number in window.streams)
    closed = window.closing_time(reached, window.size_ms + window.grace_ms)
    return {of_closed(window.store): closed} if closed > of_closings(times, window, topic_ids) else {}
