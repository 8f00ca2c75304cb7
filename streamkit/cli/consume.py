"""`streamkit consume`: the records of a topic, those that are there or those that come."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import pyarrow as pa
import typer

from streamkit.cli import completion
from streamkit.cli.choice import choice_option
from streamkit.cli.interruption import interruption
from streamkit.cli.location import LogOption, open_existing_log
from streamkit.cli.moment import parse_moment
from streamkit.cli.position import EARLIEST, LATEST, Position, parse_offset
from streamkit.cli.predicate import parse_predicate
from streamkit.cli.rendering import JsonOption, plain, show_table, write_csv, write_csv_line, write_json
from streamkit.cli.wanted import Wanted, check_offset, consumer_of, standing_records
from streamkit.errors import CorruptionError
from streamkit.log.consumer import Consumer
from streamkit.log.formats import Format as OpaqueFormat
from streamkit.log.formats import rows_of
from streamkit.log.frame import TIMESTAMP_TYPE
from streamkit.log.topic import Topic
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP, TOPIC

TABLE_ROWS = 20
OFFSET_MAX = (1 << 63) - 1
RECORD_COLUMNS = (TIMESTAMP, PARTITION, OFFSET, DELETED)
_RECORD_FIELDS = tuple(zip(RECORD_COLUMNS, (TIMESTAMP_TYPE, pa.int32(), pa.int64(), pa.bool_()), strict=True))
_LOOK_S = 0.2  # between two looks for an interrupt
_PATIENCE_S = 1.0  # for partitions that other members of the group have to release first


class Format(str, Enum):
    """How records are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=completion.topics)]
MaxOption = Annotated[
    int | None,
    typer.Option(
        "--max", metavar="N", min=1, help=f"Records at most; {TABLE_ROWS} for a table, all otherwise.", show_default=False
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only records for which this holds, as in \"dep_delay > 60 and _timestamp >= '2026-01-31'\"; bytes, such as keys "
        "of an opaque topic, are compared with the UTF-8 of a text.",
    ),
]
FollowOption = Annotated[bool, typer.Option("--follow", help="Wait for new records, until interrupted.")]
BeginningOption = Annotated[bool, typer.Option("--from-beginning", help="With --follow: those that are there first, too.")]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="N", min=0, help="Only this partition, as often as needed; else all."),
]
OffsetOption = Annotated[
    str | None,
    typer.Option(
        "--offset",
        metavar="OFFSET",
        help="Begin at this offset of the partition, or earliest or latest. [default: earliest, with --follow latest]",
        autocompletion=completion.bounds,
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Begin at each partition's first record of this event time or later: ISO 8601 such as 2026-01-31T12:00:00+01:00 "
        "(UTC if it has no zone), or ms since 1970.",
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        help="As a member of this group: go on where it has committed, and commit what was printed.",
        autocompletion=completion.groups,
    ),
]
FormatOption = Annotated[Format | None, choice_option("--format", Format, "How to print records. [default: table]")]
HeadersOption = Annotated[bool, typer.Option("--headers", help="Print the records' headers too.")]
RawOption = Annotated[bool, typer.Option("--raw", help="Print the bytes of an opaque topic in base 64, not decoded.")]


def consume(
    topic: TopicArgument,
    max_records: MaxOption = None,
    where: WhereOption = None,
    follow: FollowOption = False,
    from_beginning: BeginningOption = False,
    partitions: PartitionOption = None,
    offset: OffsetOption = None,
    since: SinceOption = None,
    group: GroupOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    headers: HeadersOption = False,
    raw: RawOption = False,
    log: LogOption = None,
) -> None:
    """
    Print the records of a topic.

    Without --follow those that are there, from the first one, or from where --group has committed. With --follow those that come.
    Each partition's are in the order of their offsets. JSON is one object a line. `streamkit produce` reads what is printed as
    JSON, or as CSV except of opaque topics. NaN and infinities are texts in JSON: "NaN", "Infinity", "-Infinity".
    """
    printed_as = _form(form, as_json=as_json)
    position = _position(offset, since, from_beginning=from_beginning, follow=follow)
    if group is not None and (offset is not None or since is not None or partitions):
        raise typer.BadParameter(
            "a group shares out the partitions, and goes on where it has committed; expected none of --offset, --since and "
            "--partition with it. To send it elsewhere: streamkit groups reset",
            param_hint="--group",
        )
    with open_existing_log(log) as opened:
        found = opened.topic(topic)
        columns = (*found.schema.names, HEADERS) if headers else found.schema.names
        condition = None if where is None else parse_predicate(where, _schema(found))
        wanted = Wanted(found, columns, tuple(partitions) if partitions else None, position, condition)
        check_offset(opened, wanted)
        limit = _limit(max_records, is_short=printed_as is Format.TABLE and not follow)
        output = _Output(columns, None if raw else found.format, printed_as, limit)
        if not follow and group is None:
            is_all = condition is None and partitions is None and position == EARLIEST
            output.write(_first(standing_records(opened, wanted), limit), opened.describe(topic)["rows"] if is_all else None)
            return
        with interruption() as interrupted, consumer_of(opened, wanted, group) as consumer:
            tables = _followed(consumer, interrupted) if follow else _drained(consumer)
            batches = _polled(tables, consumer, wanted, limit, commits=group is not None)
            output.write_each(batches) if follow else output.write(batches)


def _form(form: Format | None, *, as_json: bool) -> Format:
    if as_json and form not in (None, Format.JSON):
        raise typer.BadParameter("found another --format; expected one of the two", param_hint="--json")
    return Format.JSON if as_json else form or Format.TABLE


def _limit(max_records: int | None, *, is_short: bool) -> int | None:
    """How many records are printed at most; typer.BadParameter for more than there can be."""
    if max_records is not None and max_records > OFFSET_MAX:
        raise typer.BadParameter(f"found {max_records}; expected a whole number from 1 to {OFFSET_MAX}", param_hint="--max")
    return TABLE_ROWS if max_records is None and is_short else max_records


def _position(offset: str | None, since: str | None, *, from_beginning: bool, follow: bool) -> Position:
    if (offset is not None) + (since is not None) + from_beginning > 1:
        raise typer.BadParameter(
            "each says where to begin; expected one of them", param_hint="--offset / --since / --from-beginning"
        )
    if offset == LATEST and not follow:
        raise typer.BadParameter(
            "nothing is there yet behind the latest offset; add --follow to wait for it", param_hint="--offset"
        )
    if offset is not None:
        return parse_offset(offset)
    if since is not None:
        return parse_moment(since)
    return LATEST if follow and not from_beginning else EARLIEST


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
    """What is there, until nothing comes any more; then the error of the first frame that could not be read, if there was one."""
    failure = None
    while True:
        try:
            table = consumer.poll(_PATIENCE_S)
        except CorruptionError as error:
            if error.topic is None or error.partition is None:
                raise
            failure = failure or error
            consumer.pause([(error.topic, error.partition)])
            continue
        if table is None:
            break
        yield table
    if failure is not None:
        raise failure


def _polled(
    tables: Iterator[pa.Table], consumer: Consumer, wanted: Wanted, limit: int | None, *, commits: bool
) -> Iterator[pa.RecordBatch]:
    """What the condition holds for, `limit` rows at most; a batch is committed once it was printed."""
    left = limit
    for table in tables:
        for batch in table.combine_chunks().to_batches():
            taken = _until(batch, wanted, left)
            found = wanted.matching(taken)
            left = None if left is None else left - found.num_rows
            yield found.select([name for name in found.schema.names if name != TOPIC])
            sys.stdout.flush()
            if commits:
                consumer.commit(_positions_after(taken, consumer))
            if left == 0:
                return


def _until(batch: pa.RecordBatch, wanted: Wanted, count: int | None) -> pa.RecordBatch:
    """The rows up to the one that is number `count` among those the condition holds for."""
    if count is None or batch.num_rows <= count:
        return batch
    numbered = batch.append_column("_number", pa.array(range(batch.num_rows), pa.int64()))
    found = wanted.matching(numbered).column("_number")
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


@dataclass(frozen=True)
class _Output:
    """How records are printed: which columns, decoded by which format, as what, and up to which number they were asked for."""

    columns: tuple[str, ...]
    format: OpaqueFormat | None
    form: Format
    limit: int | None

    def write(self, batches: Iterable[pa.RecordBatch], total: int | None = None) -> None:
        """Print all batches as one; a table says how many of `total` records it has."""
        records = (record for batch in batches for record in self._records(batch))
        if self.form is Format.JSON:
            write_json(records)
        elif self.form is Format.CSV:
            write_csv_line((*self.columns, *RECORD_COLUMNS))
            write_csv((*self.columns, *RECORD_COLUMNS), records)
        else:
            self._show(records, total)

    def write_each(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Print batches as they come: as many tables."""
        if self.form is not Format.TABLE:
            self.write(batches)
            return
        for batch in batches:
            if batch.num_rows:
                self._table(self._records(batch))

    def _records(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        records = rows_of(self.format, batch)
        if HEADERS in self.columns:
            for record in records:
                record[HEADERS] = record[HEADERS] and [(header["key"], header["value"]) for header in record[HEADERS]]
        return records

    def _show(self, records: Iterator[dict[str, Any]], total: int | None) -> None:
        """Print a table of all records, also of those that came before an error."""
        found: list[dict[str, Any]] = []
        try:
            found.extend(records)  # keeps those that came before an error
        except CorruptionError:
            self._caption(found, total)
            raise
        self._caption(found, total)

    def _caption(self, records: list[dict[str, Any]], total: int | None) -> None:
        is_cut = len(records) == self.limit if total is None else len(records) < total
        more = "; --max N shows more, --json or --format csv all" if is_cut else ""
        of = "" if total is None else f" of {total:,}"
        self._table(records, f"{len(records):,}{of} records{more}")

    def _table(self, records: list[dict[str, Any]], caption: str | None = None) -> None:
        """The topic's own columns; where a record is a deletion, also which ones are."""
        titles = (*self.columns, DELETED) if any(record[DELETED] for record in records) else self.columns
        show_table(titles, [[_cell(record, name) for name in titles] for record in records], caption, thousands="")


def _cell(record: dict[str, Any], name: str) -> Any:
    value = record[name]
    if name == HEADERS and value is not None:
        return ", ".join(f"{key}={_text(data)}" for key, data in value)
    return (value or None) if name == DELETED else value


def _text(data: bytes | None) -> str:
    """The bytes of a header as text where they are some, else in base 64."""
    if data is None:
        return ""
    text = data.decode(errors="replace")
    return text if text.isprintable() and "\ufffd" not in text else str(plain(data))
