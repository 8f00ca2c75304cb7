"""Values of ten fields as columns and back, on one core: Avro in a registry's wire format, JSON and CSV, beside the same one by one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from statistics import median

import fastavro
import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from streamkit.formats.avro_schema import avro_of
from streamkit.formats.codec import Codec, declare_format
from streamkit.formats.wire import HEADER_BYTES
from streamkit.schema import Schema
from tests.bench.row import Row
from tests.kit.servers.apicurio import start_registry

RECORDS = 500_000
BATCH_ROWS = 65_536
ROUNDS = 3
COLUMNS = Schema.parse(
    "id bigint, user string, amount double, items int, paid boolean, at timestamp, note string, country string, weight float, total bigint"
)


def format_rows(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Rates of CPU time, so that other work on the machine counts less."""
    rows = _rows(int(RECORDS * fraction))
    registry = start_registry()
    if registry is not None:
        try:
            avro = Codec(declare_format("avro", avro_of(COLUMNS), {"schema.registry.url": registry.url}), topic="bench")
            schema = fastavro.parse_schema(orjson.loads(avro_of(COLUMNS)))

            def one(value: bytes) -> object:
                return fastavro.schemaless_reader(BytesIO(value[HEADER_BYTES:]), schema, None)

            yield _row("Avro with a registry, ten fields", avro, rows, one, "fastavro one by one", ">= 0.3")
        finally:
            registry.stop()
    yield _written_row(rows)
    yield _written_csv_row(rows)
    yield _row("JSON, ten fields", Codec(declare_format("json"), COLUMNS), rows, orjson.loads, "orjson one by one", ">= 0.2")


def _row(work: str, codec: Codec, rows: pa.RecordBatch, one: Callable[[bytes], object], against: str, wanted: str) -> Row:
    batches = [codec.encode(rows.slice(start, BATCH_ROWS)) for start in range(0, rows.num_rows, BATCH_ROWS)]
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(_seconds(lambda: [codec.decode(batch) for batch in batches]))
        theirs.append(
            _seconds(
                lambda: [pa.RecordBatch.from_pylist([_plain(one(value)) for value in batch.to_pylist()]) for batch in batches]
            )
        )
    mine, peer = (rows.num_rows / median(side) / 1e6 for side in (ours, theirs))
    return Row(f"decode {work}", mine, "M records/s", against, peer, mine / peer, wanted, os.getloadavg()[0])


def _written_row(rows: pa.RecordBatch) -> Row:
    codec = Codec(declare_format("avro", avro_of(COLUMNS)))
    schema = fastavro.parse_schema(orjson.loads(avro_of(COLUMNS)))
    batches = [rows.slice(start, BATCH_ROWS) for start in range(0, rows.num_rows, BATCH_ROWS)]

    def one_by_one() -> None:
        for batch in batches:
            for row in batch.to_pylist():
                fastavro.schemaless_writer(BytesIO(), schema, row)

    ours, theirs = _seconds(lambda: [codec.encode(batch) for batch in batches]), _seconds(one_by_one)
    mine, peer = (rows.num_rows / seconds / 1e6 for seconds in (ours, theirs))
    return Row(
        "encode Avro, ten nullable fields",
        mine,
        "M records/s",
        "fastavro one by one",
        peer,
        mine / peer,
        ">= 0.2",
        os.getloadavg()[0],
    )


def _written_csv_row(rows: pa.RecordBatch) -> Row:
    codec = Codec(declare_format("csv", COLUMNS.ddl()))
    one, batches = codec.value_writer(), [rows.slice(start, BATCH_ROWS) for start in range(0, rows.num_rows, BATCH_ROWS)]
    ours = _seconds(lambda: [codec.encode(batch) for batch in batches])
    theirs = _seconds(lambda: [[one(row) for row in batch.to_pylist()] for batch in batches])
    mine, peer = (rows.num_rows / seconds / 1e6 for seconds in (ours, theirs))
    return Row("encode CSV, ten fields", mine, "M records/s", "row by row", peer, mine / peer, ">= 0.5", os.getloadavg()[0])


def _plain(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _rows(count: int) -> pa.RecordBatch:
    columns = {
        "id": [*range(count)],
        "user": [f"user-{number % 10_007}" for number in range(count)],
        "amount": [number / 7 for number in range(count)],
        "items": [number % 50 for number in range(count)],
        "paid": [number % 3 == 0 for number in range(count)],
        "at": [1_700_000_000_000_000 + number * 1_000 for number in range(count)],
        "note": [None if number % 4 else f"a note of order {number}" for number in range(count)],
        "country": [("CH", "DE", "FR")[number % 3] for number in range(count)],
        "weight": [number % 1_000 / 2 for number in range(count)],
        "total": [number * 1_000_003 for number in range(count)],
    }
    arrays = [pa.array(values, COLUMNS.arrow_types[name]) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS.arrow)
