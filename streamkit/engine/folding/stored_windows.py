"""Which stored windows close or expire in an epoch, as ranges of their keys: these begin with the times by which windows are known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.stage.context import Context, key_groups_of
from streamkit.plan.operator import Operator
from streamkit.plan.windows import Windowing
from streamkit.state.layout import layout_of

KnownChanges = tuple[
    pa.BinaryArray, pa.BinaryArray, Integers, Mask
]  # state keys, values, event times, and which of the keys have rows


def expired(
    operator: Operator,
    window: Windowing,
    retention: int,
    windows: Integers | None,
    changes: KnownChanges,
    context: Context,
) -> KnownChanges:
    """The changes of an operator's one store without the `windows` whose retention has ended; stored ones are deleted."""
    keys, values, timestamps, was_stored = changes
    (store,) = operator.stores
    now = context.reached(window)[1]
    expired_keys = context.committed_state().scan_keys(ranges_reached(store, window, context, retention, has_expired=True))
    if windows is not None:
        alive = windows + retention > now
        if not alive.all():
            keys, values = keys.filter(pa.array(alive)), values.filter(pa.array(alive))
            timestamps, was_stored = timestamps[alive], was_stored[alive]
    if not len(expired_keys):
        return keys, values, timestamps, was_stored
    context.count("expired", operator.id, len(expired_keys))
    all_keys = pa.concat_arrays([keys, expired_keys])
    all_values = pa.concat_arrays([values, pa.nulls(len(expired_keys), pa.binary())])
    all_timestamps = np.concatenate([timestamps, np.full(len(expired_keys), now, np.int64)])
    all_stored = np.concatenate([was_stored, np.ones(len(expired_keys), bool)])
    # Within a key group expired windows sort before open ones, so sorting by key group alone puts all keys in order.
    order = np.argsort(key_groups_of(all_keys).astype(np.uint16), kind="stable")
    return all_keys.take(pa.array(order)), all_values.take(pa.array(order)), all_timestamps[order], all_stored[order]


def ranges_reached(
    store: str, window: Windowing, context: Context, wait: int, *, has_expired: bool = False
) -> list[tuple[bytes, bytes]]:
    """
    Ranges of state keys, one per key group of the task: windows whose start plus `wait` is reached by stream time in this epoch.

    With `has_expired` stream time is that of records alone, and those are among them that were reached before, if the store is to forget
    them.
    """
    number = context.store_number(store)
    before, now = context.reached(window) if has_expired else context.stream_time(window)
    is_purged = has_expired and context.is_purged(store) and now != NO_TIME
    if now == before and not is_purged:
        return []
    first = NO_TIME if before == NO_TIME or is_purged else before - wait + 1
    last = now - wait + 1
    if not window.has_any(first, last):
        return []
    return layout_of(context.store(store)).ranges(number, context.groups, first, last)


def first_open_at(window: Windowing, time: int) -> int:
    """The first window that is open when stream time is so far; NO_TIME while there is no stream time, as nothing has closed then."""
    return NO_TIME if time == NO_TIME else int(window.first_open(np.array([time]))[0])


def ranges_closed(store: str, window: Windowing, context: Context) -> list[tuple[bytes, bytes]]:
    """Ranges of state keys, one per key group of the task: windows that close in this epoch."""
    before, now = context.stream_time(window)
    if now == before:
        return []
    first, last = (first_open_at(window, time) for time in (before, now))
    if not window.has_any(first, last):
        return []
    return layout_of(context.store(store)).ranges(context.store_number(store), context.groups, first, last)
