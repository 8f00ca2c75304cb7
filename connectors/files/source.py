"""Files of a folder into a topic: each file is a split, read once, and nothing of a file that changes is believed."""

from __future__ import annotations

import glob
import io
import os
import re
import shutil
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from streamkit.connectors.files.csv_lines import check_delimiter
from streamkit.connectors.files.file_state import FileChange, Stillness, change_of, state_of
from streamkit.connectors.files.guess import Guess, NoRecordsError, guess_open
from streamkit.connectors.files.guessed_values import column_type
from streamkit.connectors.files.json_layout import HEAD_BYTES, JsonLayout, layout_of
from streamkit.connectors.files.line_ends import count_lines
from streamkit.connectors.files.open_file import CutOffError, compression_of, format_of, is_cut_off, open_reading, whole
from streamkit.connectors.files.position import POSITION_AT_BEGINNING, POSITION_IN_FILE
from streamkit.connectors.files.recoded import check_encoding, recoded
from streamkit.connectors.files.record_blocks import (
    Block,
    HalfRecordError,
    blocks,
    document_blocks,
    header_of,
    header_of_names,
    records_of,
    start_of_records,
)
from streamkit.connectors.files.record_file import FileFormat, RecordFile
from streamkit.connectors.files.spelling import Spelling
from streamkit.connectors.redaction import logger_of
from streamkit.connectors.runtime.positions import read_positions
from streamkit.connectors.setting import Setting
from streamkit.connectors.source import BEGIN, RECREATED_MODE, Polled, Position, Source
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.log import Log
from streamkit.log.topic.evolution import is_wider
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.names import check_name
from streamkit.schema import Schema

GUESS_ROWS = 10_000
STILL_MS = 5_000  # how long a file must have been left alone to be whole, where min.age.ms does not say
UNENDED_MS = 60_000  # and so long where it seems to end within a record, if the task goes on anyway
LOOK_SECONDS = 1.0  # between two looks at files that were read to their end
LOOK_SECONDS_BOUNDED = 0.05
_LINE = re.compile(r"^.*?, (line|record) (\d+): ", re.DOTALL)

_LOGGER = logger_of(__name__)


@dataclass
class FileReading:
    """
    A file that is being read: where it lies, what it was, how far it was read, and the columns that were guessed.

    `checksum` is that of all bytes before `start`; `is_unended` says that the last record had no end of its line.
    """

    split: str
    path: Path
    state: dict[str, Any]
    start: int = 0
    line: int = 1
    rows: int = 0
    checksum: int | None = None
    is_unended: bool = False
    guessed: str | None = None
    spelled: Mapping[str, str] | None = None
    parts: Generator[pa.Table, None, None] | None = None


_NOTED = pa.table({})  # no rows, but a position


class _UnfinishedError(Exception):
    """A file, or what of it is not read yet, is not whole and not left alone: it is still being written."""


class FileSource(Source):
    """
    CSV with a line of names, JSON lines and Parquet, plain, `.gz` or `.zst`, exactly once.

    `path` is a file, a folder or a pattern such as `in/*.csv`. Files whose names begin with a dot or an underscore, or end in
    `.tmp`, are not read, and neither are files to which somebody has written within the last `min.age.ms`.

    Files may grow while they are read and later: of CSV and JSON lines each record is read as soon as its line ends.
    What is not whole is read after nobody has written to the file for `min.age.ms`, or for five seconds unless given; for a last record
    without the end of its line this is a minute, unless the task runs once. A file that changed otherwise is an error.
    """

    POSITION = POSITION_IN_FILE
    SETTINGS = (
        Setting("path", "a file, a folder, or a pattern of files"),
        Setting("format", "csv, json or parquet; by the suffix unless given", default=None, choices=("csv", "json", "parquet")),
        Setting("schema", "the columns of a topic that is created, such as 'id bigint, name string'; else guessed", default=None),
        Setting("delimiter", "the character between the values of CSV, such as ; or a tab", default=","),
        Setting(
            "header",
            "whether CSV begins with a line of names; else schema or the topic has them, in their order",
            "boolean",
            True,
        ),
        Setting(
            "decimal.comma",
            "whether numbers of CSV have a comma before the fraction, and maybe points between thousands",
            "boolean",
            False,
        ),
        Setting("encoding", "how CSV and JSON lines are encoded, such as latin-1, cp1252 or utf-16", default="utf-8"),
        Setting("timestamp.column", "the column of the file with the event time", default=None),
        Setting(
            "null",
            "the unquoted texts that mean null in CSV, with commas between; NULL,NA, includes the empty text",
            "texts",
            ("",),
        ),
        Setting("date.format", "how dates are written, such as dd.MM.yyyy; else ISO 8601", default=None),
        Setting(
            "timestamp.format",
            "how times are written, such as dd.MM.yyyy HH:mm, in UTC without a zone; else ISO 8601",
            default=None,
        ),
        Setting(
            "min.age.ms",
            "how long nobody must have written to a file before it is read; unless given, whole records are read at once, and others "
            "after 5 s; 0 says that files are whole when they appear",
            "integer",
            None,
            least=0,
        ),
        Setting("finished.path", "the folder to which files are moved after they were read to their end", default=None),
        Setting("error.path", "the folder to which files are moved that cannot be read", default=None),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._waiting: list[tuple[str, Position | None]] = []
        self._reading: FileReading | None = None
        self._held: dict[str, Position] = {}  # still being written; the position says how far they were read
        self._read: dict[str, Position] = {}  # to their end
        self._to_note: dict[str, Position] = {}  # moved since the last poll
        self._moved: set[str] = set()  # whose place may have another file later
        self._gone: dict[str, Position | None] = {}  # whose place may, too, and how far those files were read
        age_ms = self.settings["min.age.ms"]
        self._stillness = Stillness(STILL_MS if age_ms is None else int(age_ms))
        self._longer_stillness = self._stillness if age_ms is not None else Stillness(UNENDED_MS)
        self._half: set[str] = set()  # files that are held because their last record seems to be unfinished
        self._looked = self._opened = 0.0
        self._place: Callable[[int], str] = lambda row: ""  # of a row of the last part
        self._log: Log | None = None
        self._spelled: Mapping[str, str] | None = None  # the types of guessed columns as their values were spelled
        self._has_to_note = False  # that columns were guessed, before a topic has them
        self._guessed: str | None = None  # the columns, where nothing but the first file says them

    def check(self) -> None:
        """A topic is needed: a folder says no name."""
        check_name(self.settings["topic"], "topic")
        check_delimiter(self.settings["delimiter"])
        self._encoding = check_encoding(self.settings["encoding"])
        self._spelling = Spelling(
            self.settings["null"], self.settings["decimal.comma"], self.settings["date.format"], self.settings["timestamp.format"]
        )

    def use(self, log: Log) -> None:
        """What was guessed of an earlier file is in its position."""
        self._log = log
        if self.settings["schema"] is None:
            self._remember(read_positions(log, self.name))

    def _remember(self, positions: Mapping[str, Position | None]) -> None:
        """How the values were spelled from which columns were guessed, unless the settings say the columns by now."""
        if self._spelled is None and self.settings["schema"] is None:
            known = (position["spelled"] for position in positions.values() if position is not None and "spelled" in position)
            self._spelled = next(known, None)

    def topic(self, topic: Topic) -> None:
        """Records are read in the types of the topic; ConfigError where `schema` says others."""
        for column in Schema.parse(self.settings["schema"]) if self.settings["schema"] else ():
            if column.name not in topic.schema:
                continue
            known = topic.schema[column.name]
            if known.type != column.type and not is_wider(known.arrow.type, column.arrow.type):
                raise ConfigError(
                    f"connector {self.name}: topic {topic.name} has the column {column.name!r} of type {known.type}, and schema says "
                    f"{column.type}; expected the topic's type, as values are read in it, or another topic"
                )
        self._topic = topic

    _topic: Topic | None = None

    def splits(self) -> Sequence[str]:
        """
        The files that are there, by path; one at the place of a file that was moved is another one, and waits to be read.

        ConfigError for one at the place of a file that was read and is gone, unless it is that file again, or `recreated.mode` takes it.
        """
        found = [str(path) for path in self._files() if self._is_ready(path)]
        again = self._moved.intersection(found)
        self._moved -= again
        self._waiting += [(split, None) for split in sorted(again)]
        for split in sorted(self._gone.keys() & set(found)):
            self._queue(split, self._gone.pop(split))
        return found

    @classmethod
    def position_fault(cls, split: str, position: Position) -> str | None:
        """A position behind something that was read says of which file it is; one at the beginning need not."""
        fault = POSITION_AT_BEGINNING.fault(position)
        return fault or (None if _is_unread(position) else POSITION_IN_FILE.fault(position))

    def open(self, positions: Mapping[str, Position | None]) -> None:
        """Queue what is not finished, by name."""
        self._say_if_missing()
        self._reading = None
        self._waiting, self._held, self._read, self._gone = [], {}, {}, {}
        self._looked = self._opened = time.monotonic()
        self._remember(positions)
        for split, position in sorted(positions.items()):
            self._queue(split, position)

    def _queue(self, split: str, position: Position | None) -> None:
        """Put a file where it belongs: to those that wait to be read, or that were read to their end."""
        if position is None or _is_unread(position):
            self._waiting.append((split, None))
            return
        change = change_of(Path(split), position)
        if change in (FileChange.GROWN, FileChange.OTHER) and _is_unread({**position, "done": False}):
            self._waiting.append((split, None))
            return
        may_be_moved = _is_done(position) and self._folder_behind(position) and "start" in position
        if may_be_moved and (position.get("moved") or _number_of(split) not in (None, position["start"][0])):
            change = FileChange.GONE if change is FileChange.GONE else FileChange.OTHER
        if change is FileChange.GONE and _is_done(position):
            self._gone[split] = position  # its owner, or this connector, moved or deleted it
            return
        if change is FileChange.SAME and _is_done(position):
            self._read[split] = position
        elif change is FileChange.SAME or (change is FileChange.GROWN and not position.get("error")):
            self._waiting.append((split, position))
        elif _is_done(position) and self._folder_behind(position):
            self._waiting.append((split, None))  # a later file of the name of one that was moved
        elif change is not FileChange.GONE and self.settings[RECREATED_MODE] == BEGIN:
            _LOGGER.warning(
                "the file %s is another one; it is read from its beginning, since %s=%s", split, RECREATED_MODE, BEGIN
            )
            self._waiting.append((split, None))
        else:
            raise _changed(split, position, change)

    def poll(self, timeout: float) -> Polled | None:
        """The next block of a file."""
        self._look()
        if self._to_note:
            noted, self._to_note = self._to_note, {}
            return Polled({}, noted)
        while self._reading is not None or self._waiting:
            if self._reading is None:
                self._reading = self._begun(*self._waiting.pop(0))
                continue
            reading = self._reading
            try:
                part = next(reading.parts, None) if reading.parts else None
            except _UnfinishedError:
                self._reading = None
                self._held[reading.split] = _position(reading)
                continue
            except SchemaError as error:
                return self._failed(reading, error)
            reading.guessed, reading.spelled = self._guessed, self._spelled
            self._follow(reading)
            if part is None:
                self._reading = None
                return Polled({}, {reading.split: {**_position(reading), "done": True}})
            noted = {reading.split: _position(reading)}
            return Polled({} if part is _NOTED else {self.settings["topic"]: part}, noted)
        time.sleep(LOOK_SECONDS_BOUNDED if self.is_bounded and not self.is_at_end() else timeout)
        return None

    def committed(self, positions: Mapping[str, Position]) -> None:
        """Move files that are finished, or that cannot be read, if they are left alone."""
        for split, position in positions.items():
            if _is_done(position) and not position.get("moved"):
                self._read[split] = position
                self._move_if_still(split)

    def place_of(self, topic: str, row: int) -> str:
        """The file and the line of a row; of Parquet the number of its record."""
        return self._place(row)

    def is_at_end(self) -> bool:
        """Whether no file waits; those that are still being written are waited for as long as a file must be left alone, and no longer."""
        if self._reading is not None or self._waiting or self._to_note:
            return False
        left = [*self._held, *(split for split, position in self._read.items() if self._folder_behind(position))]
        return not left or time.monotonic() > self._opened + self._stillness.age_ms / 1_000 + 1

    def _look(self) -> None:
        """Take up files that have grown or are whole by now, and move those that are finished."""
        now = time.monotonic()
        if now < self._looked + (LOOK_SECONDS_BOUNDED if self.is_bounded else LOOK_SECONDS):
            return
        self._looked = now
        for split, position in list(self._held.items()):
            change = change_of(Path(split), position)
            if change is not FileChange.SAME or self._stillness_of(split).is_still(Path(split)):
                del self._held[split]
                self._half.discard(split)
                if change is FileChange.SAME or position["rows"]:  # of which some were read
                    self._queue(split, position)
                elif change is not FileChange.GONE:
                    self._queue(split, None)
                else:
                    self._gone[split] = None
        for split, position in list(self._read.items()):
            if change_of(Path(split), position) is not FileChange.SAME:
                del self._read[split]
                self._queue(split, position)
            else:
                self._move_if_still(split)

    def _move_if_still(self, split: str) -> None:
        """Move a file that was read to its end, once nobody writes to it any more."""
        position = self._read[split]
        if not self._folder_behind(position) or not self._stillness.is_still(Path(split)):
            return
        change = change_of(Path(split), position)
        if change is FileChange.SAME:
            self._move(split, position)
        if change is FileChange.GONE:
            self._gone[split] = position
        if change in (FileChange.SAME, FileChange.GONE):
            del self._read[split]

    def _follow(self, reading: FileReading) -> None:
        """See that a file that is being read is what it was, or has grown."""
        change = change_of(reading.path, _position(reading))
        if change is FileChange.GROWN:
            reading.state = state_of(reading.path, may_grow=True)
        elif change is not FileChange.SAME:
            raise _changed(reading.split, _position(reading), change)

    def _folder_behind(self, position: Position) -> str | None:
        """The folder that takes a file which is done."""
        found: str | None = self.settings["error.path" if position.get("error") else "finished.path"]
        return found

    def _move(self, split: str, position: Position) -> None:
        """Move a file, with the folders between it and the one that is watched; it takes no other's place."""
        root, path = Path(self.settings["path"]), Path(split)
        below = path.relative_to(root) if root in path.parents else Path(path.name)
        place = Path(self._folder_behind(position) or "", below)
        number = 0
        while place.exists():
            number += 1
            place = place.with_name(f"{below.name}.{number}")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, place)
        self._moved.add(split)
        self._to_note[split] = {**position, "moved": True}

    def _say_if_missing(self) -> None:
        """A path without anything may be right, and is often a mistake."""
        path = self.settings["path"]
        if not (os.path.exists(path) or glob.has_magic(path)):
            _LOGGER.warning("connector %s: there is nothing at %s yet", self.name, path)

    def close(self) -> None:
        """Close the file that was being read."""
        if self._reading is not None and self._reading.parts:
            self._reading.parts.close()

    def _files(self) -> list[Path]:
        path = Path(self.settings["path"])
        if path.is_dir():
            found = [one for one in path.rglob("*") if one.is_file()]
        else:
            found = [Path(one) for one in glob.glob(str(path), recursive=True) if os.path.isfile(one)]
        folders = [Path(self.settings[name]).resolve() for name in ("finished.path", "error.path") if self.settings[name]]
        kept = [
            one for one in found if not _is_hidden(one, path) and not any(folder in one.resolve().parents for folder in folders)
        ]
        return sorted(kept)

    def _is_ready(self, path: Path) -> bool:
        age_ms = (time.time_ns() - path.stat().st_mtime_ns) // 1_000_000
        return age_ms >= int(self.settings["min.age.ms"] or 0)

    def _begun(self, split: str, position: Position | None) -> FileReading | None:
        """A file from its position on; None if it has gone before it was begun."""
        path, known = Path(split), position or {}
        try:
            state = state_of(path, may_grow=format_of(path, self.settings["format"]) is not FileFormat.PARQUET)
        except FileNotFoundError:
            if position is None:
                self._gone[split] = None
                return None
            raise _changed(split, position, FileChange.GONE) from None
        reading = FileReading(split, path, state, known.get("byte", 0), known.get("line", 1), known.get("rows", 0))
        reading.checksum, reading.is_unended = known.get("sum"), known.get("unended", False)
        reading.parts = self._parts(reading)
        return reading

    def _parts(self, reading: FileReading) -> Generator[pa.Table, None, None]:
        """The rows of a file from its place on, which moves with each part; _UnfinishedError where it is still being written."""
        path = reading.path
        form = format_of(path, self.settings["format"])
        try:
            if self._is_too_young(path, form):
                raise _UnfinishedError
            with whole(path), self._opened_file(path, form) as file:
                topic = self._declared(path, form)
                if self._has_to_note:
                    self._has_to_note = False
                    yield _NOTED
                if form is FileFormat.PARQUET:
                    yield from self._parquet_parts(file, reading, topic)
                else:
                    yield from self._line_parts(file, form, reading, topic)
        except NoRecordsError:  # another file may say the columns
            return
        except (CutOffError, HalfRecordError) as error:
            self._half |= {reading.split} if isinstance(error, HalfRecordError) else set()
            if self._stillness_of(reading.split).is_still(path):
                raise type(error)(str(error) if str(path) in str(error) else f"{path}: {error}") from None
            raise _UnfinishedError from None

    def _stillness_of(self, split: str) -> Stillness:
        """How long a file must have been left alone: one that ends within a record longer, unless the task ends, or the file is compressed."""
        is_longer = split in self._half and not self.is_bounded and compression_of(Path(split)) == "none"
        return self._longer_stillness if is_longer else self._stillness

    def _opened_file(self, path: Path, form: FileFormat) -> BinaryIO:
        """The content of a file, decompressed, texts in UTF-8."""
        return recoded(open_reading(path), "utf-8" if form is FileFormat.PARQUET else self._encoding, path)

    def _is_too_young(self, path: Path, form: FileFormat) -> bool:
        """
        Whether a file has to be left alone before it is begun: one that must be whole to be read, or to be guessed from.

        A task that ends takes what is there now, if it is whole as far as can be seen.
        """
        is_guessed = self._topic is None and self.settings["schema"] is None
        if not (is_guessed or form is FileFormat.PARQUET or compression_of(path) != "none") or self._stillness.is_still(path):
            return False
        if not self.is_bounded:
            return True
        if form is FileFormat.PARQUET:
            return compression_of(path) == "none" and is_cut_off(path)
        return is_guessed and compression_of(path) == "none" and not _ends_a_line(path)

    def _line_parts(self, file: Any, form: FileFormat, reading: FileReading, topic: Topic) -> Iterator[pa.Table]:
        header, first, at = self._header(file, form, reading.path, topic)
        is_plain = compression_of(reading.path) == "none" and self._encoding == "utf-8"
        if form is FileFormat.CSV and not header.strip():  # it is empty, and may grow
            reading.checksum = 0 if is_plain else None
            return
        if reading.start < first:
            reading.start, reading.line = first, at
            reading.checksum = _checksum_before(reading.path, first) if is_plain else None
        for block in self._blocks(file, form, reading):
            has_gone_on = reading.is_unended and block.start == reading.start and not block.data.startswith((b"\n", b"\r"))
            if has_gone_on and form is FileFormat.CSV:
                raise _went_on(reading, self._stillness_of(reading.split).age_ms)
            rows = self._rows(block, header, form, reading.path, topic)
            reading.start, reading.line, reading.rows = block.end, block.following_line, reading.rows + rows.num_rows
            reading.is_unended = not block.data.endswith((b"\n", b"\r"))
            if is_plain:
                reading.checksum = (
                    None if reading.checksum is None and block.start else zlib.crc32(block.data, reading.checksum or 0)
                )
            yield rows

    def _blocks(self, file: Any, form: FileFormat, reading: FileReading) -> Iterator[Block]:
        """The blocks of a file from its place on; objects of JSON may be lines, or over several lines, or in a list."""

        def is_whole() -> bool:
            self._half.add(reading.split)
            return self._stillness_of(reading.split).is_still(reading.path)

        layout: JsonLayout | None = JsonLayout.LINES
        if form is FileFormat.JSON:
            with self._opened_file(reading.path, form) as beginning:
                layout = layout_of(beginning.read(HEAD_BYTES))
            if layout is None and not is_whole():
                raise HalfRecordError(f"{reading.path} ends within its first object")
        if layout in (None, JsonLayout.LINES):
            return blocks(file, form, reading.start, reading.line, self.settings["delimiter"], is_whole=is_whole)
        return document_blocks(file, layout, reading.start, reading.line, is_whole=is_whole)

    def _header(self, file: Any, form: FileFormat, path: Path, topic: Topic) -> tuple[bytes, int, int]:
        """The line of names, the byte behind it, and the line there."""
        if form is not FileFormat.CSV:
            return b"", 0, 1
        delimiter = self.settings["delimiter"]
        if not self.settings["header"]:
            return header_of_names(topic.schema.names, delimiter), start_of_records(file), 1
        try:
            header = header_of(file, delimiter)
        except HalfRecordError as error:
            raise HalfRecordError(f"{path}, {error}") from None
        if header.strip() and (header.endswith((b"\n", b"\r")) or self._stillness.is_still(path)):
            for _ in self._record_file(io.BytesIO(header), str(path), form, topic).pieces():  # wrong names are no record's fault
                pass
        return header, file.tell(), 1 + count_lines(header)

    def _parquet_parts(self, file: Any, reading: FileReading, topic: Topic) -> Iterator[pa.Table]:
        rows = reading.rows
        for piece in self._record_file(file, str(reading.path), FileFormat.PARQUET, topic).pieces():
            skipped = min(max(0, rows - piece.first), piece.records.num_rows)
            if skipped < piece.records.num_rows:
                reading.start, reading.rows = piece.read_bytes, piece.first + piece.records.num_rows
                self._place = partial(_place_of_record, reading.path, piece.first + skipped)
                yield pa.Table.from_batches([piece.records.slice(skipped)])

    def _rows(self, block: Block, header: bytes, form: FileFormat, path: Path, topic: Topic) -> pa.Table:
        """The rows of a block; a record that cannot be read is an error, or is left out and noted."""
        self._place = partial(_place_of_line, path, block, form, self.settings["delimiter"], block.records)
        try:
            return self._read_rows(header + block.lines, str(path), form, topic)
        except SchemaError:
            records = list(records_of(block.lines, form, self.settings["delimiter"]) if block.records is None else block.records)
            if not records:
                raise
        # A part that cannot be read is read again in halves. So a sound record is read few times, however many others are not.
        read, parts, waiting = list[tuple[int, bytes]](), list[pa.Table](), [(0, len(records))]
        while waiting:
            start, end = waiting.pop()
            try:
                parts.append(
                    self._read_rows(header + b"".join(record for _, record in records[start:end]), str(path), form, topic)
                )
                read += records[start:end]
            except SchemaError as error:
                middle = (start + end) // 2
                if end - start > 1:
                    waiting += [(middle, end), (start, middle)]
                else:
                    self._refuse(block, path, *records[start], error)
        self._place = partial(_place_of_line, path, block, form, self.settings["delimiter"], read)
        return pa.concat_tables(parts, promote_options="default") if parts else topic.schema.arrow.empty_table()

    def _refuse(self, block: Block, path: Path, at: int, record: bytes, error: SchemaError) -> None:
        """Note a record that cannot be read, with its line; the error if none may be left out."""
        place, line = _LINE.match(str(error)), block.line + count_lines(block.data[:at])
        reason = str(error)[place.end() :] if place else str(error).removeprefix(f"{path}: ")
        self.refuse_record(self.settings["topic"], record.rstrip(b"\r\n"), SchemaError(f"{path}, line {line}: {reason}"))

    def _read_rows(self, data: bytes, name: str, form: FileFormat, topic: Topic) -> pa.Table:
        pieces = [piece.records for piece in self._record_file(io.BytesIO(data), name, form, topic).pieces()]
        return pa.Table.from_batches(pieces) if pieces else topic.schema.arrow.empty_table()

    def _record_file(self, file: Any, name: str, form: FileFormat, topic: Topic) -> RecordFile:
        settings = self.settings
        spelled = self._spelled or {}  # who has given a column another type than was guessed, has said what it holds
        return RecordFile(
            file,
            name,
            form,
            topic,
            settings["timestamp.column"],
            self._spelling,
            is_sparse=True,
            delimiter=settings["delimiter"],
            guessed={
                column.name: spelled[column.name]
                for column in topic.schema
                if column.name in spelled and column_type(spelled[column.name]) == column.type
            },
        )

    def _declared(self, path: Path, form: FileFormat) -> Topic:
        """The topic, as it is or as it will be created."""
        if self._topic is None and self._log is not None and self._is_kept_by_topic:
            name = self.settings["topic"]
            if self.settings["schema"] is None and name in self._log.topics():  # another task has made it since
                self._remember(read_positions(self._log, self.name))
                self._topic = self._log.topic(name)
        if self._topic is None:
            key = tuple(self.settings["key"])
            schema: Any = self.settings["schema"]
            if schema is None and form is FileFormat.CSV and not self.settings["header"]:
                raise ConfigError(f"the connector {self.name} has header=false, so it needs schema, or a topic with columns")
            if schema is None:
                schema = self._guess(path, form, key)
            self._topic = declare_topic(self.settings["topic"], schema, tuple(name for name in key if name in schema) or None)
        return self._topic

    def _guess(self, path: Path, form: FileFormat, key: tuple[str, ...]) -> Schema:
        """The columns of the first file that was read: where transforms make others, no topic keeps them, and a position does."""
        is_kept_by_topic = self._is_kept_by_topic
        if not is_kept_by_topic and self._log is not None:
            known = read_positions(self._log, self.name).values()
            self._guessed = next((found for position in known if (found := position.get("schema")) is not None), None)
        if self._guessed is not None:
            return Schema.from_ddl(self._guessed)
        found = self._first_guess(path, form, key if is_kept_by_topic else ())
        self._guessed = None if is_kept_by_topic else found.schema.ddl()
        self._spelled, self._has_to_note = found.spelled, True
        return found.schema

    @property
    def _is_kept_by_topic(self) -> bool:
        """Whether the topic has the columns of the files: no transform makes others of them."""
        return self.chain is None or self.chain.keeps_columns

    def _first_guess(self, path: Path, form: FileFormat, names: tuple[str, ...]) -> Guess:
        """The guess of the connector's first file that says columns, whichever task reads it: so all tasks have the same."""
        for one in self._files():
            if one == path:
                break
            try:
                its_form = format_of(one, self.settings["format"])
                if self._is_ready(one) and not self._is_too_young(one, its_form):
                    return self._guess_of(one, its_form, names)
            except (SchemaError, ConfigError, OSError):  # its own task says so
                continue
        return self._guess_of(path, form, names)

    def _guess_of(self, path: Path, form: FileFormat, names: tuple[str, ...]) -> Guess:
        settings = self.settings
        with self._opened_file(path, form) as file:
            return guess_open(
                file,
                path,
                form,
                GUESS_ROWS,
                names,
                settings["delimiter"],
                self._spelling,
                is_tolerant=settings["errors.tolerance"] == "all",
            )

    def _failed(self, reading: FileReading, error: SchemaError) -> Polled:
        """A file that cannot be read at all is put aside, if there is a place for it and failures are tolerated."""
        self._reading = None
        if self.settings["errors.tolerance"] == "none" or not self.settings["error.path"]:
            raise error
        self.refuse_record(self.settings["topic"], reading.split.encode(), error)
        return Polled({}, {reading.split: {**_position(reading), "done": True, "error": str(error)}})


def _position(reading: FileReading) -> dict[str, Any]:
    found = {**reading.state, "byte": reading.start, "line": reading.line, "rows": reading.rows}
    if reading.checksum is not None:
        found["sum"] = reading.checksum
    if reading.is_unended:
        found["unended"] = True
    if reading.spelled is not None:
        found["spelled"] = reading.spelled
    return found if reading.guessed is None else {**found, "schema": reading.guessed}


def _is_unread(position: Position) -> bool:
    """Whether nothing of a file was read, so that nothing can be lost or read twice, whatever became of it."""
    return not any(position.get(name) for name in ("byte", "rows", "done", "error", "moved"))


def _checksum_before(path: Path, end: int) -> int:
    with path.open("rb") as file:
        return zlib.crc32(file.read(end))


def _place_of_record(path: Path, first: int, row: int) -> str:
    return f"{path}, record {first + row + 1}"


def _place_of_line(
    path: Path, block: Block, form: FileFormat, delimiter: str, records: Sequence[tuple[int, bytes]] | None, row: int
) -> str:
    """The line of a row of a block; `records` are those that are left of it, if some are left out."""
    at, _ = (records_of(block.data, form, delimiter) if records is None else records)[row]
    return f"{path}, line {block.line + count_lines(block.data[:at])}"


def _number_of(split: str) -> int | None:
    try:
        return os.stat(split).st_ino
    except FileNotFoundError:
        return None


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"", b"\n", b"\r")


def _is_done(position: Position | None) -> bool:
    return position is not None and bool(position.get("done"))


def _is_hidden(path: Path, root: Path) -> bool:
    while glob.has_magic(str(root)):  # what the pattern says by name was asked for
        root = root.parent
    below = path.relative_to(root).parts if root in path.parents else path.parts[-1:]
    return any(part.startswith((".", "_")) for part in below) or path.name.endswith(".tmp")


def _changed(split: str, position: Position, change: FileChange) -> ConfigError:
    if change is FileChange.GONE:
        return ConfigError(f"the file {split} was read in part, and is gone; expected it until its end is read")
    state = state_of(Path(split), may_grow=False)
    found = state["mark"]
    if "start" in position and state["start"][0] != position["start"][0]:
        return ConfigError(
            f"the file {split} was replaced after it was read: another file has its name (its number was {position['start'][0]}, and is "
            f"{state['start'][0]}); what was not read of the former one is lost. Whoever adds to a file opens it, and does not rename another "
            f"one to its name. To read the new one from its beginning: {RECREATED_MODE}={BEGIN}, or give it another name"
        )
    if found == list(position["mark"]):
        return ConfigError(
            f"the file {split} was replaced after it was read, by one of the same size and time; what was not read of the former one is lost. "
            f"To read the new one from its beginning: {RECREATED_MODE}={BEGIN}, or give it another name"
        )
    return ConfigError(
        f"the file {split} changed after it was read (size and time were {position['mark']}, and are {found}), and what was read is no longer "
        "there as it was; expected files that are complete, or grow at their end: write to a name that ends in .tmp and rename it. To go on: put "
        "what was not read into a file of another name and take this one away. To read it again from its beginning: "
        f"{RECREATED_MODE}={BEGIN}"
    )


def _went_on(reading: FileReading, age_ms: int) -> ConfigError:
    return ConfigError(
        f"the file {reading.split} goes on within its last record, at byte {reading.start}; the record was taken for a whole one, since the file "
        f"had been left alone for {age_ms} ms. Expected a longer min.age.ms than whoever writes ever pauses, or a name that ends in .tmp until "
        "the file is complete. To go on: put the whole record and what follows it into a file of another name, and take this one away"
    )
