"""
The place of a row in the canonical order (law 11), and sorting by it.

A place is (order key, input, partition, offset, path). Rows that a record causes stand at the record's place. Two kinds of
rows come without a record of their own:

    final results     just before the record that moved stream time past their due moment: at its place, one offset earlier.
                      That place is free, because the record before it in its partition has a smaller order key
    newest results    at the end of the epoch: behind all inputs, by the number of their operator

If one place holds several rows, `_path` orders them: bytes made of one part after another. A part begins with a number of the operator
that made it (`streamkit.plan.turns`), by which it is known how long it is:

    of several rows that an operator made of one    the number of the operator, then what orders them: a number, a window, a key
    of a row that came by one of several inputs     the number of that input, where one record may come by several
    of a row that got another key                   the number of the exchange, in front of the parts before: it waits for all rows of a record
    of a row that time brings                       the number of the operator, then what orders them; it is the first part, or behind `0000`

So no path is the beginning of another one of the same place, and wherever a path goes on, rows stay in order. Bytes compare as the values
they stand for, so no tie is decided by a hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import AnyArray, Integers, Mask, UnsignedIntegers
from streamkit.log.values.byte_order import ROWS_MIN, byte_order, order_of_numbers, order_of_words, words_of
from streamkit.log.values.keys import key_parts
from streamkit.log.values.slices import ByteSlices, RowPart, join
from streamkit.names import DUE, HEADERS, INPUT, OFFSET, ORDER, ORDER_COLUMNS, PARTITION, PATH
from streamkit.plan.program import Number, Turn

OPERATORS = 1 << 14  # numbers of operators, as inputs, begin here
WITHOUT_RECORD = -1  # the input of results that time alone brings, in an epoch without records
BEFORE_RECORD = b"\x00\x00"  # no number: begins the path of a final result, and of what it causes
BEHIND_RECORD = b"\xff\xff"  # no number either: begins the path of what a schedule calls, behind all that the record caused
_SIGN = np.uint64(1 << 63)


def has_place(batch: pa.RecordBatch) -> bool:
    """Whether the rows have a place of their own; folded rows, and those that will be folded by the readers, have none."""
    return INPUT in batch.schema.names


def place_columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns that make up the place of each row, and the headers of the record there."""
    return {name: batch[name] for name in (*ORDER_COLUMNS, PATH, DUE, HEADERS) if name in batch.schema.names}


def at_epoch_end(order: int, number: int, paths: pa.BinaryArray) -> dict[str, pa.Array]:
    """The place of the newest results of operator `number`: behind every record of an epoch that ends at this order key."""
    rows = len(paths)
    return {
        ORDER: pa.array(np.full(rows, order, np.int64)),
        INPUT: pa.array(np.full(rows, OPERATORS + number, np.int16)),
        PARTITION: pa.array(np.zeros(rows, np.int32)),
        OFFSET: pa.array(np.zeros(rows, np.int64)),
        PATH: paths,
    }


def paths_of(
    number: int | None, windows: Integers | None, keys: Sequence[pa.Array] = (), comes_first: Mask | None = None
) -> pa.BinaryArray:
    """Bytes in the order of (operator, window, whether it comes first, key), as a first part."""
    rows = len(windows) if windows is not None else len(keys[0])
    parts: list[npt.NDArray[np.void]] = []
    if number is not None:
        parts.append(_number(number, rows))
    if windows is not None:
        parts.append(_ordered(windows))
    if comes_first is not None:
        parts.append((~comes_first).view("V1"))
    return join([*parts, *(key_parts(keys) if keys else ())])


def paths_in_turn(number: int, turns: Integers, times: Integers, keys: Sequence[pa.Array]) -> pa.BinaryArray:
    """Bytes in the order of (operator, turn, time, key), as a first part: a turn comes after all rows of the turn before."""
    return join([_number(number, len(turns)), turns.astype(">u4"), _ordered(times), *key_parts(keys)])


def in_front(paths: pa.BinaryArray) -> pa.BinaryArray:
    """The paths of final results: in front of all that the record of their place causes."""
    return join([np.frombuffer(BEFORE_RECORD * len(paths), f"V{len(BEFORE_RECORD)}"), ByteSlices.of(paths)])


def extended(batch: pa.RecordBatch, number: Number, windows: Integers) -> pa.BinaryArray:
    """The path of each row, and a part of an operator: by the window that the row was put into."""
    return extended_by(batch, number, _ordered(windows))


def extended_by_turn(batch: pa.RecordBatch, number: Number, turns: Integers) -> pa.BinaryArray:
    """The path of each row, and a part of an operator: which of the rows it is that were made of one."""
    return extended_by(batch, number, turns.astype(">u4"))


def extended_by_key(batch: pa.RecordBatch, number: Number, keys: Sequence[pa.Array]) -> pa.BinaryArray:
    """The path of each row, and a part of an operator: by the bytes of key columns."""
    return extended_by(batch, number, *key_parts(keys))


def extended_by(batch: pa.RecordBatch, number: Number, *parts: RowPart) -> pa.BinaryArray:
    """
    The path of each row, and a part that begins with a number of the operator.

    The number must tell how long the parts are, or the parts must say so themselves, as keys do.
    """
    own = [numbers_of(number, batch), *parts]
    if PATH not in batch.schema.names:
        return join(own)
    return join([ByteSlices.of(batch[PATH].cast(pa.binary())), *own])


def at_input(batch: pa.RecordBatch, number: Number) -> pa.RecordBatch:
    """The rows as they come by one of several inputs that records reach together; the same if they have no place of their own."""
    if not has_place(batch):
        return batch
    path = extended_by(batch, number)
    if PATH not in batch.schema.names:
        return batch.append_column(PATH, path)
    return batch.set_column(batch.schema.get_field_index(PATH), PATH, path)


def as_moved(batch: pa.RecordBatch, number: Number) -> pa.RecordBatch:
    """
    The rows behind all that their records cause without another key; a row without a path is the only one of its record.

    What `suppress` gives at the place of a record waits with the rows of the record: in front of them it would pass rows of its own key.
    Final results, and what a schedule calls, wait for none but what they cause themselves, since a drain may bring them one after
    another. They stand in front of all other rows of their place, or behind, so they pass none.
    """
    if not has_place(batch) or PATH not in batch.schema.names:
        return batch
    path = join([numbers_of(number, batch), ByteSlices.of(batch[PATH].cast(pa.binary()))])
    if DUE in batch.schema.names:
        path = pc.if_else(_is_apart(batch), batch[PATH].cast(pa.binary()), path)
    return batch.set_column(batch.schema.get_field_index(PATH), PATH, path)


def _is_apart(batch: pa.RecordBatch) -> pa.BooleanArray:
    """Which rows, of those that time causes, come before or after all rows that the record of their place causes."""
    path = batch[PATH].cast(pa.binary())
    return pc.and_(batch[DUE].is_valid(), pc.or_(pc.starts_with(path, BEFORE_RECORD), pc.starts_with(path, BEHIND_RECORD)))


def are_in_front(batch: pa.RecordBatch) -> Mask:
    """Which rows are final results, or were caused by one."""
    if DUE not in batch.schema.names or PATH not in batch.schema.names:
        return np.zeros(batch.num_rows, bool)
    path = batch[PATH].cast(pa.binary())
    found: Mask = pc.and_(batch[DUE].is_valid(), pc.starts_with(path, BEFORE_RECORD)).to_numpy(zero_copy_only=False)
    return found


def as_they_come(batches: Sequence[pa.RecordBatch | None], turn: Turn) -> list[pa.RecordBatch | None]:
    """The rows of several inputs as they come, so that those of one record are in order."""
    if not turn.shares_records:
        return list(batches)
    return [None if batch is None else at_input(batch, turn.comes(place)) for place, batch in enumerate(batches)]


def as_seen(rows: pa.RecordBatch | None, turn: Turn, place: int) -> pa.RecordBatch | None:
    """The rows of a table, the input number `place`, from when on they are seen by rows `as_they_come`."""
    return at_input(rows, turn.sees(place)) if rows is not None and turn.shares_records else rows


def _number(number: int, rows: int) -> npt.NDArray[np.void]:
    return np.full(rows, number, ">u2")


def numbers_of(number: Number, batch: pa.RecordBatch) -> npt.NDArray[np.void]:
    """The number of each row, which may depend on the input it comes from."""
    if isinstance(number, int):
        return _number(number, batch.num_rows)
    if INPUT not in batch.schema.names:
        return _number(number[-1], batch.num_rows)
    inputs, last = batch[INPUT].to_numpy(), len(number) - 1
    return np.array(number, ">u2")[np.where((inputs >= 0) & (inputs < last), inputs, last)]


def _ordered(numbers: Integers) -> npt.NDArray[np.void]:
    """Numbers as bytes in their order; with their sign turned over negative ones come first."""
    return (numbers.astype(np.int64, copy=False).view(np.uint64) ^ _SIGN).astype(">u8")


def canonical_order(batch: pa.RecordBatch) -> Integers:
    """The permutation that sorts rows by their places; rows at one place stay as they stand."""
    # Rows mostly come in order, or in a few runs that are in order: what is cheap to see is tried before what is dear to do. Paths are bytes
    # of any length, by far the dearest to sort by, so they are left out first: a stable sort by records keeps rows of one record as they stand.
    if batch.num_rows <= 1 or _is_in_order(batch):
        return np.arange(batch.num_rows)
    order = _sorted(_record_columns(batch))
    if PATH not in batch.schema.names:
        return order
    is_moved = bool((order[1:] < order[:-1]).any())
    if is_moved and _is_in_order(batch.select([*ORDER_COLUMNS, PATH]).take(pa.array(order))):
        return order  # results of one record mostly stand in their order
    # Least significant first: by path, then, stably, by record.
    by_path: Integers = byte_order(batch[PATH].cast(pa.binary())).to_numpy().astype(np.int64)
    return by_path[_sorted([column[by_path] for column in _record_columns(batch)])]


def _sorted(columns: Sequence[Integers]) -> Integers:
    """The stable permutation that sorts rows by these columns, the most significant first."""
    significant = [column for column in columns if (column[0] != column).any()]
    if not significant:
        return np.arange(len(columns[0]))
    order: Integers = np.argsort(significant[0], kind="stable")  # rows of several senders, in order each, are merged
    return order if _are_in_order([column[order] for column in significant]) else order_of_numbers(*significant)


def _are_in_order(columns: Sequence[Integers]) -> bool:
    """Whether no row of these columns stands before the one in front of it."""
    # At each turn `same` marks the rows that equal the one in front of them in all columns so far: of them alone the next one decides.
    same = np.ones(len(columns[0]) - 1, bool)
    for column in columns:
        if (same & (column[1:] < column[:-1])).any():
            return False
        same &= column[1:] == column[:-1]
    return True


def _is_in_order(batch: pa.RecordBatch) -> bool:
    """Whether no row stands before the one in front of it; far cheaper to see than to sort. `same` is as in `_are_in_order`."""
    same = np.ones(batch.num_rows - 1, bool)
    for name in ORDER_COLUMNS:
        column = batch[name].to_numpy(zero_copy_only=False)
        if (same & (column[1:] < column[:-1])).any():
            return False
        same &= column[1:] == column[:-1]
    if PATH not in batch.schema.names or not same.any():
        return True
    paths, wanted = batch[PATH].cast(pa.binary()), pa.array(same)
    if np.count_nonzero(same) * 2 > len(same):  # to compare all is cheaper than to copy most
        return not pc.and_(pc.less(paths.slice(1), paths.slice(0, len(same))), wanted).true_count
    return not pc.less(paths.slice(1).filter(wanted), paths.slice(0, len(same)).filter(wanted)).true_count


def have_own_records(batch: pa.RecordBatch) -> bool:
    """Whether no two rows, which are in canonical order, stand at the place of one record."""
    columns = _record_columns(batch)
    same = np.ones(max(0, batch.num_rows - 1), bool)
    for column in columns:
        same &= column[1:] == column[:-1]
    return not same.any()


def in_canonical_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows in the order in which they are processed."""
    order = canonical_order(batch)
    if (order[1:] > order[:-1]).all():
        return batch
    return batch.take(pa.array(order))


def place_ranks(*batches: pa.RecordBatch) -> list[Integers]:
    """A number for the place of each row of several batches, equal for equal places and growing with them."""
    places = _places(batches)
    found = order_of_words(_words(places), places.num_rows) if places.num_rows >= ROWS_MIN else None
    columns: Sequence[AnyArray] = _sort_columns(places) if found is None else found.numbers
    order: Integers = np.lexsort(columns[::-1]) if found is None else found.order
    is_new = np.zeros(len(order), bool)  # in sorted order: whether a place differs from the one in front of it
    for column in columns:
        in_order = column[order]
        is_new[1:] |= in_order[1:] != in_order[:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(is_new)  # how many places there were, put back to where the rows stand
    return np.split(ranks, list(accumulate(batch.num_rows for batch in batches[:-1])))


def record_ranks(*batches: pa.RecordBatch) -> list[Integers]:
    """
    As `place_ranks`, of the record that caused each row, whatever its path.

    Results that time brings stand at the place of one record, and are each caused by the moment at which they were due.
    """
    return place_ranks(*(_record_of(batch) for batch in batches))


def _record_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The place of each row's record, with the moment in place of a path."""
    columns = [batch[name] for name in ORDER_COLUMNS]
    if DUE not in batch.schema.names:
        return pa.RecordBatch.from_arrays(columns, names=list(ORDER_COLUMNS))
    moments = join([_ordered(batch[DUE].fill_null(0).to_numpy(zero_copy_only=False))])
    is_brought = batch[DUE].is_valid()
    moments = pc.if_else(is_brought, moments, pa.scalar(b"", pa.binary()))
    return pa.RecordBatch.from_arrays([*columns, moments], names=[*ORDER_COLUMNS, PATH])


def _places(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    names = [*ORDER_COLUMNS, *([PATH] if any(PATH in batch.schema.names for batch in batches) else [])]
    columns = [pa.concat_arrays([_column(batch, name) for batch in batches]) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name == PATH and PATH not in batch.schema.names:
        return no_paths(batch.num_rows)
    return batch[name]


def no_paths(rows: int) -> pa.BinaryArray:
    """The path of rows that need none."""
    return pa.array([b""]).take(pa.array(np.zeros(rows, np.int64)))


def _sort_columns(batch: pa.RecordBatch) -> list[Integers]:
    columns = _record_columns(batch)
    if PATH in batch.schema.names and len(batch[PATH]):
        columns.append(pc.rank(batch[PATH], sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64))
    return columns


def _words(batch: pa.RecordBatch) -> Iterator[UnsignedIntegers]:
    """The places of rows as words, the most significant first."""
    for column in _record_columns(batch):
        yield column.view(np.uint64) ^ _SIGN
    if PATH in batch.schema.names:
        yield from words_of(batch[PATH].cast(pa.binary()))


def _record_columns(batch: pa.RecordBatch) -> list[Integers]:
    """The place of the record of each row."""
    origin = (_numbers(batch, INPUT) << 32) + _numbers(
        batch, PARTITION
    )  # a partition takes 32 bits, so one column orders by both
    return [_numbers(batch, ORDER), origin, _numbers(batch, OFFSET)]


def _numbers(batch: pa.RecordBatch, name: str) -> Integers:
    values: Integers = batch[name].to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values
