"""Dictionaries in frames: where they pay, and that nobody who reads the rows can tell."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.log.opening import open_log
from streamkit.log.slab.dictionary import (
    REPEATS_MIN,
    ROWS_MIN,
    compacted,
    encoded_if_repeated,
    kept_if_repeated,
    with_dictionaries,
)

ROWS = ROWS_MIN * 2
FEW = pa.array([f"carrier{number % 16}" for number in range(ROWS)])
MANY = pa.array([f"ticket{number}" for number in range(ROWS)])


def test_repeating_strings_get_a_dictionary_and_others_do_not():
    """A column of sixteen values is encoded; distinct strings, numbers and short batches stay as they are."""
    encoded = with_dictionaries(pa.record_batch({"few": FEW, "many": MANY, "number": pa.array(range(ROWS))}))
    assert [str(field.type) for field in encoded.schema] == [
        "dictionary<values=string, indices=int32, ordered=0>",
        "string",
        "int64",
    ]
    assert encoded["few"].dictionary_decode() == FEW
    short = pa.record_batch({"few": FEW.slice(0, ROWS_MIN - 1)})
    assert with_dictionaries(short).schema == short.schema


def test_nulls_survive_a_dictionary():
    """A null among repeating strings is null again when the column is decoded."""
    column = pa.array([None, "a", "b"] * ROWS_MIN)
    assert with_dictionaries(pa.record_batch({"c": column}))["c"].dictionary_decode() == column


def test_readers_see_plain_strings():
    """A topic whose frames have dictionaries, and others whose frames have none, read as the same types."""
    with open_log(":memory:") as log, log.producer() as producer:
        log.create_topic("trips", "carrier string, ticket string", key="ticket", partitions=1)
        producer.send_batch("trips", pa.record_batch({"carrier": FEW, "ticket": MANY}))
        producer.flush()
        producer.send("trips", {"carrier": "carrier99", "ticket": "one"})
        producer.flush()
        assert log.read("trips")["carrier"].to_pylist() == [*FEW.to_pylist(), "carrier99"]
        assert {str(batch.schema.field("carrier").type) for batch in log.scan("trips")} == {"string"}


def test_repetitions_that_are_far_apart_are_seen():
    """Ten thousand keys in a hundred thousand rows get a dictionary, which a look at the first rows would not show; distinct ones do not."""
    keys = np.random.default_rng(1).integers(0, 10_000, 100_000)
    column = pa.array([f"user{key}" for key in keys.tolist()])
    encoded = encoded_if_repeated(column)
    assert pa.types.is_dictionary(encoded.type)
    assert encoded.dictionary_decode() == column
    distinct = pa.array([f"user{row}" for row in range(100_000)])
    hot = pa.array(["hot" if row % 2 else f"user{row}" for row in range(100_000)])  # half of it repeats, and that does not pay
    assert [encoded_if_repeated(one) for one in (distinct, hot)] == [distinct, hot]
    assert [encoded_if_repeated(one).type for one in (distinct, hot)] == [pa.string()] * 2


def test_a_part_of_a_column_keeps_the_entries_that_it_uses():
    """A slice has the same values and nulls with a dictionary of its own; without one, if it repeats too seldom."""
    column = pa.array([*("abc" * REPEATS_MIN), None, "d"]).dictionary_encode().slice(1)
    for first, rows in ((0, len(column)), (0, 2 * REPEATS_MIN), (len(column) - 2, 2), (len(column) - 2, 1)):
        part = column.slice(first, rows)
        assert compacted(part).to_pylist() == part.to_pylist()
        assert sorted(compacted(part).dictionary.to_pylist()) == sorted(set(part.to_pylist()) - {None})
        assert kept_if_repeated(part).to_pylist() == part.to_pylist()
    assert kept_if_repeated(column.slice(len(column) - 2)).type == pa.string()
    assert pa.types.is_dictionary(
        kept_if_repeated(column.slice(0, 3 * REPEATS_MIN - 1).take(pa.array([0, 1] * REPEATS_MIN))).type
    )
