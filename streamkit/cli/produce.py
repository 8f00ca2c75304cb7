"""`streamkit produce`: records of a file into a topic."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, BinaryIO

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from streamkit.cli import completion
from streamkit.cli.choice import choice_option, words_of
from streamkit.cli.interruption import interruption
from streamkit.cli.location import LogOption, open_existing_log
from streamkit.cli.record_files import Format, RecordFile
from streamkit.cli.rendering import JsonOption, counted, show_json, visible
from streamkit.cli.standard_streams import standard_input
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.log import Log
from streamkit.log.produce.producer import Producer
from streamkit.log.produce.receipt import Receipt
from streamkit.log.topic.topic import Topic

LINGER_MS = 1_000  # of records that come through a pipe
_STANDARD_INPUT = "-"
_SUFFIXES = {".csv": Format.CSV, ".json": Format.JSON, ".jsonl": Format.JSON, ".ndjson": Format.JSON, ".parquet": Format.PARQUET}


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=completion.topics)],
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file with the records; - reads them from standard input.")],
    form: Annotated[Format | None, choice_option("--format", Format, "How the records lie in it; else its suffix says.")] = None,
    producer_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="Write as the producer of this id, of which an older one can write no more.",
            show_default=False,
        ),
    ] = None,
    timestamp_column: Annotated[
        str | None,
        typer.Option(
            "--timestamp-column", metavar="COLUMN", help="The column of the file with the event time.", show_default=False
        ),
    ] = None,
    null: Annotated[
        str, typer.Option("--null", metavar="TEXT", help="The unquoted text that is null in CSV; empty unless given.")
    ] = "",
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Write the records of a file to a topic.

    All of them in one transaction, or none; from standard input they go as they come, and what was sent before an error or an interrupt
    stays: standard error says how much.
    CSV has a line of names, JSON one object a line, with every column of the topic. Times are ISO 8601 (UTC if there is no zone) or
    milliseconds, bytes base 64, headers pairs of a name and base 64, NaN and infinities in JSON "NaN", "Infinity", "-Infinity": what
    `streamkit consume` prints can be read, but for texts in Avro's unions of several types, which stay texts.
    Opaque topics take JSON and Parquet only.
    """
    chosen = form or _form_of(file)
    begun = time.monotonic()
    with open_existing_log(log) as opened, _opened(file) as source, _progress(file, source) as advance:
        target = opened.topic(topic)
        records = RecordFile(
            source, "standard input" if file == _STANDARD_INPUT else file, chosen, target, timestamp_column, null
        )
        receipts = _send(_producer(opened, file, producer_id), target, records, advance, is_one=file != _STANDARD_INPUT)
    _show(topic, receipts, time.monotonic() - begun, as_json)


def _form_of(file: str) -> Format:
    found = _SUFFIXES.get(os.path.splitext(file)[1].lower())
    if found is None:
        raise ConfigError(f"{file!r} does not say how its records lie in it; name it with --format {'|'.join(words_of(Format))}")
    return found


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == _STANDARD_INPUT:
        with interruption() as interrupted:
            yield standard_input(interrupted)
        return
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as source:
        yield source


def _producer(log: Log, file: str, producer_id: str | None) -> Producer:
    return log.producer(producer_id, linger_ms=LINGER_MS if file == _STANDARD_INPUT else None)


def _send(producer: Producer, topic: Topic, records: RecordFile, advance: _Advance, *, is_one: bool) -> list[Receipt]:
    receipts: list[Receipt] = []
    with producer, producer.transaction() if is_one else _kept(producer, topic, receipts):
        for piece in records.pieces():
            try:
                receipts.append(producer.send_batch(topic.name, piece.records))
            except SchemaError as error:
                if error.rows and error.rows[0]:
                    receipts.append(producer.send_batch(topic.name, piece.records[: error.rows[0]]))
                raise records.refusal(error, piece.first) from None
            advance(piece.read_bytes)
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

    def __call__(self, read_bytes: int) -> None:
        self._progress.update(self._task, completed=read_bytes)


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
    total = os.fstat(source.fileno()).st_size if file != _STANDARD_INPUT else None
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _Advance(progress, file, total)


def _show(topic: str, receipts: list[Receipt], seconds: float, as_json: bool) -> None:
    offsets: dict[int, tuple[int, int]] = {}
    records = 0
    for receipt in receipts:
        for partition, (first, following) in (receipt.offsets or {}).items():
            known = offsets.get(partition, (first, following))
            offsets[partition] = (min(known[0], first), max(known[1], following))
            records += following - first
    if as_json:
        show_json({"topic": topic, "records": records, "seconds": round(seconds, 3), "offsets": dict(sorted(offsets.items()))})
    else:
        print(f"{counted(records, 'record')} written to {topic} in {seconds:.1f} s, {records / max(seconds, 1e-9):,.0f} a second")
