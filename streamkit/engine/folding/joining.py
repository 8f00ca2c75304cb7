"""What joins share: the row that a table has for a key as of a place in the order, and the columns of both sides together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.rows.place import as_seen, place_ranks
from streamkit.engine.rows.rows import deletions_of, is_null_key, numbers, record_columns, row_times, rows_of, without_deletions
from streamkit.engine.stage.context import Context
from streamkit.expressions.core.groups import group
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.keys import encode_keys
from streamkit.names import KEY_GROUP, TIMESTAMP
from streamkit.plan.operator import Key, Operator
from streamkit.plan.program import ProgramStore
from streamkit.state.layout import MICROSECONDS, UTC_MICROSECONDS, layout_of
from streamkit.state.row import decode_rows


@dataclass(frozen=True, eq=False)
class RowKeys:
    """
    The keys of rows: a code for each row, equal where the keys are, -1 where a row has none.

    `encoded` has the key of each code as bytes, `owners` the position of a row that has it.
    """

    codes: Integers
    encoded: pa.BinaryArray
    owners: Integers


@dataclass(frozen=True)
class Kept:
    """A table that is kept: its store, and the columns of its rows that name the start and the end of its windows, if it has some."""

    store: ProgramStore
    bounds: Key = ()

    @property
    def key(self) -> Key:
        """The columns of its rows that tell them apart."""
        return (*self.store.key.names, *self.bounds)

    @property
    def values(self) -> tuple[str, ...]:
        return self.store.value.names

    def encoded(self, rows: pa.RecordBatch, on: Sequence[str]) -> pa.BinaryArray:
        """The keys of rows, and their windows, as bytes; `on` are the columns, in the order of `key`."""
        return encode_keys([*key_columns(self.store, rows, on), *(rows[name] for name in on[len(self.store.key) :])])

    def keys_of(self, rows: pa.RecordBatch, on: Sequence[str]) -> RowKeys:
        """The keys of rows. A row has none if its key, or a bound of its window, is null."""
        candidates, groups = np.arange(rows.num_rows), np.arange(rows.num_rows)
        if any(pa.types.is_dictionary(rows[name].type) for name in on):  # keys repeat: each is encoded once, not each row's
            grouped, _ = group([rows[name] for name in on], rows.num_rows)
            candidates, groups = grouped.rows, grouped.codes
        named = rows.select(list(dict.fromkeys(on))).take(pa.array(candidates))
        has_key = ~self.has_no_key(named, on).to_numpy(zero_copy_only=False)
        # Two groups may be one key: the table's type may be wider than the column's, or the other way round.
        encoded = self.encoded(named.filter(pa.array(has_key)), on).dictionary_encode()
        code_of_group = np.full(int(groups.max(initial=-1)) + 1, -1, np.int64)
        code_of_group[groups[candidates[has_key]]] = encoded.indices.to_numpy()
        owners = np.empty(len(encoded.dictionary), np.int64)
        owners[encoded.indices.to_numpy()] = candidates[has_key]
        return RowKeys(code_of_group[groups], encoded.dictionary, owners)

    def has_no_key(self, rows: pa.RecordBatch, on: Sequence[str]) -> pa.BooleanArray:
        """Which rows name no row of the table: their key is null, or a bound of their window is."""
        missing = is_null_key(rows, on)
        for name in on[len(self.store.key) :]:
            missing = pc.or_(missing, pc.is_null(rows[name]))
        return missing

    def may_store(self, rows: pa.RecordBatch, on: Sequence[str]) -> Mask:
        """Which rows have windows of the length that all windows in the store have: its keys hold their starts alone."""
        size_ms = self.store.window_size_ms
        if not self.bounds or size_ms is None:
            return np.ones(rows.num_rows, bool)
        start, end = (milliseconds(rows[name]) for name in on[len(self.store.key) :])
        is_alike: Mask = end - start == size_ms
        return is_alike

    def state_keys(self, rows: pa.RecordBatch, on: Sequence[str], context: Context) -> pa.BinaryArray:
        """The keys of rows in the store."""
        layout, number = layout_of(self.store), context.store_number(self.store.name)
        times = layout.window_times(*(milliseconds(rows[name]) for name in on[len(self.store.key) :])) if self.bounds else ()
        return layout.keys(number, numbers(rows, KEY_GROUP), key_columns(self.store, rows, on), times)


def kept_table(table: str, context: Context) -> Kept:
    """The table that an operator takes as an input of this name, as it is kept."""
    return Kept(context.table_store(table), context.program.operator(table).window_columns)


def live_rows(operator: Operator, left: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows to join, without deletions: they have no value, and are counted."""
    left, deletions = without_deletions(left)
    context.count("deletion", operator.id, deletions)
    return left


def seen_changes(
    operator: Operator, place: int, inputs: Sequence[pa.RecordBatch | None], context: Context
) -> pa.RecordBatch | None:
    """The changes of a table, the input number `place`, from when on they are seen; of one that is looked through each of its values."""
    values = context.views.get(operator.inputs[place])
    return as_seen(inputs[place], context.turn(operator.id), place) if values is None else values


def as_of(
    table: Kept, rows: pa.RecordBatch, on: Sequence[str], changes: pa.RecordBatch | None, context: Context
) -> tuple[pa.RecordBatch, Integers]:
    """
    The table's row for each row: rows of the table, and for each row the position of its match among them (-1: none).

    The match is the newest change of the key at the row's place or before it in this epoch, else what the store holds. `on` are
    the row's columns, in the order of the table's key. Rows whose key, or a bound of whose window, is null have no match.
    """
    keys = table.keys_of(rows, on)
    committed, found = committed_rows(table, rows, on, keys, context)
    if changes is None or not changes.num_rows:
        return committed, found
    newest = newest_at(rows, keys, changes, table.keys_of(changes, table.key))
    return with_changes(table.store, committed, found, changes, newest)


def key_columns(store: ProgramStore, batch: pa.RecordBatch, on: Sequence[str]) -> list[pa.Array]:
    """The columns `on`, typed as the store's key is; those behind it are of windows."""
    return [batch[name].cast(column.arrow.type) for name, column in zip(on, store.key, strict=False)]


def milliseconds(moments: pa.Array) -> Integers:
    """A column of timestamps as numbers."""
    found: Integers = moments.cast(UTC_MICROSECONDS).view(pa.int64()).to_numpy() // MICROSECONDS
    return found


def committed_rows(
    table: Kept, rows: pa.RecordBatch, on: Sequence[str], keys: RowKeys, context: Context
) -> tuple[pa.RecordBatch, Integers]:
    """The stored rows of these keys, each key once, and for each row the position of its match (-1: none)."""
    owners = rows.select([*dict.fromkeys(on), KEY_GROUP]).take(pa.array(keys.owners))
    wanted = table.state_keys(owners, on, context)
    order = byte_order(wanted)
    values = context.committed_state().get(wanted.take(order))
    position = np.full(len(keys.owners) + 1, -1, np.int64)  # the last one is that of rows without a key
    present = values.is_valid().to_numpy(zero_copy_only=False)
    position[order.to_numpy()[present]] = np.arange(int(present.sum()))
    position[:-1][~table.may_store(owners, on)] = -1
    return decoded_rows(table.store, values.drop_null()), position[keys.codes]


def decoded_rows(store: ProgramStore, values: pa.BinaryArray) -> pa.RecordBatch:
    """Stored rows: when each was written, then its value columns."""
    timestamps, *columns = decode_rows(values, ["bigint", *(column.type for column in store.value)])
    return pa.RecordBatch.from_arrays([timestamps, *columns], names=[TIMESTAMP, *store.value.names])


def with_changes(
    store: ProgramStore, committed: pa.RecordBatch, found: Integers, changes: pa.RecordBatch, newest: Integers
) -> tuple[pa.RecordBatch, Integers]:
    """The stored rows followed by an epoch's changes, and each row's position: of `newest` where there is one, else of `found`."""
    changed = np.where(deletions_of(changes)[newest], -1, newest + committed.num_rows)
    values = [pa.concat_arrays([committed[name], changes[name].cast(committed[name].type)]) for name in store.value.names]
    columns = [pa.concat_arrays([committed[TIMESTAMP], row_times(changes)]), *values]
    rows = pa.RecordBatch.from_arrays(columns, names=[TIMESTAMP, *store.value.names])
    return rows, np.where(newest >= 0, changed, found)


def newest_at(left: pa.RecordBatch, left_keys: RowKeys, right: pa.RecordBatch, right_keys: RowKeys) -> Integers:
    """For each left row the position of the last right row of its key at its place or before it; -1 if there is none."""
    both = pa.concat_arrays([left_keys.encoded, right_keys.encoded]).dictionary_encode().indices.to_numpy().astype(np.int64)
    of_left, of_right = np.split(both, [len(left_keys.encoded)])
    left_codes, right_codes = np.append(of_left, -1)[left_keys.codes], np.append(of_right, -1)[right_keys.codes]
    left_rank, right_rank = place_ranks(left, right)
    span = left.num_rows + right.num_rows + 1
    left_place, right_place = left_codes * span + left_rank, right_codes * span + right_rank
    order = np.argsort(right_place, kind="stable")
    before = np.searchsorted(right_place[order], left_place, side="right") - 1
    candidate = order[np.maximum(before, 0)]
    same_key = (before >= 0) & (right_codes[candidate] == left_codes) & (left_codes >= 0)
    return np.where(same_key, candidate, -1)


def times_found(rows: pa.RecordBatch, found: Integers) -> Integers:
    """The event time of the row at each position, or the smallest number where there is none (-1)."""
    earliest = np.iinfo(np.int64).min
    if not rows.num_rows:
        return np.full(len(found), earliest, np.int64)
    return np.where(found >= 0, numbers(rows, TIMESTAMP)[np.maximum(found, 0)], earliest)


def joined(
    how: str, columns: Sequence[tuple[str, str]], left: pa.RecordBatch, table_rows: pa.RecordBatch, found: Integers
) -> pa.RecordBatch:
    """Each stream row with the columns of its table row; an inner join drops rows that have none."""
    if how == "inner" and (found < 0).any():
        kept = np.flatnonzero(found >= 0)
        left, found = left.take(pa.array(kept)), found[kept]
    indices = pa.array(found, mask=found < 0)
    sides: Mapping[str, pa.RecordBatch] = {"left": left, "right": table_rows}
    result: dict[str, pa.Array] = {}
    for name, source in columns:
        side, _, column = source.partition(".")
        values = sides[side][column]
        result[name] = values if side == "left" else values.take(indices)
    return rows_of({**result, **record_columns(left)})
