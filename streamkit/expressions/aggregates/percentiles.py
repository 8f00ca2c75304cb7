"""
percentile_approx, percentile and median: how often each value came, in a state whose size is bounded.

A value is a double, and its key the bits of that, with the value's sign: so keys stand in the order of the values. Of
`percentile` the state counts every key. Of `percentile_approx` it counts keys without their last bits; `level` says how many
bits are missing. It is the smallest with which there are at most `bound` keys. So a state depends on the values alone, not on
the order or the portions in which they came, and a result is exact until there are more distinct values than that.

A state is one binary value of 64-bit numbers: bound * 256 + level, then a key and its count for each key, in order. The bound is
0 for `percentile`. Beyond ELEMENTS_MAX keys its state is one number, TOO_MANY, and stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Doubles, Integers, Mask
from streamkit.conditionals import if_else
from streamkit.data_type import array_of, decimal_of, to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, power_of_ten
from streamkit.errors import CorruptionError
from streamkit.expressions.aggregates.collection import ELEMENTS_MAX
from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, States, register
from streamkit.expressions.core.accumulation import Accumulator, Runs, per_group
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.groups import row_by_row
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation, NoTranslationError, RuleError, fitted
from streamkit.expressions.core.recording import constant, given_text, recorded
from streamkit.plan.expression import Call, TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

__all__ = ["approx_percentile", "median", "percentile", "percentile_approx"]

VALUE, BOUND, PERCENTAGES = "value", "bound", "percentages"
ACCURACY = 10_000
BOUND_MIN, BOUND_MAX = 100, 1_000_000
LEVELS, LEVEL_MAX = 256, 62
WORD = 8
INFINITY = 0x7FF0 << 48  # its bits
TOO_MANY = -1
_WAY_OUT = f"a group has at most {ELEMENTS_MAX:,} distinct values; take percentile_approx, or group by more columns"
_EXACT, _APPROXIMATE, _MEDIAN = "percentile", "percentile_approx", "median"


def _typed_approximate(call: Invocation) -> tuple[TypedExpression, str]:
    """Of any column with an order that doubles keep, in its own type."""
    accuracy = _number(call, 2, "accuracy") if len(call.arguments) > 2 else ACCURACY
    if not 1 <= accuracy < 2**31 or accuracy != int(accuracy):
        raise RuleError(f"{call.name}() takes a positive whole number as its accuracy; found {accuracy}")
    value = call.typed(0)
    number = {"date": "unix_date", "timestamp": "unix_micros"}.get(value.type)
    if value.type in ("timestamp_ntz", "boolean"):
        raise NoTranslationError(
            f"{call.name}() of {value.type} has no incremental state; expected a number, a date or a timestamp"
        )
    plain = call.cast(call.of(number, value) if number else fitted(call, "numeric, any*")[0], "double")
    bound = min(max(int(accuracy), BOUND_MIN), BOUND_MAX)
    return _wrapped(call, plain, bound, value.type if number else fitted(call, "numeric, any*")[0].type)


def _typed_exact(call: Invocation) -> tuple[TypedExpression, str]:
    """Of numbers, as a double."""
    if call.name.lower() != _MEDIAN and len(call.arguments) != 2:
        raise NoTranslationError(f"{call.name}() takes a column and one percentage or an array of them, no frequency")
    if call.name.lower() == _MEDIAN and len(call.arguments) != 1:
        raise RuleError(f"{call.name}() takes one column")
    number = fitted(call, "numeric, any*")[0]
    return _wrapped(call, call.cast(number, "double"), 0, "double")


def _wrapped(call: Invocation, value: TypedExpression, bound: int, result: str) -> tuple[TypedExpression, str]:
    """The value in a struct with what the result needs; null where the value is."""
    percentages, is_array = ([0.5], False) if call.name.lower() == _MEDIAN else _percentages(call)
    told = " ".join(map(repr, percentages))
    parts = {VALUE: value, BOUND: literal(bound, "bigint"), PERCENTAGES: literal(told, "string")}
    named = [part for name, one in parts.items() for part in (literal(name, "string"), one)]
    both = call.of("if", call.of("isnotnull", value), call.of("named_struct", *named), literal(None, "void"))
    return both, array_of(result) if is_array else result


def _percentages(call: Invocation) -> tuple[list[float], bool]:
    told = call.typed(1)
    is_array = told.name == "array"
    found = [_constant(call, one, "percentage") for one in (told.arguments if is_array else [told])]
    for one in found:
        if not 0.0 <= one <= 1.0:
            raise RuleError(f"{call.name}() takes percentages from 0.0 to 1.0; found {one}")
    if not found:
        raise RuleError(f"{call.name}() takes at least one percentage; found an empty array")
    return found, is_array


def _number(call: Invocation, place: int, what: str) -> float:
    return _constant(call, call.typed(place), what)


def _constant(call: Invocation, told: TypedExpression, what: str) -> float:
    number = call.cast(told, "double")
    if number.name != "literal" or number.value is None:
        raise RuleError(f"{call.name}() takes a constant number as its {what}")
    return float(number.value)


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return (SchemaColumn(f"{aggregate.name}.counts", "binary"),)


def _lift(_: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    assert argument is not None, "a percentile is of something"
    found = argument.drop_null()
    if not len(found):
        return [pa.nulls(rows, pa.binary())]
    numbers = np.empty((len(found), 3), np.int64)
    numbers[:, 0] = int(pc.struct_field(found, BOUND)[0].as_py()) * LEVELS
    numbers[:, 1] = keys_of(pc.struct_field(found, VALUE).to_numpy())
    numbers[:, 2] = 1
    alone = pa.FixedSizeBinaryArray.from_buffers(pa.binary(3 * WORD), len(found), [None, pa.py_buffer(numbers)]).cast(pa.binary())
    if len(found) == rows:
        return [alone]
    valid = argument.is_valid().to_numpy(zero_copy_only=False)
    return [alone.take(pa.array(np.cumsum(valid) - 1, mask=~valid))]


def keys_of(values: Doubles) -> Integers:
    """Numbers in the order of the doubles: -0.0 is 0.0, and every NaN one that is greater than all."""
    plain = np.where(np.isnan(values), np.nan, values + 0.0)
    bits: Integers = np.abs(plain).view(np.int64)
    return np.where(plain < 0, -bits, bits)


def values_of(keys: Integers, levels: Integers) -> Doubles:
    """The doubles that keys stand for: of those without their last bits the middle."""
    bits = np.abs(keys) << levels
    half = np.where((levels > 0) & (bits < INFINITY), np.left_shift(1, np.maximum(levels - 1, 0)), 0)
    values = (bits + half).view(np.float64)
    return np.where(keys < 0, -values, values)


@dataclass(frozen=True, eq=False)
class _CountedKeys:
    """The counted keys of several states: the state that each is of, in order; for each state its bound and its level."""

    owners: Integers
    keys: Integers
    counts: Integers
    bounds: Integers
    levels: Integers

    @classmethod
    def of(cls, column: pa.Array) -> _CountedKeys:
        """Taken apart; a null state has no keys. CorruptionError if bytes are no such states."""
        plain = pa.concat_arrays([column.cast(pa.large_binary()).fill_null(b"")])
        offsets = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset : plain.offset + len(plain) + 1]
        lengths = np.diff(offsets)
        if ((lengths % (2 * WORD) != WORD) & (lengths > 0)).any():
            raise CorruptionError(
                f"found a state of percentiles of {lengths.max()} bytes; expected one number, then pairs of them"
            )
        buffer = plain.buffers()[2]
        data = np.frombuffer(buffer if buffer is not None else b"", np.uint8)[offsets[0] : offsets[-1]].copy().view(np.int64)
        is_head, there = np.zeros(len(data), bool), lengths > 0
        heads = (offsets[:-1][there] - offsets[0]) // WORD
        is_head[heads] = True
        pairs = data[~is_head].reshape(-1, 2)
        told = np.zeros(len(lengths), np.int64)
        told[there] = data[heads]
        owners = np.repeat(np.arange(len(lengths)), np.maximum(lengths // WORD - 1, 0) // 2)
        levels = np.where(told == TOO_MANY, 0, told % LEVELS)
        return cls(owners, pairs[:, 0], pairs[:, 1], np.where(told == TOO_MANY, TOO_MANY, told // LEVELS), levels)

    def encoded(self, is_null: Mask) -> pa.BinaryArray:
        """As states."""
        sizes = np.bincount(self.owners, minlength=len(self.bounds))
        starts = np.concatenate([[0], np.cumsum(np.where(is_null, 0, 1 + 2 * sizes))])
        data = np.empty(starts[-1], np.int64)
        data[starts[:-1][~is_null]] = np.where(self.bounds == TOO_MANY, TOO_MANY, self.bounds * LEVELS + self.levels)[~is_null]
        places = starts[self.owners] + 1 + 2 * (np.arange(len(self.owners)) - (np.cumsum(sizes) - sizes)[self.owners])
        data[places], data[places + 1] = self.keys, self.counts
        buffers = [None, pa.py_buffer(starts * WORD), pa.py_buffer(data)]
        made = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(sizes), buffers).cast(pa.binary())
        return pc.if_else(pa.array(is_null), pa.scalar(None, pa.binary()), made) if is_null.any() else made

    def merged(self, owners: Integers, size: int) -> _CountedKeys:
        """The states added up; `owners` are the results into which they go."""
        bounds, levels = np.zeros(size, np.int64), np.zeros(size, np.int64)
        np.maximum.at(bounds, owners, self.bounds)
        np.maximum.at(levels, owners, self.levels)
        too_many = np.zeros(size, bool)
        too_many[owners[self.bounds == TOO_MANY]] = True
        of_keys = owners[self.owners]
        keys = _shortened(self.keys, levels[of_keys] - self.levels[self.owners])
        return _bounded(_CountedKeys(*_compact(of_keys, keys, self.counts), np.where(too_many, TOO_MANY, bounds), levels))


def _shortened(keys: Integers, bits: Integers | int) -> Integers:
    """The keys without so many more of their last bits."""
    shortened: Integers = np.sign(keys) * (np.abs(keys) >> bits)
    return shortened


def _compact(owners: Integers, keys: Integers, counts: Integers) -> tuple[Integers, Integers, Integers]:
    """Each key once, in order, with its count; those with a count of 0 are gone."""
    if not len(keys):
        return owners, keys, counts
    order = np.lexsort((keys, owners))
    owners, keys, counts = owners[order], keys[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], (owners[1:] != owners[:-1]) | (keys[1:] != keys[:-1])]))
    sums = np.add.reduceat(counts, starts)
    kept = starts[sums != 0]
    return owners[kept], keys[kept], sums[sums != 0]


def _bounded(found: _CountedKeys) -> _CountedKeys:
    """With at most as many keys as each state's bound allows."""
    owners, keys, counts, bounds, levels = found.owners, found.keys, found.counts, found.bounds.copy(), found.levels.copy()
    while True:
        sizes = np.bincount(owners, minlength=len(bounds))
        levels[sizes == 0] = 0  # all were taken away
        bounds[(bounds == 0) & (sizes > ELEMENTS_MAX)] = TOO_MANY
        kept = (bounds != TOO_MANY)[owners]
        owners, keys, counts = owners[kept], keys[kept], counts[kept]
        large = (bounds > 0) & (sizes > bounds) & (levels < LEVEL_MAX)
        if not large.any():
            return _CountedKeys(owners, keys, counts, bounds, levels)
        levels[large] += 1
        owners, keys, counts = _compact(owners, _shortened(keys, large[owners].astype(np.int64)), counts)


def _merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
    runs, found = accumulate.runs, _CountedKeys.of(states[0])
    rows, is_null = len(states[0]), states[0].is_null().to_numpy(zero_copy_only=False)
    sizes = runs.ends - runs.starts
    known = np.concatenate([[0], np.cumsum(~is_null[runs.order])])
    is_empty = known[runs.ends] == known[runs.starts]
    if sizes.sum() == len(runs.order):  # each row goes into one result
        owners = np.empty(rows, np.int64)
        owners[runs.order[_places(runs)]] = np.repeat(np.arange(len(sizes)), sizes)
        return [found.merged(owners, len(sizes)).encoded(is_empty)]
    return [_concatenated(_one_by_one(found, runs)).encoded(is_empty)]


def _places(runs: Runs) -> Integers:
    """The places in the order of the rows that the runs combine, run by run."""
    sizes = runs.ends - runs.starts
    places: Integers = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(runs.starts, sizes)
    return places


def _one_by_one(found: _CountedKeys, runs: Runs) -> list[_CountedKeys]:
    """One state for each run; runs that begin at one row follow each other, and each goes on from the one before."""
    borders = np.searchsorted(found.owners, np.arange(len(found.bounds) + 1)).tolist()
    results: list[Any] = [None] * len(runs.starts)
    state, start, end = _NOTHING, -1, -1
    for place in np.lexsort((runs.ends, runs.starts)).tolist():
        if runs.starts[place] != start or runs.ends[place] < end:
            state, start = _NOTHING, int(runs.starts[place])
            end = start
        for row in runs.order[end : runs.ends[place]].tolist():
            part = slice(borders[row], borders[row + 1])
            alone = _CountedKeys(
                found.owners[part] * 0, found.keys[part], found.counts[part],
                found.bounds[row : row + 1], found.levels[row : row + 1],
            )  # fmt: skip
            state = _with_one(state, alone) or _concatenated([state, alone]).merged(np.zeros(2, np.int64), 1)
        end = int(runs.ends[place])
        results[place] = state
    return results


def _with_one(state: _CountedKeys, alone: _CountedKeys) -> _CountedKeys | None:
    """A state with one more value, put into its place; None where that is not all."""
    level, bound = int(state.levels[0]), int(state.bounds[0])
    if not len(alone.keys) and not alone.bounds[0]:
        return state
    if len(alone.keys) != 1 or alone.levels[0] > level or alone.bounds[0] != bound:
        return None
    key = _shortened(alone.keys, level - alone.levels)[0]
    place = int(np.searchsorted(state.keys, key))
    if place < len(state.keys) and state.keys[place] == key:
        counts = state.counts.copy()
        counts[place] += alone.counts[0]
        return replace(state, counts=counts) if counts[place] else None
    if len(state.keys) >= (bound or ELEMENTS_MAX):
        return None
    return replace(
        state,
        owners=np.zeros(len(state.keys) + 1, np.int64),
        keys=np.insert(state.keys, place, key),
        counts=np.insert(state.counts, place, alone.counts[0]),
    )


_NONE = np.empty(0, np.int64)
_NOTHING = _CountedKeys(_NONE, _NONE, _NONE, np.zeros(1, np.int64), np.zeros(1, np.int64))


def _concatenated(parts: list[_CountedKeys]) -> _CountedKeys:
    states = np.cumsum([0, *(len(one.bounds) for one in parts[:-1])]).tolist()
    return _CountedKeys(
        np.concatenate([one.owners + first for one, first in zip(parts, states, strict=True)]),
        *(np.concatenate([getattr(one, name) for one in parts]) for name in ("keys", "counts", "bounds", "levels")),
    )


def _subtract(left: States, right: States) -> list[pa.Array]:
    taken = _CountedKeys.of(right[0])
    negative = _CountedKeys(taken.owners, taken.keys, -taken.counts, taken.bounds, taken.levels)
    is_null = right[0].is_null().to_numpy(zero_copy_only=False)
    both = pa.concat_arrays([left[0].cast(pa.binary()), negative.encoded(is_null)])
    return _merge([both], per_group(row_by_row(len(left[0]), 2)))


def _result(aggregate: TypedAggregate, states: States) -> AggregateResult:
    found = _CountedKeys.of(states[0])
    percentages = _told(aggregate)
    results = len(states[0])
    sizes = np.bincount(found.owners, minlength=results)
    starts = np.cumsum(sizes) - sizes
    running = np.cumsum(found.counts)
    before = np.concatenate([[0], running])[starts]
    totals = np.concatenate([[0], running])[starts + sizes] - before
    is_null, too_many = totals <= 0, found.bounds == TOO_MANY
    choose = _interpolated if aggregate.function == _EXACT else _of_rank
    columns = [choose(found, running, before, totals, one) for one in percentages]
    numbers = np.stack(columns, axis=1).reshape(-1) if results else np.empty(0)
    kind = aggregate.type.removeprefix("array<").removesuffix(">")
    values = _in_type(numbers, np.repeat(is_null, len(percentages)), kind)
    if aggregate.type.startswith("array<"):
        lengths = np.where(is_null, 0, len(percentages))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        values = values.filter(pa.array(np.repeat(~is_null, len(percentages))))
        lists = pa.ListArray.from_arrays(pa.array(offsets), values, type=to_arrow(aggregate.type))
        values = if_else(pa.array(is_null), pa.scalar(None, lists.type), lists)
    if not too_many.any():
        return AggregateResult(values)
    return AggregateResult(values, too_many, f"more than {ELEMENTS_MAX:,} distinct values", _WAY_OUT)


def _told(aggregate: TypedAggregate) -> list[float]:
    """The percentages, which stand in the struct of the argument."""
    assert aggregate.argument is not None, "a percentile is of something"
    struct = aggregate.argument.arguments[1]
    return [float(one) for one in str(struct.arguments[-1].value).split()]


def _at(found: _CountedKeys, running: Integers, ranks: Integers, is_there: Mask) -> Doubles:
    """The value of each state at a rank among all, counted from 1."""
    values = np.zeros(len(ranks))
    if is_there.any():
        place = np.searchsorted(running, ranks[is_there])
        values[is_there] = values_of(found.keys[place], found.levels[is_there])
    return values


def _of_rank(found: _CountedKeys, running: Integers, before: Integers, totals: Integers, share: float) -> Doubles:
    """The smallest value that is not below so large a share of the values, as Spark has it."""
    ranks = np.maximum(np.ceil(share * totals), 1).astype(np.int64)
    return _at(found, running, before + ranks, totals > 0)


def _interpolated(found: _CountedKeys, running: Integers, before: Integers, totals: Integers, share: float) -> Doubles:
    """Between the two values around the share, in proportion, as Spark has it."""
    positions = share * np.maximum(totals - 1, 0)
    low, high = np.floor(positions).astype(np.int64), np.ceil(positions).astype(np.int64)
    lower, higher = (_at(found, running, before + rank + 1, totals > 0) for rank in (low, high))
    with np.errstate(invalid="ignore", over="ignore"):  # infinity and NaN are values
        between = (high - positions) * lower + (positions - low) * higher
    return np.where((low == high) | (lower == higher), lower, between)


def _in_type(numbers: Doubles, is_null: Mask, kind: str) -> pa.Array:
    """Doubles as the type of the column; what lies between two whole numbers is cut off towards 0."""
    if kind in ("float", "double"):
        with np.errstate(over="ignore"):
            return pa.array(numbers.astype(np.float32 if kind == "float" else np.float64), mask=is_null)
    if digits := decimal_of(kind):
        unit, largest = power_of_ten(-digits[1]), Decimal((0, (9,) * digits[0], -digits[1]))
        exact = [None if null else _decimal(one, unit, largest) for one, null in zip(numbers.tolist(), is_null, strict=True)]
        return pa.array(exact, to_arrow(kind))
    storage = {"date": pa.int32(), "timestamp": pa.int64()}.get(kind, to_arrow(kind))
    limits = np.iinfo(storage.to_pandas_dtype())
    whole = np.where(numbers >= float(limits.max), 0, np.trunc(np.maximum(numbers, float(limits.min))))
    clipped = np.where(numbers >= float(limits.max), limits.max, whole.astype(np.int64)).astype(storage.to_pandas_dtype())
    return pa.array(clipped, storage, mask=is_null).view(to_arrow(kind))


def _decimal(number: float, unit: Decimal, largest: Decimal) -> Decimal:
    exact = Decimal(repr(number))
    if exact.copy_abs() >= largest:
        return largest.copy_sign(exact)
    return exact.quantize(unit, ROUND_HALF_UP, DECIMAL_CONTEXT)


def percentile_approx(col: Column | str, percentage: Column | float | Sequence[float], accuracy: Column | int = 10000) -> Column:
    """
    The smallest value that at least this share (0.0 to 1.0) of all values does not exceed, in the column's type; an array for several shares.

    Exact for up to `accuracy` distinct values in a group. Beyond that the value may be off, relative to itself, by about the logarithm
    (base 2) of the largest magnitude over the smallest, divided by `accuracy`. It depends neither on the order nor on the cut.

        latencies.group_by("page").agg(p=F.percentile_approx("ms", [0.5, 0.99]))
    """
    return recorded("percentile_approx", col, _numbers(percentage), given_text(accuracy))


approx_percentile = percentile_approx


PERCENTILE_APPROX = register(
    AggregateFunction(
        _APPROXIMATE, _typed_approximate, _state_columns, _lift, _merge, _result,
        subtract=_subtract, arity=2, arity_max=3, functions=("approx_percentile",),
    )
)  # fmt: skip


def percentile(col: Column | str, percentage: Column | float | Sequence[float], frequency: Column | int = 1) -> Column:
    """
    The exact value below which this share (0.0 to 1.0) of all values lies, interpolated as a double; an array for several shares.

    An error beyond 100,000 distinct values. A `frequency` other than 1 is refused.
    """
    is_once = isinstance(frequency, int) and frequency == 1
    return recorded("percentile", col, _numbers(percentage), *(() if is_once else (given_text(frequency),)))


def median(col: Column | str) -> Column:
    """The exact middle value as a double; an error beyond 100,000 distinct values."""
    return recorded("median", col)


def _numbers(told: Column | float | Sequence[float]) -> object:
    """A percentage, or several as an array."""
    return Column(Call("array", tuple(constant(one) for one in told))) if isinstance(told, (list, tuple)) else given_text(told)


PERCENTILE = register(
    AggregateFunction(
        _EXACT, _typed_exact, _state_columns, _lift, _merge, _result,
        subtract=_subtract, arity=1, arity_max=3, functions=(_MEDIAN,),
    )
)  # fmt: skip
