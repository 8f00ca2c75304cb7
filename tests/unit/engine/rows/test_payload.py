"""Rows as bytes: what the pieces of a payload give back, and how large they are."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from streamkit.engine.rows import payload
from streamkit.engine.rows.payload import COMPRESSED_BYTES_MIN, HEADER, batches_of, sent_rows
from streamkit.engine.rows.rows import rows_of
from streamkit.names import INPUT, KEY_GROUP, OFFSET, ORDER, PARTITION, TIMESTAMP
from tests.kit.sampling import in_turn

ROWS = 10_000
KINDS = ("int8", "int16", "int32", "int64")


def columns_of_integers() -> dict[str, pa.Array]:
    """Columns of every width: narrow ranges anywhere, the whole range, a range just too wide for each smaller type, nulls."""
    numbers = np.random.default_rng(5)
    columns: dict[str, pa.Array] = {}
    for name in KINDS:
        kind = np.dtype(name)
        greatest = (1 << (8 * kind.itemsize - 1)) - 1
        least = -greatest - 1
        for begin, end in ((least, greatest), (least, least + 1), (greatest - 5, greatest), (-1, 1), (7, 7)):
            columns[f"{name} {begin} {end}"] = pa.array(numbers.integers(begin, end, ROWS, kind, endpoint=True))
        for bits in (8, 16, 32):
            for width in ((1 << bits) - 1, 1 << bits):
                if least + width < greatest:
                    column = numbers.integers(least, least + width, ROWS, kind, endpoint=True)
                    column[:2] = least, least + width
                    columns[f"{name} {bits} {width}"] = pa.array(column)
        columns[f"{name} nulls"] = pa.array(np.arange(ROWS).astype(kind), mask=np.arange(ROWS) % 3 == 0)
    return columns


def dictionary(entries: int, *, nulls: bool) -> pa.DictionaryArray:
    indices = np.arange(max(ROWS, entries), dtype=np.int32) % entries
    taken = pa.array(indices, mask=indices == 1 if nulls else None)
    return pa.DictionaryArray.from_arrays(taken, pa.array([f"entry{number}" for number in range(entries)]))


def buffers_of(batch: pa.RecordBatch, sender: int = 0) -> list[pa.Buffer]:
    return [pa.py_buffer(piece) for piece in sent_rows(batch, sender).pieces()]


def test_integers_come_back_whatever_their_width_and_range():
    """Columns of integers have their type, their numbers and their nulls again."""
    batch = rows_of(columns_of_integers())
    (found,) = batches_of(buffers_of(batch))
    assert found.equals(batch)


@pytest.mark.parametrize(("entries", "nulls"), in_turn([2, 256, 257, 65_536, 65_537], [False, True]))
def test_a_dictionary_comes_back_with_the_index_that_it_had(entries, nulls):
    """Columns of dictionaries have the same values and the same type, however few bytes their indices need."""
    batch = rows_of({"k": dictionary(entries, nulls=nulls)})
    (found,) = batches_of(buffers_of(batch))
    assert found.schema == batch.schema
    assert found["k"].to_pylist() == batch["k"].to_pylist()


def test_entries_that_no_row_uses_stay_behind():
    """A dictionary arrives with what the rows of the task use of it."""
    (found,) = batches_of(buffers_of(rows_of({"k": dictionary(5_000, nulls=False)}).slice(17, 30)))
    assert found["k"].dictionary.to_pylist() == [f"entry{number}" for number in range(17, 47)]


@pytest.mark.parametrize("rows", [1, 3, ROWS])
def test_other_columns_come_back_too(rows):
    """Few rows, which are not compressed, and many; texts, doubles, booleans, decimals, lists, times and nothing."""
    batch = rows_of(
        {
            "t": pa.array([f"text {number % 7}" for number in range(ROWS)]),
            "d": pa.array(np.linspace(-1, 1, ROWS)),
            "b": pa.array(np.arange(ROWS) % 2 == 0),
            "m": pa.array([None, 12] * (ROWS // 2), pa.decimal128(20, 2)),
            "l": pa.array([[number, None] for number in range(ROWS)]),
            "w": pa.array(np.arange(ROWS), pa.timestamp("us", tz="UTC")),
            "n": pa.nulls(ROWS),
        }
    ).slice(2, rows)
    (found,) = batches_of(buffers_of(batch))
    assert found.equals(batch)


def test_no_rows_are_no_pieces():
    """A task for which there are no rows gets no piece."""
    assert buffers_of(rows_of({"k": pa.array([], pa.int64())})) == []


def test_pieces_come_in_any_order_and_from_several_senders(monkeypatch):
    """Each sender's rows are one batch, by the numbers of the senders; no piece is longer than it may be."""
    monkeypatch.setattr(payload, "PIECE_BYTES", 1_000)
    batches = [rows_of({"v": pa.array(np.random.default_rng(sender).random(ROWS // 4))}) for sender in range(3)]
    pieces = [piece for sender in (2, 0, 1) for piece in buffers_of(batches[sender], sender)]
    assert len(pieces) > 3 * ROWS // 4 * 8 // 1_100  # random doubles cannot be compressed
    assert max(piece.size for piece in pieces) <= 1_000 + HEADER.size
    random.Random(3).shuffle(pieces)
    assert batches_of(pieces) == batches


def test_a_place_and_a_key_group_take_few_bytes():
    """Rows in order, most of which follow the record before them, take a few bytes each for time, order, origin and key group."""
    step = np.random.default_rng(1).integers(0, 3, ROWS)
    times = 1_700_000_000_000 + np.cumsum(step)
    batch = rows_of(
        {
            TIMESTAMP: pa.array(times),
            ORDER: pa.array(times),
            INPUT: pa.array(np.full(ROWS, 3), pa.int16()),
            PARTITION: pa.array(np.full(ROWS, 200), pa.int32()),
            OFFSET: pa.array((1 << 40) + np.cumsum(1 + step)),
            KEY_GROUP: pa.array(np.random.default_rng(2).integers(64, 128, ROWS), pa.int32()),
        }
    )
    pieces = buffers_of(batch)
    (found,) = batches_of(pieces)
    assert found.equals(batch)
    assert batch.nbytes > COMPRESSED_BYTES_MIN
    assert sum(piece.size for piece in pieces) < 4 * ROWS  # of 34 bytes; one for each of these four that change
