"""
How far event times may lie from the clock: Kafka's `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`.

One record from far ahead moves the stream time of every application that reads it, so that all that comes after it is late.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.log.rows.record_size import ROWS_NAMED
from streamkit.log.topic.settings import TIMESTAMP_AFTER_MAX_MS, TIMESTAMP_BEFORE_MAX_MS, UNLIMITED
from streamkit.log.topic.topic import Topic
from streamkit.names import TIMESTAMP

TIME_MS_MAX = (1 << 53) - 1  # of any event time, the year 287396: windows behind it still end within what timestamps hold
_EARLIEST_MS, _LATEST_MS = -TIME_MS_MAX, TIME_MS_MAX


@dataclass(frozen=True)
class TimeLimits:
    """The event times that a topic takes at one moment, both included, in ms."""

    earliest_ms: int = _EARLIEST_MS
    latest_ms: int = _LATEST_MS

    @classmethod
    def of(cls, topic: Topic, now_ms: int) -> TimeLimits:
        """Those of a topic; no limits under LogAppendTime, where the time is always now."""
        if topic.is_stamped_on_append:
            return cls()
        before, after = topic.setting(TIMESTAMP_BEFORE_MAX_MS), topic.setting(TIMESTAMP_AFTER_MAX_MS)
        return cls(
            cls.earliest_ms if before == UNLIMITED else max(now_ms - int(before), cls.earliest_ms),
            cls.latest_ms if after == UNLIMITED else min(now_ms + int(after), cls.latest_ms),
        )

    @property
    def is_open_to_the_past(self) -> bool:
        return self.earliest_ms == _EARLIEST_MS

    def take(self, time_ms: int) -> bool:
        """Whether a record of that time is within them."""
        return self.earliest_ms <= time_ms <= self.latest_ms


def check_times(topic: Topic, batch: pa.RecordBatch, now_ms: int, first_row: int = 0) -> None:
    """SchemaError, which names the first record whose event time lies too far from the clock, if there is one."""
    limits = TimeLimits.of(topic, now_ms)
    times = batch.column(TIMESTAMP).view(pa.int64()).to_numpy()
    if not len(times) or (limits.take(int(times.min())) and limits.take(int(times.max()))):
        return
    rows = np.flatnonzero((times < limits.earliest_ms) | (times > limits.latest_ms))
    time_ms = int(times[rows[0]])
    named = tuple(first_row + int(row) for row in rows[:ROWS_NAMED])
    if abs(time_ms) > TIME_MS_MAX:
        raise SchemaError(
            f"row {named[0]}, column {(topic.timestamp or TIMESTAMP)!r}: its event time is {time_ms} ms; expected at most {TIME_MS_MAX} ms "
            "before or after 1970",
            named,
        )
    setting = TIMESTAMP_AFTER_MAX_MS if time_ms > now_ms else TIMESTAMP_BEFORE_MAX_MS
    raise SchemaError(
        f"row {first_row + int(rows[0])}, column {(topic.timestamp or TIMESTAMP)!r}: its event time, {_spoken(time_ms)}, lies "
        f"{_length(abs(time_ms - now_ms))} {'ahead of' if time_ms > now_ms else 'behind'} the clock, the topic allows "
        f"{setting}={topic.setting(setting)}; fix the time (it is in milliseconds since 1970), or alter the setting",
        named,
    )


def milliseconds_of(stamps: pa.Array) -> pa.Array:
    """Microseconds as whole milliseconds, rounded down also before 1970; null where there is none."""
    numbers = stamps.view(pa.int64())
    values = (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy()
    missing = numbers.is_null().to_numpy(zero_copy_only=False) if numbers.null_count else None
    return pa.array(values // 1000, pa.int64(), mask=missing)


def _spoken(time_ms: int) -> str:
    try:
        return (dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=time_ms)).isoformat(
            timespec="milliseconds"
        )
    except OverflowError:
        return f"{time_ms} ms since 1970"


def _length(milliseconds: int) -> str:
    days, rest = divmod(milliseconds, 86_400_000)
    return f"{days} days" if days > 1 else f"{rest + days * 86_400_000} ms"
