"""
Functions over a million rows: StreamKit, Spark, and Arrow's own kernel where there is one, each on one core.

Spark's rows are cached in one partition, and a result is a write to nowhere. A query reads them several times, because the start of a
job would count else. Its time includes the reading of its cache, whose rate has a row of its own: a function that comes near it costs
Spark next to nothing. Almost no value repeats, so that no dictionary helps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.plan.expression import SqlText, TypedExpression
from streamkit.schema import Schema
from tests.bench.row import Row

RECORDS = 1_000_000
BATCH_ROWS = 65_536
READINGS = 4  # of the rows in one query of Spark
ROUNDS = 3
SCHEMA = Schema.parse("name string, city string, moment timestamp, written string, document string")
CITIES = ("New York", "Zürich", "Ürümqi", "Oslo")
Kernel = Callable[[pa.RecordBatch], object]


@dataclass(frozen=True)
class Measured:
    """A function: its name, a call of it, and what Arrow has for it."""

    name: str
    call: str
    kernel: Kernel | None = None


FUNCTIONS = (
    Measured("upper", "upper(name)", lambda rows: pc.utf8_upper(rows["name"])),
    Measured("concat", "concat(name, city)", lambda rows: pc.binary_join_element_wise(rows["name"], rows["city"], "")),
    Measured("substring", "substring(name, 3, 5)", lambda rows: pc.utf8_slice_codeunits(rows["name"], 2, 7)),
    Measured("like", "name LIKE '%9%a_'", lambda rows: pc.match_like(rows["name"], "%9%a_")),
    Measured("split", "split(name, ' ')", lambda rows: pc.split_pattern(rows["name"], " ")),
    Measured(
        "regexp_extract",
        "regexp_extract(name, '([0-9]+) of ([a-z]+)', 1)",
        lambda rows: pc.extract_regex(rows["name"], "(?P<number>[0-9]+) of (?P<what>[a-z]+)"),
    ),
    Measured(
        "regexp_replace",
        "regexp_replace(name, '[0-9]+', '#')",
        lambda rows: pc.replace_substring_regex(rows["name"], "[0-9]+", "#"),
    ),
    Measured("md5", "md5(name)"),
    Measured(
        "to_timestamp",
        "to_timestamp(written, 'yyyy-MM-dd HH:mm:ss')",
        lambda rows: pc.strptime(rows["written"], "%Y-%m-%d %H:%M:%S", "us"),
    ),
    Measured(
        "date_format", "date_format(moment, 'yyyy-MM-dd HH:mm')", lambda rows: pc.strftime(rows["moment"], "%Y-%m-%d %H:%M")
    ),
    Measured("hour", "hour(moment)", lambda rows: pc.hour(rows["moment"])),
    Measured("get_json_object", "get_json_object(document, '$.order.price')"),
    Measured("from_json", "from_json(document, 'id int, order struct<price: double>, tags array<string>')"),
)


def function_rows(session: SparkSession, folder: Path) -> Iterator[Row]:
    """Each function in turn on either side, medians of three rounds behind one that warms up."""
    rows = table()
    batches = rows.to_batches(max_chunksize=BATCH_ROWS)
    frame = _cached(session, rows, folder / "functions.parquet")
    reading = READINGS * _rate(lambda: _write(frame, "name"))
    yield Row("Spark reads one column of its cache", reading, "M rows/s", "-", None, None, "-", os.getloadavg()[0])
    for one in FUNCTIONS:
        yield from _measured(one, batches, frame)
    frame.unpersist()


def _measured(one: Measured, batches: list[pa.RecordBatch], frame: DataFrame) -> Iterator[Row]:
    expression = _typed(one.call)
    ours = _rate(lambda: _each(batches, lambda batch: evaluate(expression, batch)))
    theirs = READINGS * _rate(lambda: _write(frame, one.call))
    yield _compared(one.name, ours, "Spark", theirs, ">= 1")
    if (kernel := one.kernel) is not None:
        yield _compared(one.name, ours, "Arrow's kernel", _rate(lambda: _each(batches, kernel)), ">= 0.33")


def table(records: int = RECORDS) -> pa.Table:
    """Rows of short texts, a moment each second, the moments as text, and small JSON documents."""
    numbers = range(records)
    moments = pa.array([1_356_998_400_000_000 + number * 1_000_000 for number in numbers], pa.timestamp("us", tz="UTC"))
    columns = {
        "name": pa.array([f"Customer {number} of many" for number in numbers]),
        "city": pa.array([f"{CITIES[number % 4]} {number % 9_973}" for number in numbers]),
        "moment": moments,
        "written": pc.strftime(moments.cast(pa.timestamp("s", tz="UTC")), "%Y-%m-%d %H:%M:%S"),
        "document": pa.array([_document(number) for number in numbers]),
    }
    return pa.table(columns)


def _document(number: int) -> str:
    return f'{{"id": {number}, "order": {{"price": {number}.25, "currency": "EUR"}}, "tags": ["a{number % 7}", "new"]}}'


def _cached(session: SparkSession, rows: pa.Table, file: Path) -> DataFrame:
    """The rows in Spark's memory, in one partition, read in UTC."""
    pq.write_table(rows, file)
    own = session.newSession()
    own.conf.set("spark.sql.session.timeZone", "UTC")
    frame = own.read.parquet(str(file)).coalesce(1).cache()
    assert frame.count() == rows.num_rows
    return frame


def _typed(call: str) -> TypedExpression:
    ((_, typed),) = ExpressionAnalyzer().project(SCHEMA, [("result", SqlText(call))])
    return typed


def _write(frame: DataFrame, call: str) -> None:
    results = frame.selectExpr(f"{call} AS result")
    reduce(DataFrame.union, [results] * READINGS).coalesce(1).write.format("noop").mode("overwrite").save()


def _each(batches: list[pa.RecordBatch], kernel: Kernel) -> None:
    for batch in batches:
        kernel(batch)


def _rate(work: Callable[[], None]) -> float:
    """Millions of rows a second, of work that goes through them once."""
    work()
    return RECORDS / median(_seconds(work) for _ in range(ROUNDS)) / 1e6


def _seconds(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _compared(name: str, ours: float, against: str, theirs: float, wanted: str) -> Row:
    return Row(f"{name}, 1 M rows", ours, "M rows/s", against, theirs, ours / theirs, wanted, os.getloadavg()[0])
