"""Rows of topics into files of a folder, exactly once: a file appears whole, and a chain of marks says what is committed."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamkit import failpoints
from streamkit.connectors.files.open_file import compressed, sync
from streamkit.connectors.files.record_file import FileFormat
from streamkit.connectors.files.record_lines import csv_lines, json_lines, write_csv_line
from streamkit.connectors.setting import Setting
from streamkit.connectors.sink import Sink
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.consume.consumer import TopicPartition
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP, TOPIC

MARKS = "_streamkit"
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
SUFFIXES = {FileFormat.CSV: ".csv", FileFormat.JSON: ".jsonl", FileFormat.PARQUET: ".parquet"}
_COMPRESSIONS = {"gz": "gz", "zst": "zst", "gzip": "gz", "zstd": "zst"}  # and the suffix of each
NAME_BYTES = 255  # of a folder, on the file systems that are there
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_METADATA = (TIMESTAMP, PARTITION, OFFSET)


@dataclass(frozen=True)
class Mark:
    """A commit of one partition: its number in the chain, who made it, the next offset, and the files it brought."""

    number: int
    generation: int
    offset: int | None
    files: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"generation": self.generation, "offset": self.offset, "files": [list(pair) for pair in self.files]}


class FileSink(Sink):
    """
    Files of CSV, JSON lines or Parquet below `path`, plain or compressed.

    Each `put` writes one file for each partition and folder, `<topic>/[<column>=<value>/]<topic>+<partition>+<first offset>.<suffix>`.
    A router changes the folder; the file's name keeps the topic, since several topics may be written into one folder.
    `batch.rows` and `batch.linger.ms` say how large files get. Files appear by a rename, whole and durable.
    """

    takes_other_names = True
    SETTINGS = (
        Setting("path", "the folder to which the files are written"),
        Setting("format", "csv, json or parquet", default="json", choices=("csv", "json", "parquet")),
        Setting(
            "compression",
            "none, gz or zst, also called gzip and zstd; Parquet compresses by itself",
            default="none",
            choices=("none", *_COMPRESSIONS),
        ),
        Setting("partition.by", "the columns that choose a folder, with commas between", "list", ()),
        Setting("metadata", "whether files have _timestamp, _partition and _offset too", "boolean", False),
    )

    def __init__(self, name: str, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        super().__init__(name, config, **settings)
        self._root = Path(self.settings["path"])
        self._topics: dict[str, Topic] = {}
        self._chains: dict[TopicPartition, Mark] = {}

    def check(self) -> None:
        """Parquet is not compressed as a whole."""
        if self.settings["format"] == "parquet" and self.settings["compression"] != "none":
            raise ConfigError("found format=parquet and compression; Parquet compresses its own pages: leave compression out")

    def topic(self, topic: Topic) -> None:
        """The columns of folders must be there, and a router's name must be that of a folder below."""
        if topic.name in (MARKS, "") or {".", ".."} & set(topic.name.split("/")) or topic.name.startswith("/"):
            raise ConfigError(
                f"connector {self.name}: found the topic name {topic.name!r} behind the transforms; expected that of a folder"
            )
        missing = [name for name in self.settings["partition.by"] if name not in topic.schema]
        if missing:
            raise ConfigError(f"topic {topic.name} has no column {missing[0]!r} for partition.by; it has {topic.schema}")
        if self.settings["format"] == "csv" and not self._own_columns(topic) and not self.settings["metadata"]:
            raise ConfigError(
                f"connector {self.name}: partition.by names all columns of topic {topic.name}, and lines of CSV without values are no "
                "records; expected format=json or parquet, metadata=true, or a column for the files"
            )
        self._topics[topic.name] = topic

    def open(self, generation: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Take the chains of marks over, and finish what the last commit of each began."""
        self._generation = generation
        with self._has_room():
            self._chains = {place: self._taken_over(place) for place in partitions}
        return {place: mark.offset for place, mark in self._chains.items() if mark.offset is not None}

    def put(self, rows: pa.Table, ends: Mapping[TopicPartition, int]) -> None:
        """Write files under names that nobody reads, commit them by a mark, then give them their names."""
        self._check_blank_lines(rows)
        self._check_folders(rows)
        for place, end in ends.items():
            last = self._chains[place]
            if last.offset == end:
                continue
            mine = rows.filter(pc.equal(rows[PARTITION], place.partition))
            with self._has_room(mine):
                files = tuple(self._written(place, part, folder) for folder, part in self._by_folder(mine))
                failpoints.reach("connect.in_target")
                self._chains[place] = self._committed(place, Mark(last.number + 1, self._generation, end, files))
                self._finish(self._chains[place])

    @contextmanager
    def _has_room(self, rows: pa.Table | None = None) -> Iterator[None]:
        """Tell a disk or a quota that is full from other errors of the operating system: it may have room again."""
        try:
            yield
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise self.full(f"the folder {self._root}", rows, error) from error

    # Files

    def _own_columns(self, topic: Topic) -> list[str]:
        """The columns that files have: folders say the others."""
        return [name for name in topic.schema.names if name not in self.settings["partition.by"]]

    def _check_blank_lines(self, rows: pa.Table) -> None:
        """SchemaError for a null in the one column of CSV: it would be a blank line, which readers leave out."""
        if self.settings["format"] != "csv" or self.settings["metadata"] or not rows.num_rows:
            return
        for topic in pc.unique(rows[TOPIC]).to_pylist():
            own = self._own_columns(self._topics[topic])
            if len(own) != 1:
                continue
            is_blank = pc.and_(
                pc.and_not(rows[own[0]].is_null(), pc.fill_null(rows[DELETED], False)), pc.equal(rows[TOPIC], topic)
            )
            if blank := pc.indices_nonzero(is_blank).to_pylist():
                raise SchemaError(
                    f"found null in the one column {own[0]!r}: in CSV it is a blank line, which readers leave out; expected "
                    "format=json or parquet, or metadata=true",
                    tuple(blank),
                )

    def _check_folders(self, rows: pa.Table) -> None:
        """SchemaError for values whose folder would have a name that no file system takes."""
        for name in self.settings["partition.by"]:
            kind = rows.schema.field(name).type
            if not (pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind)):
                continue  # whose texts are short
            sizes = pc.binary_length(_folder_names(name, rows[name]))
            if long := pc.indices_nonzero(pc.greater(sizes, NAME_BYTES)).to_pylist():
                reasons = tuple(
                    f"the folder of {name}={str(rows[name][row].as_py())[:80]!r} would have a name of {sizes[row]} bytes; expected at most "
                    f"{NAME_BYTES}, or partition.by without this column"
                    for row in long
                )
                raise SchemaError(reasons[0], tuple(long), reasons)

    def _by_folder(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        columns = self.settings["partition.by"]
        if not rows.num_rows:
            return
        if not columns:
            yield "", rows
            return
        names = pc.binary_join_element_wise(*[_folder_names(name, rows[name]) for name in columns], "/")
        for folder in pc.unique(names).to_pylist():
            yield folder, rows.filter(pc.equal(names, folder))

    def _written(self, place: TopicPartition, rows: pa.Table, folder: str) -> tuple[str, str]:
        """A durable file with these rows: the name it has, and the one it shall get."""
        form = FileFormat(self.settings["format"])
        compression = _COMPRESSIONS.get(self.settings["compression"], "none")
        suffix = SUFFIXES[form] + ("" if compression == "none" else f".{compression}")
        name = f"{place.topic}+{place.partition}+{rows[OFFSET][0].as_py():020d}{suffix}"
        folder = os.path.join(self.target_of(place.topic), folder)
        final = Path(folder, name)
        hidden = Path(folder, f".{name}.{self._generation}.tmp")
        if (
            self._root / final
        ).exists():  # the marks end before it: only a newer generation of this connector can have written it
            last = self._last(self._chain(place))
            raise self.fenced(place) if last is not None and last.generation > self._generation else self._foreign(final)
        (self._root / hidden).parent.mkdir(parents=True, exist_ok=True)
        _write(self._root / hidden, compressed(self._content(self._topics[self.target_of(place.topic)], rows, form), compression))
        return str(hidden), str(final)

    def _content(self, declared: Topic, rows: pa.Table, form: FileFormat) -> bytes:
        has_deletions = bool(pc.any(rows[DELETED]).as_py())
        own = self._own_columns(declared)
        extra = [*([DELETED] if has_deletions else []), *(_METADATA if self.settings["metadata"] else ())]
        extra += [HEADERS] if self.settings["metadata"] and form is FileFormat.PARQUET else []
        chosen = rows.select([*own, *(name for name in extra if name in rows.column_names)])
        if form is FileFormat.PARQUET:
            sink = io.BytesIO()
            pq.write_table(chosen, sink)
            return sink.getvalue()
        if form is FileFormat.JSON:
            return json_lines(declared.format, chosen)
        names = io.StringIO()
        write_csv_line(names, chosen.column_names)
        return names.getvalue().encode() + csv_lines(declared.format, chosen)

    def _finish(self, mark: Mark) -> None:
        """Give the files of a commit their names; no other file is replaced, and a file that has its name already stays."""
        for hidden, final in mark.files:
            own, name = self._root / hidden, self._root / final
            with suppress(FileNotFoundError):  # it has its name already, perhaps from another task in this moment
                try:
                    os.link(own, name)
                except FileExistsError:  # by a task that ended before it could unlink the other name, or by another connector
                    if not os.path.samefile(own, name):
                        raise self._foreign(Path(final)) from None
                own.unlink()
        for folder in {(self._root / final).parent for _, final in mark.files}:
            _sync_folder(folder)

    def _foreign(self, final: Path) -> ConfigError:
        """The error that another connector, or a connector of another log, has written a file of this name."""
        return ConfigError(
            f"connector {self.name}: the file {self._root / final} is there, and this connector has not written it: another connector has, "
            "or one of another log; its rows would be lost. Give this connector another path, or move the files that are there away"
        )

    # Marks: a chain of files of one partition, whose numbers grow; a number is taken once

    def _chain(self, place: TopicPartition) -> Path:
        return self._root / MARKS / self.name / f"{place.topic}-{place.partition}"

    def _taken_over(self, place: TopicPartition) -> Mark:
        chain = self._chain(place)
        chain.mkdir(parents=True, exist_ok=True)
        while True:
            last = self._last(chain)
            if last is not None and last.generation > self._generation:
                raise self.fenced(place)
            if last is not None:
                self._finish(last)
            mark = Mark(0 if last is None else last.number + 1, self._generation, None if last is None else last.offset)
            if self._has_linked(chain, mark):
                self._clean(place)
                return mark

    def _committed(self, place: TopicPartition, mark: Mark) -> Mark:
        chain = self._chain(place)
        if not self._has_linked(chain, mark):
            raise self.fenced(place)
        for number in _numbers(chain):
            if number < mark.number - 1:
                (chain / f"{number:020d}.json").unlink(missing_ok=True)
        return mark

    def _has_linked(self, chain: Path, mark: Mark) -> bool:
        """Whether this mark is the newest of its chain now: its number was free, and no later one is there."""
        hidden = chain / f".{mark.number}.{self._generation}.tmp"
        _write(hidden, json.dumps(mark.to_json()).encode())
        try:
            os.link(hidden, chain / f"{mark.number:020d}.json")
        except FileExistsError:
            return False
        finally:
            hidden.unlink()
        _sync_folder(chain)
        if max(_numbers(chain)) > mark.number:
            (chain / f"{mark.number:020d}.json").unlink(missing_ok=True)
            return False
        return True

    def _last(self, chain: Path) -> Mark | None:
        while numbers := _numbers(chain):
            number = max(numbers)
            try:
                found = json.loads((chain / f"{number:020d}.json").read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue  # another has gone on since
            return Mark(number, found["generation"], found["offset"], tuple((pair[0], pair[1]) for pair in found["files"]))
        return None

    def _clean(self, place: TopicPartition) -> None:
        """Delete what older generations wrote and did not commit."""
        for path in (self._root / self.target_of(place.topic)).rglob(f".{place.topic}+{place.partition}+*.tmp"):
            if int(path.name.rsplit(".", 2)[1]) < self._generation:
                path.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    """A durable file; none if it cannot be written whole, so that a full disk is not filled by halves of files."""
    try:
        with open(path, "wb") as file:
            file.write(content)
            sync(file)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _numbers(chain: Path) -> list[int]:
    return [int(name.removesuffix(".json")) for name in os.listdir(chain) if name.endswith(".json") and not name.startswith(".")]


def _folder_names(name: str, values: pa.ChunkedArray) -> pa.Array:
    texts = [NULL_FOLDER if value is None else quote(_folder_text(value), safe=" :,") for value in values.to_pylist()]
    return pa.array([f"{quote(name, safe='')}={text}" for text in texts])


def _folder_text(value: Any) -> str:
    """A value as Hive and Spark name its folder."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
