"""`streamkit consume`: the records of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any

import pyarrow as pa
import typer

from streamkit.cli.location import LogOption, open_existing_log
from streamkit.cli.rendering import show_table, write_csv, write_json
from streamkit.log.formats import Format as OpaqueFormat
from streamkit.log.formats import rows_of
from streamkit.names import DELETED, OFFSET, PARTITION, TIMESTAMP

TABLE_ROWS = 20
RECORD_COLUMNS = (TIMESTAMP, PARTITION, OFFSET, DELETED)


class Format(str, Enum):
    """How records are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def consume(
    topic: Annotated[str, typer.Argument(help="The topic's name.")],
    max_records: Annotated[
        int | None,
        typer.Option("--max", min=1, help=f"Records at most; {TABLE_ROWS} for a table, all otherwise.", show_default=False),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print records.")] = Format.TABLE,
    raw: Annotated[bool, typer.Option("--raw", help="Print the bytes of an opaque topic in base 64, not decoded.")] = False,
    log: LogOption = None,
) -> None:
    """Print the records of a topic, partition by partition in the order of their offsets."""
    with open_existing_log(log) as opened:
        described = opened.describe(topic)
        found = opened.topic(topic)
        batches = _first(opened.scan(topic), TABLE_ROWS if max_records is None and form is Format.TABLE else max_records)
        records = _records(None if raw else found.format, batches)
        if form is Format.TABLE:
            _show(records, described["rows"], found.schema.names)
        elif form is Format.JSON:
            write_json(records)
        else:
            write_csv((*found.schema.names, *RECORD_COLUMNS), records)


def _first(batches: Iterator[pa.RecordBatch], count: int | None) -> Iterator[pa.RecordBatch]:
    """The first `count` rows; all of them if it is None."""
    left = count
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def _records(format: OpaqueFormat | None, batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from rows_of(format, batch)


def _show(records: Iterator[dict[str, Any]], total: int, names: tuple[str, ...]) -> None:
    rows = [tuple(record[name] for name in names) for record in records]
    more = "; --max N shows more, --format json or csv all" if len(rows) < total else ""
    show_table(names, rows, caption=f"{len(rows):,} of {total:,} records{more}", thousands="")
