"""
Foreign-key join: rows of the left table travel to the foreign key they name, and wait there for its row.

A change on the left gives up to two rows. One goes to the foreign key that the row names now, one to the key that it named before;
`_instruction` says what is done there and whether it gives a result:

    DROP        forget the row
    DELETE      forget the row; the result is deleted
    SUBSCRIBE   keep the row; a result if the right table has one
    ANSWER      keep the row; a result in any case: without a right row a deletion, in a left join the row alone

A row that travels looks the right table up as of its own place. A change of the right table goes to the rows that name it as of
its place; a place has one result of a left key, and its path ends with that key. Where one record changes both tables, the rows that
travel come when the record is through with all else, as in Kafka Streams 4.3, whose rules these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.folding.changes import old_values_of, without_nothing
from streamkit.engine.folding.joining import as_of, kept_table, seen_changes, times_found
from streamkit.engine.rows.place import as_moved, as_they_come, extended_by_key, place_ranks, record_ranks
from streamkit.engine.rows.rows import (
    OptionalBatch,
    concatenate,
    deletions_of,
    is_null_key,
    last_of_each,
    numbers,
    record_columns,
    rows_of,
    with_columns,
    with_one_key,
)
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED, INSTRUCTION, KEY_GROUP, PATH, ROW_TIME, TIMESTAMP
from streamkit.plan.operators.foreign_key_join import ForeignKeyJoin, Subscribe
from streamkit.plan.program import ProgramStore
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows, encode_rows

DROP, DELETE, SUBSCRIBE, ANSWER = range(4)
BEHIND_PREFIX = b"\xff"  # greater than the first byte of any key column
STORED = -1  # the rank of what was there before the epoch


@kernel(Subscribe)
def subscribe(operator: Subscribe, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """What each foreign key is told of the changes of the left table, in their order."""
    (changes,) = inputs
    assert changes is not None
    before, was_there = _before(operator, changes, context)
    after, is_there = changes.drop_columns([DELETED]), ~deletions_of(changes)
    named, names = was_there & ~_is_null(before, operator.on), is_there & ~_is_null(after, operator.on)
    moves = named & ~(names & _is_same_key(before, after, operator.on))
    if operator.how == "left":
        leaves, comes = moves | (was_there & ~is_there), is_there
        told_before, told_after = np.where(is_there, DROP, DELETE), np.full(len(comes), ANSWER)
    else:
        leaves, comes = moves, names
        told_before, told_after = np.where(names, DROP, DELETE), np.where(moves, ANSWER, SUBSCRIBE)
        context.count("null_key", operator.id, int((is_there & ~names).sum()))
    rows = concatenate([_told(before, told_before, leaves), _told(after, told_after, comes)])
    turns = np.concatenate([2 * np.flatnonzero(leaves), 2 * np.flatnonzero(comes) + 1])
    return rows.take(pa.array(np.argsort(turns)))


def _before(operator: Subscribe, changes: pa.RecordBatch, context: Context) -> tuple[pa.RecordBatch, Mask]:
    """The changes with the foreign keys of the rows that they replace, and which replace one."""
    replaced, position = old_values_of(kept_table(operator.inputs[0], context), changes, context)
    indices = pa.array(position, mask=position < 0)
    own = [name for name in operator.on if name not in operator.left_key]
    foreign_key = {name: replaced[name].take(indices).cast(changes[name].type) for name in own}
    return with_columns(changes.drop_columns([DELETED]), foreign_key), position >= 0


def _told(rows: pa.RecordBatch, instructions: Integers, mask: Mask) -> pa.RecordBatch:
    return with_columns(rows, {INSTRUCTION: pa.array(instructions.astype(np.int8))}).filter(pa.array(mask))


def _is_null(rows: pa.RecordBatch, key: Sequence[str]) -> Mask:
    found: Mask = is_null_key(rows, key).to_numpy(zero_copy_only=False)
    return found


def _is_same_key(one: pa.RecordBatch, other: pa.RecordBatch, key: Sequence[str]) -> Mask:
    same = pc.equal(encode_keys([one[name] for name in key]), encode_keys([other[name] for name in key]))
    found: Mask = same.to_numpy(zero_copy_only=False)
    return found


@kernel(ForeignKeyJoin)
def foreign_key_join(operator: ForeignKeyJoin, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """
    The changes of the joined table, and the rows that name a key are kept.

    Those of one left key stand as they came, so nothing is sorted here: who takes the results puts them in order.
    """
    turn = context.turn(operator.id)
    (told, changes), seen = as_they_come(inputs, turn), seen_changes(operator, 1, inputs, context)
    results, answers = [], None
    if told is not None:
        told = with_one_key(told, context.store(operator.store).key.names)  # as a row comes back that is kept
        given, answers = _answers(operator, told, seen, context)
        results.append(given)
        _keep(operator, told, context)
    if changes is not None and operator.skips:
        changes = without_nothing(kept_table(operator.inputs[1], context), changes, context)
    if changes is not None and changes.num_rows:
        results.append(_fanned_out(operator, told, answers, changes, context))
    return concatenate(results) if results else None


def _answers(
    operator: ForeignKeyJoin, told: pa.RecordBatch, changes: OptionalBatch, context: Context
) -> tuple[pa.RecordBatch, Mask]:
    """The results of the left table's changes, and which of these have one, be it at another foreign key."""
    right, found = as_of(kept_table(operator.inputs[1], context), told, operator.on, changes, context)
    instruction = told[INSTRUCTION].to_numpy()
    times = np.maximum(numbers(told, TIMESTAMP), times_found(right, found))
    is_deleted = instruction == DELETE
    if operator.how == "left":
        times = np.where(is_deleted, numbers(told, TIMESTAMP), times)
    else:
        is_deleted |= (instruction == ANSWER) & (found < 0)
    is_given = (instruction != DROP) & ((instruction != SUBSCRIBE) | (found >= 0))
    result = _columns(operator, told, right, found, is_deleted)
    record = {**_record(operator, told, told, context), TIMESTAMP: pa.array(times), DELETED: pa.array(is_deleted)}
    return rows_of({**result, **record}).filter(pa.array(is_given)), is_given | (instruction == DROP)


def _fanned_out(
    operator: ForeignKeyJoin, told: OptionalBatch, answers: Mask | None, changes: pa.RecordBatch, context: Context
) -> pa.RecordBatch:
    """
    The results of the right table's changes: one for each row that names the key as of the change's place.

    None for a row that the same record changes afterwards, with a result of its own.
    """
    waiting = _waiting(operator, told, answers, changes, context)
    owner, change = waiting.met_by(changes, context.table_store(operator.inputs[1]).key.names)
    left, right = waiting.rows.take(pa.array(owner)), changes.take(pa.array(change))
    is_gone = deletions_of(right)
    found = np.where(is_gone, -1, np.arange(right.num_rows))
    is_deleted = is_gone if operator.how == "inner" else np.zeros(right.num_rows, bool)
    result = _columns(operator, left, right, found, is_deleted)
    return rows_of({**result, **_record(operator, right, left, context), DELETED: pa.array(is_deleted)})


@dataclass(frozen=True, eq=False)
class SubscribedRows:
    """
    Rows of the left table by the foreign key that they name, `on`.

    Each holds between two places, both not included: `since` and `until`, as ranks; `ranks` are those of the right table's changes.
    `replaced_by` has the record that replaces a row with a result of its own, as a number, `records` those of the right table's changes.
    """

    rows: pa.RecordBatch
    on: Sequence[str]
    since: Integers
    until: Integers
    ranks: Integers
    replaced_by: Integers
    records: Integers

    def met_by(self, changes: pa.RecordBatch, key: Sequence[str]) -> tuple[Integers, Integers]:
        """The pairs of rows and changes that meet: positions of either."""
        own = encode_keys([self.rows[name] for name in self.on])
        codes = pa.concat_arrays([own, encode_keys([changes[name] for name in key])]).dictionary_encode().indices
        own_codes, codes = np.split(codes.to_numpy().astype(np.int64), [len(own)])
        span = int(max(self.ranks.max(initial=0), self.until.max(initial=0))) + 2
        places = codes * span + self.ranks
        order = np.argsort(places, kind="stable")
        first = np.searchsorted(places[order], own_codes * span + self.since, side="right")
        end = np.searchsorted(places[order], own_codes * span + self.until, side="left")
        counts = np.maximum(end - first, 0)
        owner = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        change = order[first[owner] + within]
        is_met = self.replaced_by[owner] != self.records[change]
        return owner[is_met], change[is_met]


def _waiting(
    operator: ForeignKeyJoin, told: OptionalBatch, answers: Mask | None, changes: pa.RecordBatch, context: Context
) -> SubscribedRows:
    """The rows that name one of the keys which changed: those of the store, and those of this epoch."""
    store, right_key = context.store(operator.store), context.table_store(operator.inputs[1]).key.names
    changed = last_of_each(encode_keys([changes[name] for name in right_key]))
    stored = _stored(store, changes.take(pa.array(changed)), right_key, context)
    if told is None or answers is None:
        (ranks,) = place_ranks(changes)
        since, until = np.full(stored.num_rows, STORED), np.full(stored.num_rows, _end(ranks))
        return SubscribedRows(stored, operator.on, since, until, ranks, since, ranks)
    told_ranks, ranks = place_ranks(told, changes)
    told_records, records = record_ranks(told, changes)
    names = (*store.key.names, *store.value.names)
    columns = [pa.concat_arrays([stored[name], told[name].cast(stored[name].type)]) for name in names]
    rows = pa.RecordBatch.from_arrays(columns, names=list(names))
    since = np.concatenate([np.full(stored.num_rows, STORED), told_ranks])
    following = _following(encode_keys([rows[name] for name in store.key.names]), since)
    until = np.append(since, _end(told_ranks, ranks))[following]
    replaced_by = np.concatenate([np.full(stored.num_rows, STORED), np.where(answers, told_records, STORED), [STORED]])[following]
    is_kept = np.concatenate([np.ones(stored.num_rows, bool), _is_kept(told)])
    kept = rows.filter(pa.array(is_kept))
    return SubscribedRows(kept, operator.on, since[is_kept], until[is_kept], ranks, replaced_by[is_kept], records)


def _stored(store: ProgramStore, changed: pa.RecordBatch, key: Sequence[str], context: Context) -> pa.RecordBatch:
    """The stored rows that name these keys, with the columns of the store."""
    layout = layout_of(store)
    number = context.store_number(store.name)
    prefixes = layout.keys(number, numbers(changed, KEY_GROUP), [changed[name] for name in key])
    ranges = [(prefix, prefix + BEHIND_PREFIX) for prefix in sorted(prefixes.to_pylist())]
    keys, values = context.committed_state().scan(ranges)
    _, _, key_columns = layout.split(keys, [column.type for column in store.key])
    _, *columns = decode_rows(values, ["bigint", *(column.type for column in store.value)])
    return pa.RecordBatch.from_arrays([*key_columns, *columns], names=[*store.key.names, *store.value.names])


def _end(*ranks: Integers) -> int:
    """A rank behind all of these."""
    return int(max(one.max(initial=0) for one in ranks)) + 1


def _following(keys: pa.BinaryArray, since: Integers) -> Integers:
    """Which row of the same key comes next, for rows that come at `since`; the number of rows if none does."""
    codes = keys.dictionary_encode().indices.to_numpy()
    order = np.lexsort((since, codes))
    following = np.full(len(codes), len(codes), np.int64)
    follows = np.flatnonzero(np.diff(codes[order]) == 0)
    following[order[follows]] = order[follows + 1]
    return following


def _keep(operator: ForeignKeyJoin, told: pa.RecordBatch, context: Context) -> None:
    """Keep the newest row of each foreign key and left key; those that named another key last are deleted."""
    store = context.store(operator.store)
    told = told.filter(pa.array(~_is_null(told, operator.on)))
    newest = told.take(pa.array(last_of_each(encode_keys([told[name] for name in store.key.names]))))
    key_columns = [newest[name] for name in store.key.names]
    keys = layout_of(store).keys(context.store_number(store.name), numbers(newest, KEY_GROUP), key_columns)
    values = encode_rows([newest[TIMESTAMP], *(newest[name] for name in store.value.names)])
    values = pc.if_else(pa.array(_is_kept(newest)), values, pa.scalar(None, pa.binary()))
    order = byte_order(keys)
    context.change(store.name, keys.take(order), values.take(order), numbers(newest, TIMESTAMP)[order.to_numpy()])


def _is_kept(told: pa.RecordBatch) -> Mask:
    instruction = told[INSTRUCTION].to_numpy()
    found: Mask = (instruction == SUBSCRIBE) | (instruction == ANSWER)
    return found


def _columns(
    operator: ForeignKeyJoin, left: pa.RecordBatch, right: pa.RecordBatch, found: Integers, is_deleted: Mask
) -> Mapping[str, pa.Array]:
    """The columns of the results: of either side, null where it has no row; of a deletion the key alone."""
    own, other = pa.array(np.arange(len(found)), mask=is_deleted), pa.array(found, mask=(found < 0) | is_deleted)
    result: dict[str, pa.Array] = {}
    for name, source in operator.columns:
        side, _, column = source.partition(".")
        if side == "right":
            result[name] = right[column].take(other)
        else:
            result[name] = left[column] if column in operator.left_key or not is_deleted.any() else left[column].take(own)
    return result


def _record(operator: ForeignKeyJoin, cause: pa.RecordBatch, left: pa.RecordBatch, context: Context) -> dict[str, pa.Array]:
    """The record columns of results: the place of their cause, then the left key, in whose order the results of a cause stand."""
    number = context.turn(operator.id).owns
    path = extended_by_key(as_moved(cause, number), number, [left[name] for name in operator.left_key])
    return {name: column for name, column in record_columns(cause).items() if name not in (INSTRUCTION, ROW_TIME)} | {PATH: path}
