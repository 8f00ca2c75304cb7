"""Files of a folder into a topic: each file is a split, read once, and nothing of a file that changes is believed."""

from __future__ import annotations

import glob
import io
import logging
import os
import re
import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.guess import NoRecordsError, guess_open
from streamkit.connectors.files.open_file import format_of, is_another, mark_of, open_reading, start_of, whole
from streamkit.connectors.files.record_blocks import Block, blocks, header_of, header_of_names, records_of, start_of_records
from streamkit.connectors.files.record_file import Format, RecordFile
from streamkit.connectors.runtime.positions import read_positions
from streamkit.connectors.setting import Setting
from streamkit.connectors.source import BEGIN, RECREATED_MODE, Polled, Position, Source
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.names import check_name
from streamkit.schema import Schema

GUESS_ROWS = 10_000
_LINE = re.compile(r"^.*?, (line|record) (\d+): ", re.DOTALL)

_LOGGER = logging.getLogger(__name__)


@dataclass
class Reading:
    """A file that is being read: where it lies, its mark, how far it was read, and the columns that were guessed."""

    split: str
    path: Path
    mark: list[int]
    identity: list[int]
    start: int
    line: int
    rows: int
    parts: Generator[tuple[pa.Table, int, int], None, None]
    guessed: str | None = None


class FileSource(Source):
    """
    CSV with a line of names, JSON lines and Parquet, plain, `.gz` or `.zst`, exactly once.

    `path` is a file, a folder or a pattern such as `in/*.csv`. Files whose names begin with a dot or an underscore, or end in
    `.tmp`, are left alone, and so are those younger than `min.age.ms`. A file that changed after it was begun is an error.
    """

    SETTINGS = (
        Setting("path", "a file, a folder, or a pattern of files"),
        Setting("format", "csv, json or parquet; else the suffix says", default=None, choices=("csv", "json", "parquet")),
        Setting("schema", "the columns of a topic that is created, such as 'id bigint, name string'; else guessed", default=None),
        Setting("delimiter", "what stands between the values of CSV, such as ; or a tab", default=","),
        Setting(
            "header",
            "whether CSV begins with a line of names; else schema or the topic has them, in their order",
            "boolean",
            True,
        ),
        Setting("timestamp.column", "the column of the file with the event time", default=None),
        Setting("null", "what stands for null in CSV", default=""),
        Setting("min.age.ms", "how long a file must have been left alone before it is read", "integer", 0, least=0),
        Setting("finished.path", "the folder that takes files that were read to their end", default=None),
        Setting("error.path", "the folder that takes files that cannot be read", default=None),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._waiting: list[tuple[str, Position | None]] = []
        self._reading: Reading | None = None
        self._moved: set[str] = set()  # whose place may have another file later
        self._log: Log | None = None
        self._guessed: str | None = None  # the columns, where nothing but the first file says them

    def check(self) -> None:
        """A topic is needed: a folder says no name."""
        check_name(self.settings["topic"], "topic")
        delimiter = self.settings["delimiter"]
        if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
            raise ConfigError(f"delimiter={delimiter!r}; expected one character, such as ; or |")

    def use(self, log: Log) -> None:
        """What was guessed of an earlier file is in its position."""
        self._log = log

    def topic(self, topic: Topic) -> None:
        """Records are read in the types of the topic."""
        self._topic = topic

    _topic: Topic | None = None

    def splits(self) -> Sequence[str]:
        """The files that are there, by path; one at the place of a file that was moved is another one, and waits to be read."""
        found = [str(path) for path in self._files() if self._is_ready(path)]
        again = self._moved.intersection(found)
        self._moved -= again
        self._waiting += [(split, None) for split in sorted(again)]
        return found

    def open(self, positions: Mapping[str, Position | None]) -> None:
        """Queue what is not finished, by name."""
        self._say_if_missing()
        self._reading = None
        self._waiting = []
        for split, position in sorted(positions.items()):
            is_done = _is_done(position)
            if position is not None and is_done and self._folder_behind(position) and os.path.exists(split):
                is_done = mark_of(Path(split)) == position["mark"]
                if is_done:
                    self._move(split, position)  # death came before it
                else:
                    position = None  # a later file of the name of one that was moved
            elif position is not None and self.settings[RECREATED_MODE] == BEGIN and _is_replaced(split, position):
                _LOGGER.warning(
                    "the file %s is another one; it is read from its beginning, since %s=%s", split, RECREATED_MODE, BEGIN
                )
                position, is_done = None, False
            elif position is not None:
                _check_unchanged(split, position)
            if not is_done:
                self._waiting.append((split, position))

    def poll(self, timeout: float) -> Polled | None:
        """The next block of a file."""
        while self._reading is not None or self._waiting:
            if self._reading is None:
                self._reading = self._begun(*self._waiting.pop(0))
            reading = self._reading
            try:
                part = next(reading.parts, None)
                reading.guessed = self._guessed
            except SchemaError as error:
                return self._failed(reading, error)
            _check_unchanged(reading.split, {"mark": reading.mark, "start": reading.identity})
            if part is None:
                self._reading = None
                return Polled({}, {reading.split: {**_position(reading), "done": True}})
            rows, reading.start, reading.line = part
            reading.rows += rows.num_rows
            return Polled({self.settings["topic"]: rows}, {reading.split: _position(reading)})
        time.sleep(timeout)
        return None

    def committed(self, positions: Mapping[str, Position]) -> None:
        """Move files that are finished, or that cannot be read."""
        for split, position in positions.items():
            if _is_done(position) and self._folder_behind(position) and os.path.exists(split):
                self._move(split, position)

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

    def _say_if_missing(self) -> None:
        """A path without anything may be right, and is often a mistake."""
        path = self.settings["path"]
        if not (os.path.exists(path) or glob.has_magic(path)):
            _LOGGER.warning("connector %s: there is nothing at %s yet", self.name, path)

    def close(self) -> None:
        """Close the file that was being read."""
        if self._reading is not None:
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
        return age_ms >= int(self.settings["min.age.ms"])

    def _begun(self, split: str, position: Position | None) -> Reading:
        path, known = Path(split), position or {}
        start, line, rows = known.get("byte", 0), known.get("line", 1), known.get("rows", 0)
        mark = mark_of(path)
        return Reading(split, path, mark, start_of(path), start, line, rows, self._parts(path, start, line, rows))

    def _parts(self, path: Path, start: int, line: int, rows: int) -> Generator[tuple[pa.Table, int, int], None, None]:
        """The rows of a file from a place on; each part with the byte and the line behind it."""
        form = format_of(path, self.settings["format"])
        with whole(path), open_reading(path) as file:
            try:
                topic = self._declared(path, form)
            except NoRecordsError:  # another file may say the columns
                return
            if form is Format.PARQUET:
                yield from self._parquet_parts(file, path, topic, rows)
                return
            header, first, at = self._header(file, form, topic)
            for block in blocks(file, form, max(start, first), line if start else at, self.settings["delimiter"]):
                yield self._rows(block, header, form, path, topic), block.end, block.line + block.data.count(b"\n")

    def _header(self, file: Any, form: Format, topic: Topic) -> tuple[bytes, int, int]:
        """The line of names, the byte behind it, and the line there."""
        if form is not Format.CSV:
            return b"", 0, 1
        if not self.settings["header"]:
            return header_of_names(topic.schema.names, self.settings["delimiter"]), start_of_records(file), 1
        header = header_of(file)
        return header, file.tell(), 1 + header.count(b"\n")

    def _parquet_parts(self, file: Any, path: Path, topic: Topic, rows: int) -> Iterator[tuple[pa.Table, int, int]]:
        for piece in self._record_file(file, str(path), Format.PARQUET, topic).pieces():
            skipped = min(max(0, rows - piece.first), piece.records.num_rows)
            if skipped < piece.records.num_rows:
                yield pa.Table.from_batches([piece.records.slice(skipped)]), piece.read_bytes, 1

    def _rows(self, block: Block, header: bytes, form: Format, path: Path, topic: Topic) -> pa.Table:
        """The rows of a block; a record that cannot be read is an error, or is left out and noted."""
        data = block.data
        while True:
            try:
                pieces = [
                    piece.records for piece in self._record_file(io.BytesIO(header + data), str(path), form, topic).pieces()
                ]
                return pa.Table.from_batches(pieces) if pieces else topic.schema.arrow.empty_table()
            except SchemaError as error:
                records = records_of(data, form, self.settings["delimiter"])
                place = _LINE.match(str(error))
                bad = self._bad_record(header, records, form, topic)
                if bad is None:
                    raise
                line = block.line + block.data[: block.data.find(records[bad])].count(b"\n")
                reason = str(error)[place.end() :] if place else str(error)
                self.refuse_record(
                    self.settings["topic"], records[bad].rstrip(b"\r\n"), SchemaError(f"{path}, line {line}: {reason}")
                )
                data = b"".join(records[:bad] + records[bad + 1 :])

    def _bad_record(self, header: bytes, records: Sequence[bytes], form: Format, topic: Topic) -> int | None:
        """The first record that cannot be read: halves of what is before it can."""
        low, high = 0, len(records)
        if self._reads(header, records, form, topic):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if self._reads(header, records[low:middle], form, topic):
                low = middle
            else:
                high = middle
        return low if low < len(records) else None

    def _reads(self, header: bytes, records: Sequence[bytes], form: Format, topic: Topic) -> bool:
        if not records:
            return True
        try:
            for _ in self._record_file(io.BytesIO(header + b"".join(records)), "", form, topic).pieces():
                pass
        except SchemaError:
            return False
        return True

    def _record_file(self, file: Any, name: str, form: Format, topic: Topic) -> RecordFile:
        settings = self.settings
        return RecordFile(
            file,
            name,
            form,
            topic,
            settings["timestamp.column"],
            settings["null"],
            is_sparse=True,
            delimiter=settings["delimiter"],
        )

    def _declared(self, path: Path, form: Format) -> Topic:
        """The topic, as it is or as it will be created."""
        if self._topic is None:
            key = tuple(self.settings["key"])
            schema: Any = self.settings["schema"]
            if schema is None and form is Format.CSV and not self.settings["header"]:
                raise ConfigError(f"the connector {self.name} has header=false, so it needs schema, or a topic with columns")
            if schema is None:
                schema = self._guess(path, form, key)
            self._topic = declare_topic(self.settings["topic"], schema, tuple(name for name in key if name in schema) or None)
        return self._topic

    def _guess(self, path: Path, form: Format, key: tuple[str, ...]) -> Schema:
        """The columns of the first file that was read: where transforms make others, no topic keeps them, and a position does."""
        is_kept_by_topic = self.chain is None or self.chain.keeps_columns
        if not is_kept_by_topic and self._log is not None:
            known = read_positions(self._log, self.name).values()
            self._guessed = next((found for position in known if (found := position.get("schema")) is not None), None)
        if self._guessed is not None:
            return Schema.from_ddl(self._guessed)
        with open_reading(path) as file:
            names = key if is_kept_by_topic else ()
            found = guess_open(file, path, form, GUESS_ROWS, names, self.settings["delimiter"]).schema
        self._guessed = None if is_kept_by_topic else found.ddl()
        return found

    def _failed(self, reading: Reading, error: SchemaError) -> Polled:
        """A file that cannot be read at all is put aside, if there is a place for it and failures are tolerated."""
        self._reading = None
        if self.settings["errors.tolerance"] == "none" or not self.settings["error.path"]:
            raise error
        self.refuse_record(self.settings["topic"], reading.split.encode(), error)
        return Polled({}, {reading.split: {**_position(reading), "done": True, "error": str(error)}})


def _position(reading: Reading) -> dict[str, Any]:
    found = {"mark": reading.mark, "start": reading.identity, "byte": reading.start, "line": reading.line, "rows": reading.rows}
    return found if reading.guessed is None else {**found, "schema": reading.guessed}


def _is_done(position: Position | None) -> bool:
    return position is not None and bool(position.get("done"))


def _is_hidden(path: Path, root: Path) -> bool:
    below = path.relative_to(root).parts if root in path.parents else path.parts[-1:]
    return any(part.startswith((".", "_")) for part in below) or path.name.endswith(".tmp")


def _is_replaced(split: str, position: Position) -> bool:
    """Whether there is a file, and it is not the one that was read."""
    path = Path(split)
    if not path.exists():
        return False
    is_other = mark_of(path) != list(position["mark"])
    return is_other or ("start" in position and is_another(path, position["start"]))


def _check_unchanged(split: str, position: Position) -> None:
    """ConfigError if a file is not the one that was read; one that has gone after its end was moved or deleted by its owner."""
    try:
        mark = mark_of(Path(split))
    except FileNotFoundError:
        if _is_done(position):
            return
        raise ConfigError(f"the file {split} was read in part, and is gone; expected it until its end is read") from None
    if mark == list(position["mark"]) and "start" in position and is_another(Path(split), position["start"]):
        raise ConfigError(
            f"the file {split} was replaced after it was read, by one of the same size and time; what was not read of the former one is lost. "
            f"To read the new one from its beginning: {RECREATED_MODE}={BEGIN}, or give it another name"
        )
    if mark != list(position["mark"]):
        raise ConfigError(
            f"the file {split} changed after it was read (size and time were {position['mark']}, and are {mark}); "
            "expected files that are complete: write to a name that ends in .tmp and rename it, or set min.age.ms. To go on: put its rows "
            f"into a file of another name and take this one away. To read it again from its beginning: {RECREATED_MODE}={BEGIN}"
        )
