"""The changes of a version as rows: in an order that the values alone say, and their net effect by key."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from typing import Any

import pyarrow as pa
import pytest

from streamkit.connectors.delta import changes
from streamkit.connectors.delta.changes import CHANGE, changes_of

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [1, 2, None]),
    "text": (pa.string(), ["", "a", "ä", None]),
    "bytes": (pa.binary(), [b"", b"\0", None]),
    "double": (pa.float64(), [0.0, -0.0, float("nan"), None]),
    "float": (pa.float32(), [0.0, -0.0, 1.5]),
    "flag": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [dt.date(2020, 1, 1), None]),
    "at": (pa.timestamp("us", "UTC"), [dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), None]),
    "price": (pa.decimal128(9, 2), [decimal.Decimal("1.50"), None]),
    "tags": (pa.list_(pa.string()), [[], ["a"], [None], None]),
    "place": (pa.struct([("x", pa.float64())]), [{"x": 0.0}, {"x": -0.0}, None]),
}


def feed_of(rows):
    """A feed in two chunks, as the library gives several."""
    schema = pa.schema([*((name, kind) for name, (kind, _) in KINDS.items()), (CHANGE, pa.string())])
    tables = [pa.Table.from_pylist(some, schema=schema) for some in (rows[::2], rows[1::2])]
    return pa.concat_tables(tables)


@pytest.mark.parametrize("key", [None, ("long", "text")])
def test_the_order_is_that_of_the_values(key):
    """Rows of all types come in the same order, bit by bit, however the feed has them."""
    chance = random.Random(1)
    kinds = ["insert", "delete", "update_preimage", "update_postimage"]
    rows = [
        {name: chance.choice(values) for name, (_, values) in KINDS.items()} | {CHANGE: chance.choice(kinds)} for _ in range(200)
    ]
    said = set()
    for _ in range(5):
        chance.shuffle(rows)
        said.add(str(changes_of(feed_of(rows), key).to_pylist()))
    assert len(said) == 1


def test_old_rows_come_first_and_replaced_ones_not_at_all():
    """A key that has a new row is not deleted, null is a value of keys, and without a key every old row is a deletion."""
    feed = pa.table(
        {
            "id": [1, 1, 2, 9, 3, None, None],
            CHANGE: ["insert", "delete", "update_preimage", "update_postimage", "delete", "update_postimage", "update_preimage"],
        }
    )
    found = [(row["id"], row["_deleted"]) for row in changes_of(feed, ["id"]).to_pylist()]
    assert found == [(2, True), (3, True), (1, False), (9, False), (None, False)]
    assert [row["_deleted"] for row in changes_of(feed, None).to_pylist()] == [True] * 4 + [False] * 3


def test_a_version_larger_than_a_column_of_arrow(monkeypatch):
    """Rows are gathered in pieces, so that the texts of a version may be more than an array of Arrow holds."""
    monkeypatch.setattr(changes, "PIECE_BYTES", 1000)
    numbers = list(range(1000))
    random.Random(2).shuffle(numbers)
    feed = pa.table({"id": numbers, "text": [f"text {n}" for n in numbers], CHANGE: ["insert"] * 1000})
    found = changes_of(feed, ["id"])
    assert found["id"].num_chunks > 10
    assert [(row["id"], row["text"]) for row in found.to_pylist()] == [(n, f"text {n}") for n in range(1000)]


def test_no_changes():
    """A version may change nothing, or only add."""
    feed = pa.table({"id": pa.array([], pa.int64()), CHANGE: pa.array([], pa.string())})
    assert changes_of(feed, ["id"]).num_rows == 0
    feed = pa.table({"id": [1], CHANGE: ["insert"]})
    assert changes_of(feed, ["id"]).to_pylist() == [{"id": 1, "_deleted": False}]
