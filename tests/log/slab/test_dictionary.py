"""Dictionaries in frames: where they pay, and that nobody who reads the rows can tell."""

from __future__ import annotations

import pyarrow as pa

from streamkit.log.opening import open_log
from streamkit.log.slab.dictionary import ROWS_MIN, with_dictionaries

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
