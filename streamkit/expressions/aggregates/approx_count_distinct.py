"""
approx_count_distinct: how many distinct values there are, about, in a state of bounded size (HyperLogLog).

A value's hash, Spark's own, gives a register by its first bits and a rank by the zeros that follow; a register keeps its largest rank.
So the registers are those of Spark, whatever the order or the cut. Up to the bound where Spark counts empty registers, and from
five times the number of registers on, the estimate is Spark's; between them it is that of Ertl (2017), which needs no tables.

A state is one binary value: the precision, then a number of 32 bits (register, rank) for each register in use; from the point where
that would be longer, the precision plus 128, then a byte for each register.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Bytes, UnsignedIntegers
from streamkit.data_type import is_nested
from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, States, register
from streamkit.expressions.core.accumulation import Accumulator, Runs
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation, NoTranslationError, RuleError
from streamkit.expressions.core.recording import given_constant, recorded
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

__all__ = ["approx_count_distinct"]

HASH, PRECISION = "hash", "precision"
PRECISION_MIN, PRECISION_MAX = 4, 16
DEVIATION = 0.05  # of the estimate, unless one is given
DENSE = 128
RANK_BITS = 8
_COUNTED_BELOW = (10, 20, 40, 80, 220, 400, 900, 1800, 3100, 6500, 11500, 20000, 50000)  # by precision, from PRECISION_MIN on


def _typed(call: Invocation) -> tuple[TypedExpression, str]:
    """The hash of the value and the precision in a struct, null where the value is."""
    value = call.typed(0)
    if is_nested(value.type):
        raise NoTranslationError(f"{call.name}() of {value.type} has no incremental state; expected a value that holds no others")
    deviation = _deviation(call) if len(call.arguments) > 1 else DEVIATION
    precision = math.ceil(2.0 * math.log2(1.106 / deviation)) if deviation > 0 else PRECISION_MAX + 1
    if not PRECISION_MIN <= precision <= PRECISION_MAX:
        raise RuleError(f"{call.name}() takes a relative standard deviation from 0.0044 to 0.39; found {deviation}")
    parts = (literal(HASH, "string"), call.of("xxhash64", value), literal(PRECISION, "string"), literal(precision, "int"))
    return call.of("if", call.of("isnotnull", value), call.of("named_struct", *parts), literal(None, "void")), "bigint"


def _deviation(call: Invocation) -> float:
    told = call.cast(call.typed(1), "double")
    if told.name != "literal" or told.value is None:
        raise RuleError(f"{call.name}() is told by a constant number how far it may be off")
    return float(told.value)


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return (SchemaColumn(f"{aggregate.name}.registers", "binary"),)


def _lift(_: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    assert argument is not None, "a count of distinct values is of something"
    found = argument.drop_null()
    if not len(found):
        return [pa.nulls(rows, pa.binary())]
    hashes = pc.struct_field(found, HASH).to_numpy().view(np.uint64)
    precision = int(pc.struct_field(found, PRECISION)[0].as_py())
    registers = (hashes >> np.uint64(64 - precision)).astype(np.uint32)
    states = np.zeros(len(found), np.dtype([("precision", "u1"), ("number", "<u4")]))
    states["precision"], states["number"] = precision, registers << RANK_BITS | _ranks(hashes, precision)
    alone = pa.FixedSizeBinaryArray.from_buffers(pa.binary(5), len(found), [None, pa.py_buffer(states)]).cast(pa.binary())
    valid = argument.is_valid().to_numpy(zero_copy_only=False)
    return [alone.take(pa.array(np.cumsum(valid) - 1, mask=~valid))]


def _ranks(hashes: UnsignedIntegers, precision: int) -> npt.NDArray[np.uint32]:
    """One more than the zeros in front of what follows the register's bits."""
    rest = hashes << np.uint64(precision) | np.uint64(1 << precision - 1)
    bits = np.zeros(len(rest), np.uint32)  # how many the number has
    for step in (32, 16, 8, 4, 2, 1):
        is_longer = rest >= np.uint64(1) << np.uint64(step)
        rest = np.where(is_longer, rest >> np.uint64(step), rest)
        bits += is_longer.astype(np.uint32) * np.uint32(step)
    ranks: npt.NDArray[np.uint32] = np.uint32(64) - bits
    return ranks


def _merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
    runs, column = accumulate.runs, states[0]
    found = column.to_pylist()
    known = next((state for state in found if state), None)
    if known is None:
        return [pa.nulls(len(runs.starts), pa.binary())]
    precision = known[0] % DENSE
    return [pa.array(_merged(found, runs, precision), pa.binary())]


def _merged(states: list[bytes | None], runs: Runs, precision: int) -> list[bytes | None]:
    """One state for each run; runs that begin at one row follow each other, and each goes on from the one before."""
    results: list[bytes | None] = [None] * len(runs.starts)
    registers, start, end = np.zeros(1 << precision, np.uint8), -1, -1
    for place in np.lexsort((runs.ends, runs.starts)).tolist():
        if runs.starts[place] != start or runs.ends[place] < end:
            registers, start = np.zeros(1 << precision, np.uint8), int(runs.starts[place])
            end = start
        given = [state for state in map(states.__getitem__, runs.order[end : runs.ends[place]].tolist()) if state]
        end = int(runs.ends[place])
        _raise(registers, given)
        results[place] = _encoded(registers, precision) if given or registers.any() else None
    return results


def _raise(registers: Bytes, states: list[bytes]) -> None:
    """Give each register the largest rank that one of the states has for it."""
    sparse = [state[1:] for state in states if state[0] < DENSE]
    for state in states:
        if state[0] >= DENSE:
            np.maximum(registers, np.frombuffer(state, np.uint8, offset=1), out=registers)
    if sparse:
        numbers = np.frombuffer(b"".join(sparse), "<u4")
        np.maximum.at(registers, numbers >> RANK_BITS, (numbers & 0xFF).astype(np.uint8))


def _encoded(registers: Bytes, precision: int) -> bytes:
    used = np.flatnonzero(registers)
    if 4 * len(used) >= len(registers):
        return bytes([precision + DENSE]) + registers.tobytes()
    return bytes([precision]) + (used << RANK_BITS | registers[used]).astype("<u4").tobytes()


def _result(_: TypedAggregate, states: States) -> AggregateResult:
    return AggregateResult(pa.array([_estimate(state) if state else 0 for state in states[0].to_pylist()], pa.int64()))


def _estimate(state: bytes) -> int:
    precision = state[0] % DENSE
    registers = np.zeros(1 << precision, np.uint8)
    _raise(registers, [state])
    size, empty = len(registers), int((registers == 0).sum())
    if empty:
        counted = size * math.log(size / empty)
        if counted <= _COUNTED_BELOW[precision - PRECISION_MIN]:
            return math.floor(counted + 0.5)
    raw = _alpha(size) * size * size / float(np.exp2(-registers.astype(np.float64)).sum())
    return math.floor((raw if raw >= 5 * size else _by_ertl(registers, precision)) + 0.5)


def _alpha(size: int) -> float:
    return {16: 0.673, 32: 0.697, 64: 0.709}.get(size, 0.7213 / (1.0 + 1.079 / size))


def _by_ertl(registers: Bytes, precision: int) -> float:
    """The improved raw estimate of "New cardinality estimation algorithms for HyperLogLog sketches", which is not biased."""
    size, rank_max = len(registers), 64 - precision + 1
    counts: Any = np.bincount(registers, minlength=rank_max + 1)
    total = size * _tau(1.0 - counts[rank_max] / size)
    for rank in range(rank_max - 1, 0, -1):
        total = 0.5 * (total + counts[rank])
    return size * size / (2.0 * math.log(2.0)) / (total + size * _sigma(counts[0] / size))


def _sigma(share: float) -> float:
    if share == 1.0:
        return math.inf
    total, power, factor = share, share, 1.0
    while True:
        power *= power
        before, total, factor = total, total + power * factor, factor * 2.0
        if total == before:
            return total


def _tau(share: float) -> float:
    if share in (0.0, 1.0):
        return 0.0
    total, power, factor = 1.0 - share, share, 1.0
    while True:
        power = math.sqrt(power)
        factor *= 0.5
        before, total = total, total - (1.0 - power) ** 2 * factor
        if total == before:
            return total / 3.0


def approx_count_distinct(col: Column | str, rsd: float | None = None) -> Column:
    """About how many distinct values there are; `rsd` is the relative standard deviation of the estimate, 0.05 unless given."""
    return recorded("approx_count_distinct", col, *given_constant(rsd))


APPROX_COUNT_DISTINCT = register(
    AggregateFunction(
        "approx_count_distinct",
        _typed,
        _state_columns,
        _lift,
        _merge,
        _result,
        arity_max=2,
        is_nullable=False,
        has_bytes=True,
        not_of_tables="its sketch cannot forget the value of a row that leaves its group; expected count_distinct(…), which is exact",
    )
)
