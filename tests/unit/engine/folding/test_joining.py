"""The keys of rows, whose columns are in dictionaries or not."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from streamkit.engine.folding.joining import Kept, RowKeys, newest_at
from streamkit.names import INPUT, OFFSET, ORDER, PARTITION
from streamkit.plan.program import ProgramStore
from streamkit.schema import Schema

TEXTS = ("", "a", "ab", "a\0", "A", None)
NUMBERS = {"double": (0.0, -0.0, float("nan"), 1.5, None), "bigint": (0, -1, 7, None), "timestamp": (0, 1_000, None)}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("seed", range(20))
def test_keys_in_dictionaries_are_the_keys(seed: int, number: str) -> None:
    """Whatever entries a dictionary has: twice, null, not used, or of rows that were cut off."""
    chance = random.Random(seed)
    rows = _random_rows(chance, number, chance.choice((1, 2, 50, 3_000)))
    kept = _kept(f"k string, n {number}")
    plain, coded = kept.keys_of(rows, ("k", "n")), kept.keys_of(_in_dictionaries(rows, chance), ("k", "n"))
    assert _keys(coded) == _keys(plain) == _expected(kept, rows)
    for found in (plain, coded):
        owned = rows.take(pa.array(found.owners))
        assert found.encoded.to_pylist() == kept.encoded(owned, ("k", "n")).to_pylist(), "each code's owner has its key"
        assert len(set(found.encoded.to_pylist())) == len(found.encoded), "each key has one code"


def test_columns_of_a_narrower_type_have_the_keys_of_the_table() -> None:
    """The join is by values, so an int and a bigint meet."""
    kept = _kept("n bigint")
    wide, narrow = (pa.record_batch({"n": pa.array([1, 2, 1, None], kind)}) for kind in (pa.int64(), pa.int32()))
    assert _keys(kept.keys_of(wide, ("n",))) == _keys(kept.keys_of(narrow, ("n",)))


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_change_of_each_row(seed: int) -> None:
    """As found by looking at each pair; the changes' keys may be in dictionaries, or the rows', or both."""
    chance = random.Random(seed)
    kept = _kept("k string, n bigint")
    left, right = (_at_places(_random_rows(chance, "bigint", chance.choice((1, 7, 60))), chance, side) for side in (0, 1))
    given = [_in_dictionaries(rows, chance) if chance.random() < 0.6 else rows for rows in (left, right)]
    keys = [kept.keys_of(rows, ("k", "n")) for rows in given]
    found = newest_at(given[0], keys[0], given[1], keys[1])
    assert found.tolist() == [_newest(row, left, right, kept) for row in range(left.num_rows)]


def _newest(row: int, left: pa.RecordBatch, right: pa.RecordBatch, kept: Kept) -> int:
    own, others = _expected(kept, left)[row], _expected(kept, right)
    before = [
        other
        for other in range(right.num_rows)
        if own is not None and others[other] == own and right[ORDER][other].as_py() <= left[ORDER][row].as_py()
    ]
    return max(before, key=lambda other: right[ORDER][other].as_py(), default=-1)


def _at_places(rows: pa.RecordBatch, chance: random.Random, side: int) -> pa.RecordBatch:
    """The rows in some order, none at the place of one of the other side's."""
    orders = sorted(chance.sample(range(10 * rows.num_rows), rows.num_rows))
    columns = {name: rows[name] for name in rows.schema.names}
    columns |= {ORDER: pa.array([2 * order + side for order in orders], pa.int64())}
    columns |= {INPUT: pa.array([side] * rows.num_rows, pa.int16()), PARTITION: pa.array([0] * rows.num_rows, pa.int32())}
    return pa.record_batch({**columns, OFFSET: pa.array(range(rows.num_rows), pa.int64())})


def _kept(key: str) -> Kept:
    return Kept(ProgramStore("table", 0, 0, Schema.parse(key), Schema.parse("value string")))


def _random_rows(chance: random.Random, number: str, rows: int) -> pa.RecordBatch:
    types = {"double": pa.float64(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}
    texts, numbers = (chance.choices(values, k=rows) for values in (TEXTS, NUMBERS[number]))
    return pa.record_batch({"k": pa.array(texts, pa.string()), "n": pa.array(numbers, types[number])})


def _in_dictionaries(rows: pa.RecordBatch, chance: random.Random) -> pa.RecordBatch:
    """The same rows, the texts by their places in a dictionary with every text twice, null among them; a slice of more."""
    entries = [*TEXTS, *TEXTS, "unused"]
    places = [
        None if text is None and chance.random() < 0.5 else chance.choice([i for i, entry in enumerate(entries) if entry == text])
        for text in rows["k"].to_pylist()
    ]
    indices = pa.array([0, *places, 1], pa.int32())
    texts = pa.DictionaryArray.from_arrays(indices, pa.array(entries, pa.string())).slice(1, len(places))
    return rows.set_column(0, "k", texts)


def _expected(kept: Kept, rows: pa.RecordBatch) -> list[bytes | None]:
    """Each row's key by itself; None if every column of it is null."""
    encoded = kept.encoded(rows, ("k", "n")).to_pylist()
    is_null = [k is None and n is None for k, n in zip(rows["k"].to_pylist(), rows["n"].to_pylist(), strict=True)]
    return [None if missing else key for key, missing in zip(encoded, is_null, strict=True)]


def _keys(found: RowKeys) -> list[bytes | None]:
    assert found.codes.dtype == np.int64
    return [None if code < 0 else found.encoded[code].as_py() for code in found.codes.tolist()]
