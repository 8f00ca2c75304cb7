"""
When a window has closed, a wait is over, and a record is late: one rule, for all that ends by stream time.

What is due at a moment is over as soon as stream time has reached that moment (`are_over`). A record is late for what is over at its place,
where the record itself has moved stream time already. This is how long after its own time a thing is due:

    a window [start, end)                      from its end: the grace. Kafka's rule: closed when stream time >= end + grace
    a sliding window [start, end]              the same, but its end is part of it, so it ends a millisecond later
    a session                                  from its last record: gap, a millisecond, and the grace
    a record that may be a duplicate           from its time: the time within which it is one, a millisecond, and the grace
    a change of a versioned table              from its time: the history, and a millisecond
    a row that waits for such changes          from its time: the grace; or as a change of the table, by the table's stream time
    a row that others of a stream may meet     from its time: `keep_ms` of the join; `close_ms` if it waits for a partner

So a record is late for each window by itself, and late altogether if the last window that holds it has closed. Which windows hold it, and
where they end, the kind of windows says; `Windowing` turns that into the methods that kernels call.

Sessions have one more bound, as in Kafka: in the last millisecond before it closes, a session takes only a record that moves stream time
(`SessionWindowing.take_rows`). Another record near it is late or begins a session of its own, by its own time.

How long a store keeps what is over is another matter: that is its retention.
"""

from __future__ import annotations

from streamkit.arrays import Integers, Mask


def are_over(due: Integers, reached: Integers | int) -> Mask:
    """Whether what is due at these moments is over, when stream time is so far."""
    over: Mask = due <= reached
    return over
