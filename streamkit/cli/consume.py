"""`streamkit consume`: the records of a topic, those that are there or those that come."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from streamkit.cli import completion
from streamkit.cli.interruption import interruption
from streamkit.cli.location import LogOption, open_existing_log
from streamkit.cli.predicate import parse_predicate
from streamkit.cli.rendering import show_table, write_csv, write_json
from streamkit.log.consumer import Consumer
from streamkit.log.formats import Format as OpaqueFormat
from streamkit.log.formats import rows_of
from streamkit.log.frame import TIMESTAMP_TYPE
from streamkit.log.topic import Topic
from streamkit.names import DELETED, OFFSET, PARTITION, TIMESTAMP, TOPIC

TABLE_ROWS = 20
FOLLOWED_ROWS = 1_000  # in one poll: what is read is printed and committed before more is read
RECORD_COLUMNS = (TIMESTAMP, PARTITION, OFFSET, DELETED)
_RECORD_FIELDS = tuple(zip(RECORD_COLUMNS, (TIMESTAMP_TYPE, pa.int32(), pa.int64(), pa.bool_()), strict=True))
_LOOK_S = 0.2  # between two looks for an interrupt
_PATIENCE_S = 1.0  # for partitions that other members of the group have to release first


class Format(str, Enum):
    """How records are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def consume(
    topic: Annotated[str, typer.Argument(help="The topic's name.", autocompletion=completion.topics)],
    max_records: Annotated[
        int | None,
        typer.Option("--max", min=1, help=f"Records at most; {TABLE_ROWS} for a table, all otherwise.", show_default=False),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help='Only records for which this holds, as in "dep_delay > 60".'),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new records, until interrupted.")] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="With --follow: those that are there first, too.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option("--group", help="As a member of this group: go on where it has committed, and commit what was printed."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print records.")] = Format.TABLE,
    raw: Annotated[bool, typer.Option("--raw", help="Print the bytes of an opaque topic in base 64, not decoded.")] = False,
    log: LogOption = None,
) -> None:
    """
    Print the records of a topic, each partition's in the order of their offsets.

    Without --follow those that are there, from the first one, or from where --group has committed. With --follow those that come.
    """
    with open_existing_log(log) as opened:
        found = opened.topic(topic)
        names, shown_as = found.schema.names, None if raw else found.format
        condition = None if where is None else parse_predicate(where, _schema(found))
        limit = TABLE_ROWS if max_records is None and form is Format.TABLE and not follow else max_records
        if not follow and group is None:
            batches = _first(_filtered(opened.scan(topic), condition), limit)
            _print(_records(shown_as, batches), names, form, limit, None if where else opened.describe(topic)["rows"])
            return
        reset = "latest" if follow and not from_beginning else "earliest"
        consumer = opened.consumer(topic, group, auto_offset_reset=reset, max_poll_records=FOLLOWED_ROWS)
        with interruption() as interrupted, consumer:
            tables = _followed(consumer, interrupted) if follow else _drained(consumer)
            batches = _polled(tables, consumer, condition, limit, commits=group is not None)
            if follow and form is Format.TABLE:
                for batch in batches:
                    _show_some(list(rows_of(shown_as, batch)), names)
            else:
                _print(_records(shown_as, batches), names, form, limit)


def _schema(topic: Topic) -> pa.Schema:
    """What a condition may speak of: the topic's columns, and the record's own."""
    fields = [column.arrow for column in topic.schema]
    return pa.schema([*fields, *(pa.field(name, kind) for name, kind in _RECORD_FIELDS)])


def _followed(consumer: Consumer, interrupted: threading.Event) -> Iterator[pa.Table]:
    """What comes, until the interrupt."""
    while not interrupted.is_set():
        table = consumer.poll(_LOOK_S)
        if table is not None:
            yield table


def _drained(consumer: Consumer) -> Iterator[pa.Table]:
    """What is there, until nothing comes any more."""
    while (table := consumer.poll(_PATIENCE_S)) is not None:
        yield table


def _polled(
    tables: Iterator[pa.Table], consumer: Consumer, condition: pc.Expression | None, limit: int | None, *, commits: bool
) -> Iterator[pa.RecordBatch]:
    """What the condition holds for, `limit` rows at most; a batch is committed once it was printed."""
    left = limit
    for table in tables:
        for batch in table.combine_chunks().to_batches():
            taken = _until(batch, condition, left)
            found = next(_filtered(iter([taken]), condition))
            left = None if left is None else left - found.num_rows
            yield found.select([name for name in found.schema.names if name != TOPIC])
            sys.stdout.flush()
            if commits:
                consumer.commit(_positions_after(taken, consumer))
            if left == 0:
                return


def _until(batch: pa.RecordBatch, condition: pc.Expression | None, count: int | None) -> pa.RecordBatch:
    """The rows up to the one that is number `count` among those the condition holds for."""
    if count is None or batch.num_rows <= count:
        return batch
    numbered = batch.append_column("_number", pa.array(range(batch.num_rows), pa.int64()))
    found = next(_filtered(iter([numbered]), condition)).column("_number")
    return batch if len(found) <= count else batch.slice(0, found[count - 1].as_py() + 1)


def _positions_after(rows: pa.RecordBatch, consumer: Consumer) -> dict[tuple[str, int], int]:
    """The offsets after the last rows, by partition, of those that are still ours."""
    held = {partition: name for name in consumer.assignment() for partition in [name.partition]}
    last = (
        pa.table({PARTITION: rows.column(PARTITION), OFFSET: rows.column(OFFSET)})
        .group_by(PARTITION)
        .aggregate([(OFFSET, "max")])
    )
    found = zip(last[PARTITION].to_pylist(), last[f"{OFFSET}_max"].to_pylist())
    return {held[partition]: offset + 1 for partition, offset in found if partition in held}


def _filtered(batches: Iterator[pa.RecordBatch], condition: pc.Expression | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch if condition is None else batch.filter(condition)


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


def _print(
    records: Iterator[dict[str, Any]], names: tuple[str, ...], form: Format, limit: int | None, total: int | None = None
) -> None:
    if form is Format.JSON:
        write_json(records)
    elif form is Format.CSV:
        write_csv((*names, *RECORD_COLUMNS), records)
    else:
        _show(records, names, limit, total)


def _show_some(records: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    if records:
        show_table(names, [tuple(record[name] for name in names) for record in records], thousands="")


def _show(records: Iterable[dict[str, Any]], names: tuple[str, ...], limit: int | None, total: int | None) -> None:
    rows = [tuple(record[name] for name in names) for record in records]
    is_cut = len(rows) == limit if total is None else len(rows) < total
    more = "; --max N shows more, --format json or csv all" if is_cut else ""
    of = "" if total is None else f" of {total:,}"
    show_table(names, rows, caption=f"{len(rows):,}{of} records{more}", thousands="")
