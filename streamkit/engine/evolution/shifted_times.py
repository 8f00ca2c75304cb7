"""
Stream times of stores whose windows got another grace, or another retention, at a start.

Which windows have closed must not depend on it: what gave its final result gives no second one, and what was open gives one. A window has
closed if stream time is the grace past its end. With a longer grace the time up to which windows have closed moves by as much, as if that had
been done without a record. Stream time itself stays: what a drain closes, and what expires, goes by the records that came. With a shorter
grace stream time is taken back by as much, behind the inputs, and an epoch without records brings it on again and closes what is due.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamkit.engine.epoch.stream_time import NO_TIME, StreamTimes, of_closed, of_grace, of_purge, of_store
from streamkit.plan.program import Program


def shifted_times(times: StreamTimes, before: Program, program: Program, stores: Iterable[str]) -> StreamTimes:
    """
    The times that the program goes on from in place of those kept, of these stores of both programs.

    The grace that a time goes by stands beside it, so a start that fails behind its first commit is not repeated. What retention has ended
    by the new times is deleted in the next epoch.
    """
    found: dict[str, int] = {}
    for name in stores:
        earlier, window = before.keeper(name).windowing, program.keeper(name).windowing
        if earlier is None or window is None or not program.keeper(name).traits.closes_windows or of_store(name) not in times:
            continue
        grown = window.grace_ms - times.get(of_grace(name), earlier.grace_ms)
        if grown or before.store(name).retention_ms != program.store(name).retention_ms:
            closed = times.get(of_closed(name), NO_TIME)
            if grown > 0:  # windows that the shorter grace has closed stay closed
                found[of_closed(name)] = max(times[of_store(name)], closed) + grown
            else:
                found |= {kept: times[kept] + grown for kept in (of_store(name), of_closed(name)) if kept in times}
            found |= {of_grace(name): window.grace_ms, of_purge(name): 1}
    return found
