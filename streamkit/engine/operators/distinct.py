"""Distinct: passes rows that are no duplicates of one that passed."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.folding.nearby import Axis
from streamkit.engine.folding.stored_windows import expired
from streamkit.engine.folding.window_state import WindowKeys, keys_of
from streamkit.engine.rows.place import in_canonical_order
from streamkit.engine.rows.rows import OptionalBatch, deletions_of, is_null_key, numbers, with_one_key
from streamkit.engine.stage.advance import stream_times
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.byte_order import byte_order
from streamkit.names import TIMESTAMP
from streamkit.plan.closing import are_over
from streamkit.plan.operators.distinct import Distinct
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows, encode_rows

ROUNDS_MAX = 16  # of rows that pass one by one, all keys at once; what is left then is looked at row by row


@kernel(Distinct, runs_empty=True)
def distinct(operator: Distinct, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """
    The rows that are no duplicates, in canonical order; late ones are dropped, and counted as duplicates are.

    Deletions pass, and so do rows whose columns are all null: nothing says what they would be duplicates of.
    """
    (batch,) = inputs
    if batch is None:
        _keep(operator, None, np.empty(0, np.int64), context, np.empty(0, bool))
        return None
    batch = in_canonical_order(batch)
    times = numbers(batch, TIMESTAMP)
    free = deletions_of(batch) | is_null_key(batch, operator.columns).to_numpy(zero_copy_only=False)
    reached = stream_times(operator, operator.window, batch, context)
    late = ~free & are_over(times + (operator.within_ms + operator.window.grace_ms + 1), reached)
    asked = np.flatnonzero(~free & ~late)
    passes = _passing(operator, batch, asked, context)
    context.count("late", operator.id, int(late.sum()))
    context.count("duplicate", operator.id, len(asked) - len(passes))
    kept = free.copy()
    kept[passes] = True
    return batch.filter(pa.array(kept))


def _passing(operator: Distinct, batch: pa.RecordBatch, asked: Integers, context: Context) -> Integers:
    """Which of the rows asked about are no duplicates; they are remembered."""
    if not len(asked):
        _keep(operator, None, asked, context, np.empty(0, bool))
        return asked
    rows = batch.take(pa.array(asked))
    keys, codes = keys_of(operator.columns, with_one_key(rows, operator.columns))
    times = numbers(rows, TIMESTAMP)
    owners, known = _stored(operator, keys, codes, times, context)
    passes = _first_ones(codes, times, owners, known, operator.within_ms)
    size = operator.window.size_ms
    width = int(codes.max()) + 1  # so that a bucket of a key is one number
    was_stored = np.isin(times[passes] // size * width + codes[passes], known // size * width + owners)
    _keep(operator, keys.take(codes[passes]), times[passes], context, was_stored)
    return asked[passes]


def _stored(
    operator: Distinct, keys: WindowKeys, codes: Integers, times: Integers, context: Context
) -> tuple[Integers, Integers]:
    """The times of stored rows of these keys near these times, and the code of the key of each."""
    size = operator.window.size_ms
    near = np.concatenate([times // size + step for step in (-1, 0, 1)])
    pairs = np.unique(np.stack([np.tile(codes, 3), near]), axis=1)
    found = _state_keys(operator, keys.take(pairs[0]), pairs[1] * size, context)
    order = byte_order(found)
    values = context.committed_state().get(found.take(order))
    there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    (known,) = decode_rows(values.drop_null(), ["bigint"])
    return pairs[0][order.to_numpy()[there]], known.to_numpy(zero_copy_only=False).astype(np.int64)


def _first_ones(codes: Integers, times: Integers, owners: Integers, known: Integers, within: int) -> Integers:
    """Which rows, in their order, are not within that time of a known one of their key, nor of one that passed before them."""
    axis = Axis.of(int(codes.max()) + 1, [times, times - within, times + within + 1, known])
    passed: list[Integers] = []
    left, places = np.arange(len(codes)), np.sort(axis.places(owners, known))
    for _ in range(ROUNDS_MAX):
        first, last = axis.before(codes[left], times[left] - within), axis.behind(codes[left], times[left] + within)
        left = left[np.searchsorted(places, first, "left") == np.searchsorted(places, last, "right")]
        if not len(left):
            return np.sort(np.concatenate(passed)) if passed else left
        firsts = left[np.unique(codes[left], return_index=True)[1]]
        passed.append(firsts)
        places = np.sort(np.concatenate([places, axis.places(codes[firsts], times[firsts])]))
        left = np.setdiff1d(left, firsts, assume_unique=True)
    done = np.concatenate(passed)
    before = np.concatenate([owners, codes[done]]), np.concatenate([known, times[done]])
    return np.sort(np.concatenate([done, _one_by_one(left, codes, times, before, within)]))


def _one_by_one(left: Integers, codes: Integers, times: Integers, before: tuple[Integers, Integers], within: int) -> Integers:
    """As `_first_ones`, of rows of few keys of which many pass."""
    seen: dict[int, list[int]] = defaultdict(list)
    for code, time in zip(*(part.tolist() for part in before), strict=True):
        insort(seen[code], time)
    passed = []
    for row, code, time in zip(left.tolist(), codes[left].tolist(), times[left].tolist(), strict=True):
        place = bisect_left(seen[code], time - within)
        if place == len(seen[code]) or seen[code][place] > time + within:
            insort(seen[code], time)
            passed.append(row)
    return np.array(passed, np.int64)


def _keep(operator: Distinct, keys: WindowKeys | None, times: Integers, context: Context, was_stored: Mask) -> None:
    """Remember the rows that passed, in place of the rows in `was_stored`, and forget rows that are too old for any row that is in time."""
    found, values, starts = pa.array([], pa.binary()), pa.array([], pa.binary()), np.empty(0, np.int64)
    if keys is not None and len(times):
        starts = times // operator.window.size_ms * operator.window.size_ms
        found = _state_keys(operator, keys, starts, context)
        order = byte_order(found)
        places = order.to_numpy()
        found, starts, times, was_stored = found.take(order), starts[places], times[places], was_stored[places]
        values = encode_rows([pa.array(times, pa.int64())])
    retention = context.store(operator.store).retention_ms
    assert retention is not None, "what was seen is forgotten"
    changes = expired(operator, operator.window, retention, starts, (found, values, times, was_stored), context)
    context.change(operator.store, *changes)


def _state_keys(operator: Distinct, keys: WindowKeys, starts: Integers, context: Context) -> pa.BinaryArray:
    layout, number = layout_of(context.store(operator.store)), context.store_number(operator.store)
    return layout.keys(number, keys.groups, keys.columns, (starts,))
