"""`streamkit consume`: the records of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Annotated

import pyarrow as pa
import typer

from streamkit.cli.location import LogOption, open_existing_log
from streamkit.cli.rendering import show_table, write_csv, write_json
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
    log: LogOption = None,
) -> None:
    """Print the records of a topic, partition by partition in the order of their offsets."""
    with open_existing_log(log) as opened:
        described = opened.describe(topic)
        batches = opened.scan(topic)
        if form is Format.TABLE:
            _show(_first(batches, max_records or TABLE_ROWS), described["rows"], opened.topic(topic).schema.names)
        elif form is Format.JSON:
            write_json(_first(batches, max_records))
        else:
            write_csv((*opened.topic(topic).schema.names, *RECORD_COLUMNS), _first(batches, max_records))


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


def _show(batches: Iterator[pa.RecordBatch], total: int, names: tuple[str, ...]) -> None:
    rows = [tuple(record.values()) for batch in batches for record in batch.select(names).to_pylist()]
    more = "; --max N shows more, --format json or csv all" if len(rows) < total else ""
    show_table(names, rows, caption=f"{len(rows):,} of {total:,} records{more}", thousands="")
