"""`streamkit produce`: records of a file into a topic."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from streamkit.cli.record_file_name import delimiter_of_name, form_of_name
from streamkit.cli.terminal import completion
from streamkit.cli.terminal.choice import choice_option
from streamkit.cli.terminal.interruption import interruption
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.record_input import DelimiterOption, EncodingOption
from streamkit.cli.terminal.rendering import JsonOption, counted, show_json, show_note, visible
from streamkit.cli.terminal.standard_streams import standard_input
from streamkit.connectors.files.open_file import compression_of, open_reading, whole
from streamkit.connectors.files.recoded import check_encoding, recoded
from streamkit.connectors.files.record_file import FileFormat, FilePiece, RecordFile
from streamkit.connectors.files.spelling import Spelling
from streamkit.description.receipts import written_json
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.opening import open_existing_log
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.receipt import Receipt
from streamkit.log.rows.conversion import convert_arrow
from streamkit.log.topic.kept_time import kept_since_ms
from streamkit.log.topic.settings import RETENTION_MS
from streamkit.log.topic.topic import Topic
from streamkit.names import TIMESTAMP
from streamkit.plan.duration import duration_text
from streamkit.schema import SchemaColumn

LINGER_MS = 1_000  # of records that come through a pipe
_STANDARD_INPUT = "-"


NullOption = Annotated[
    list[str] | None,
    typer.Option(
        "--null",
        metavar="TEXT",
        help="An unquoted text that is null in CSV, as often as there are such texts; empty unless given.",
        show_default=False,
    ),
]
CommaOption = Annotated[
    bool, typer.Option("--decimal-comma", help="Numbers of CSV have a comma before the fraction, as in 1.234,5.")
]
DateFormatOption = Annotated[
    str | None,
    typer.Option(
        "--date-format",
        metavar="PATTERN",
        help="How dates are written, such as dd.MM.yyyy; else ISO 8601.",
        show_default=False,
    ),
]
TimestampFormatOption = Annotated[
    str | None,
    typer.Option(
        "--timestamp-format",
        metavar="PATTERN",
        help="How times are written, such as dd.MM.yyyy HH:mm:ss; else ISO 8601.",
        show_default=False,
    ),
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        help="Write as the producer of this id; older producers of this id can no longer write.",
        show_default=False,
    ),
]
TimestampColumnOption = Annotated[
    str | None,
    typer.Option("--timestamp-column", metavar="COLUMN", help="The column of the file with the event time.", show_default=False),
]


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=completion.topics)],
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file with the records; - reads them from standard input.")],
    form: Annotated[
        FileFormat | None, choice_option("--format", FileFormat, "The format of the file; by its suffix unless given.")
    ] = None,
    producer_id: IdOption = None,
    timestamp_column: TimestampColumnOption = None,
    null: NullOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = "utf-8",
    has_commas: CommaOption = False,
    date_format: DateFormatOption = None,
    timestamp_format: TimestampFormatOption = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Write the records of a file to a topic.

    All of them are written in one transaction, or none. From standard input they are written as they arrive, and records that were written
    before an error or an interrupt stay: standard error says how many.
    CSV has a line of names, JSON one object a line, with every column of the topic. Unless a format is given, times are ISO 8601 (UTC if there is
    no zone) or milliseconds, bytes base 64, headers pairs of a name and base 64, NaN and infinities in JSON "NaN", "Infinity", "-Infinity": what
    `streamkit consume` prints can be read, but for values in Avro's unions of several types, where texts and numbers stay as they are.
    For opaque topics the format must be JSON or Parquet.

    A record with true in its column _deleted deletes its key: in JSON the key columns are enough, as in {"name": "ann", "_deleted": true}.
    Its event time is that of the topic's timestamp column if it has that, else _timestamp, else the time of arrival.
    """
    chosen = form or form_of_name(file)
    named = "standard input" if file == _STANDARD_INPUT else file
    spelling = Spelling(("",) if null is None else tuple(null), has_commas, date_format, timestamp_format)
    written_in = "utf-8" if chosen is FileFormat.PARQUET else check_encoding(encoding)
    begun = time.monotonic()
    with open_existing_log(log) as opened, _opened(file) as source, _progress(file, source) as advance:
        target = opened.topic(topic)
        readable = recoded(source, written_in, Path(named))
        records = RecordFile(
            readable, named, chosen, target, timestamp_column, spelling, delimiter=delimiter_of_name(file, delimiter)
        )
        expired = _Expired(target, opened.clock.now_ms())
        producer = opened.producer(producer_id, linger_ms=LINGER_MS if file == _STANDARD_INPUT else None)
        receipts = _send(producer, target, records, (advance, expired.count), is_one=file != _STANDARD_INPUT)
    expired.warn()
    _show(topic, receipts, time.monotonic() - begun, as_json)


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == _STANDARD_INPUT:
        with interruption() as interrupted:
            yield standard_input(interrupted)
        return
    path = Path(file)
    try:
        source = open_reading(path)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    with source, whole(path):
        yield source


def _send(
    producer: Producer, topic: Topic, records: RecordFile, sent: Sequence[Callable[[FilePiece], None]], *, is_one: bool
) -> list[Receipt]:
    """Send all records; each of `sent` is called with every piece that was taken."""
    receipts: list[Receipt] = []
    with producer, producer.transaction() if is_one else _kept(producer, topic, receipts):
        for piece in records.pieces():
            try:
                receipts.append(producer.send_batch(topic.name, piece.records))
            except SchemaError as error:
                if error.rows and error.rows[0]:
                    receipts.append(producer.send_batch(topic.name, piece.records[: error.rows[0]]))
                raise records.refusal(error, piece.first) from None
            for call in sent:
                call(piece)
    return receipts


@contextmanager
def _kept(producer: Producer, topic: Topic, receipts: list[Receipt]) -> Iterator[None]:
    """Write what was sent also if the block raises; then standard error says how much that is, if it is anything."""
    try:
        yield
    except BaseException:
        try:
            producer.flush()
        finally:
            written = sum(following - first for receipt in receipts for first, following in (receipt.offsets or {}).values())
            if written:
                typer.echo(f"{counted(written, 'record')} written to {topic.name} before it stopped", err=True)
        raise


class _Advance:
    """Moves a progress bar."""

    def __init__(self, progress: Progress, file: str, total: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task(visible(file), total=total)

    def __call__(self, piece: FilePiece) -> None:
        self._progress.update(self._task, completed=piece.read_bytes)


class _Expired:
    """Counts the records that are older than their topic keeps them, and warns of them."""

    def __init__(self, topic: Topic, now_ms: int) -> None:
        self._topic = topic
        self._since_ms = kept_since_ms(topic, now_ms)
        self._retention_ms = now_ms - (self._since_ms or 0)
        self._records = 0

    def count(self, piece: FilePiece) -> None:
        """Look at the event times of a piece: those of the topic's column, else those that are given with the records."""
        if self._since_ms is None:
            return
        names = [name for name in (self._topic.timestamp or TIMESTAMP, TIMESTAMP) if name in piece.records.schema.names]
        columns = [convert_arrow(SchemaColumn(name, "timestamp"), piece.records.column(name)) for name in names]
        if columns:
            before = pa.scalar(self._since_ms * 1_000).cast(columns[0].type)
            self._records += pc.less(pc.coalesce(*columns), before).true_count

    def warn(self) -> None:
        """Say on standard error how many there were, if there were any, and how to keep them."""
        if self._records:
            name, retention, verb = (
                self._topic.name,
                f"{RETENTION_MS}={self._retention_ms}",
                "is" if self._records == 1 else "are",
            )
            show_note(
                f"{counted(self._records, 'record')} of {name} {verb} older than {duration_text(self._retention_ms)}, which is how long the "
                f"topic keeps them ({retention}): maintenance deletes them soon. "
                f"To keep them: streamkit topics alter {name} --config {RETENTION_MS}=-1"
            )


@contextmanager
def _progress(file: str, source: BinaryIO) -> Iterator[_Advance]:
    """A bar on the terminal's error stream, which vanishes when all is done; nothing where there is no terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    is_as_long = file != _STANDARD_INPUT and compression_of(Path(file)) == "none"  # as what is read of it
    total = os.fstat(source.fileno()).st_size if is_as_long else None
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _Advance(progress, file, total)


def _show(topic: str, receipts: list[Receipt], seconds: float, as_json: bool) -> None:
    written = written_json(topic, receipts)
    records = written["records"]
    if as_json:
        show_json({**written, "seconds": round(seconds, 3)})
    else:
        print(f"{counted(records, 'record')} written to {topic} in {seconds:.1f} s, {records / max(seconds, 1e-9):,.0f} a second")
