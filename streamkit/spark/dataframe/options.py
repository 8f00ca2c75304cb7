"""The options of `format("streamkit")`, checked. Spark hands them over as texts whose names ignore case."""

from __future__ import annotations

import datetime as dt
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamkit.errors import ConfigError
from streamkit.log.consume.reader import check_offset, check_partition, milliseconds
from streamkit.log.topic.topic import Topic
from streamkit.log.values.whole_number import as_whole_number

EARLIEST, LATEST = "earliest", "latest"
_KAFKAS_OFFSETS = {-2: EARLIEST, -1: LATEST}
SPARKS_OWN = ("checkpointlocation", "queryname")  # options of the stream that it gives to source and sink too
READ = (
    "topic", "log", "columns", "where", "includeHeaders", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp",
)  # fmt: skip
STREAM_READ = ("topic", "log", "columns", "includeHeaders", "startingOffsets", "startingTimestamp", "maxRecordsPerTrigger")
STORE_READ = ("store", "log", "columns", "where")
WRITE = ("topic", "log", "id", "sequence")
STREAM_WRITE = ("topic", "log", "id")

OptionPosition = int | str  # an offset, or one of EARLIEST and LATEST


@dataclass(frozen=True)
class Positions:
    """Where to begin or end: the same in all partitions, but for those that are named."""

    everywhere: str
    by_partition: Mapping[int, OptionPosition] = field(default_factory=dict)

    def offsets(self, topic: Topic, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """
        The offset of each partition, from its earliest and next one.

        ConfigError for a partition that there is not, OffsetOutOfRangeError for an offset that retention has deleted.
        """
        for partition in self.by_partition:
            check_partition(topic, partition)
        return {partition: self._offset(topic, partition, *bounds[partition]) for partition in bounds}

    def _offset(self, topic: Topic, partition: int, earliest: int, latest: int) -> int:
        position = self.by_partition.get(partition, self.everywhere)
        if isinstance(position, str):
            return earliest if position == EARLIEST else latest
        check_offset(topic, partition, position, earliest, latest)
        return position


@dataclass(frozen=True)
class ReadOptions:
    """A topic in a log (None: that of the setting), bounds as positions and as event times in ms, and a condition in SQL."""

    topic: str
    log: str | None = None
    columns: tuple[str, ...] | None = None
    has_headers: bool = False
    start: Positions = Positions(EARLIEST)
    end: Positions = Positions(LATEST)
    start_ms: int | None = None
    end_ms: int | None = None
    records_max: int | None = None
    where: str | None = None


@dataclass(frozen=True)
class StoreOptions:
    """A store of an application in a log (None: that of the setting), the columns to read, and a condition in SQL."""

    application: str
    store: str
    log: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None


@dataclass(frozen=True)
class WriteOptions:
    """Where rows go, under which producer, and as which of its batches; None is a producer without a name."""

    topic: str
    log: str | None = None
    id: str | None = None
    sequence: int | None = None


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of `spark.read`; ConfigError names the one that is wrong."""
    found = _read(_GivenTexts(options, READ, "a batch that reads a topic"))
    if LATEST in (found.start.everywhere, *found.start.by_partition.values()):
        raise ConfigError("startingOffsets is 'latest', after which a batch finds no records; expected 'earliest' or offsets")
    if EARLIEST in (found.end.everywhere, *found.end.by_partition.values()):
        raise ConfigError("endingOffsets is 'earliest', before which a batch finds no records; expected 'latest' or offsets")
    return found


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of `spark.readStream`; ConfigError names the one that is wrong."""
    return _read(_GivenTexts(options, STREAM_READ, "a stream that reads a topic"))


def table_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of a topic that is read, it is not known yet how; ConfigError names the one that is wrong."""
    return _read(_GivenTexts(options, tuple(dict.fromkeys((*READ, *STREAM_READ))), "reading a topic"))


def names_store(options: Mapping[str, str]) -> bool:
    """Whether options name a store, and no topic."""
    return "store" in {name.lower() for name in options}


def store_options(options: Mapping[str, str]) -> StoreOptions:
    """The options of `spark.read` of a store; ConfigError names the one that is wrong."""
    given = _GivenTexts(options, STORE_READ, "a batch that reads a store")
    application, _, store = (given.text("store") or "").rpartition("/")
    if not application or not store:
        raise ConfigError(
            f'store is {given.text("store")!r}; expected the application and the store, as in .option("store", "flight-delays/delays")'
        )
    return StoreOptions(application, store, given.text("log"), given.columns(), given.text("where"))


def refuse_store(options: Mapping[str, str], what: str) -> None:
    """ConfigError if options name a store where only a topic will do."""
    if names_store(options):
        raise ConfigError(f'a store is read by spark.read; {what} needs a topic: expected .option("topic", …)')


def write_options(options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """The options of `df.write`; ConfigError names the one that is wrong."""
    given = _GivenTexts(options, WRITE, "a batch that writes to a topic")
    if overwrite:
        raise ConfigError('a topic is only appended to; found mode "overwrite", expected df.write.mode("append")')
    found = WriteOptions(given.topic(), given.text("log"), given.text("id"), given.count("sequence", least=0))
    if found.sequence is not None and found.id is None:
        raise ConfigError('sequence needs id, the name of the producer that counts; expected .option("id", …) beside it')
    return found


def stream_write_options(options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """The options of `df.writeStream`; ConfigError names the one that is wrong."""
    given = _GivenTexts(options, STREAM_WRITE, "a stream that writes to a topic")
    if overwrite:
        raise ConfigError('a topic is only appended to; found outputMode "complete", expected "append"')
    found = WriteOptions(given.topic(), given.text("log"), given.text("id"))
    if found.id is None:
        raise ConfigError(
            'a stream that writes to a topic needs .option("id", …): the name of its producer, by which each batch is written once'
        )
    return found


def _read(given: _GivenTexts) -> ReadOptions:
    return ReadOptions(
        topic=given.topic(),
        log=given.text("log"),
        columns=given.columns(),
        has_headers=given.flag("includeHeaders"),
        start=given.positions("startingOffsets"),
        end=given.positions("endingOffsets"),
        start_ms=given.moment("startingTimestamp"),
        end_ms=given.moment("endingTimestamp"),
        records_max=given.count("maxRecordsPerTrigger", least=1),
        where=given.text("where"),
    )


class _GivenTexts:
    """The texts that were given, read one by one."""

    def __init__(self, options: Mapping[str, str], known: Sequence[str], purpose: str) -> None:
        self._texts = {name.lower(): str(text) for name, text in options.items()}
        names = {name.lower(): name for name in known}
        for name in self._texts:
            if name not in names and name not in SPARKS_OWN:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean {names[near[0]]}?" if near else ""
                raise ConfigError(f"the option {name} is unknown; {purpose} accepts {', '.join(known)}{hint}")

    def text(self, name: str) -> str | None:
        return self._texts.get(name.lower())

    def topic(self) -> str:
        topic = self.text("topic")
        if not topic:
            raise ConfigError(
                'no topic is named; expected .option("topic", …) behind format("streamkit"), or .option("store", "application/store")'
            )
        return topic

    def columns(self) -> tuple[str, ...] | None:
        text = self.text("columns")
        if text is None:
            return None
        names = _json(text) if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise ConfigError(f"columns is {text!r}; expected names with commas between them, or a JSON list of names")
        return tuple(names)

    def flag(self, name: str) -> bool:
        text = (self.text(name) or "false").strip().lower()
        if text not in ("true", "false"):
            raise ConfigError(f"{name} is {text!r}; expected true or false")
        return text == "true"

    def count(self, name: str, least: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.strip().isdecimal() or int(text) < least:
            raise ConfigError(f"{name} is {text!r}; expected a whole number, at least {least}")
        return int(text)

    def moment(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            pass
        try:
            return milliseconds(dt.datetime.fromisoformat(text.strip().replace("Z", "+00:00")))
        except ValueError:
            raise ConfigError(
                f"{name} is {text!r}; expected milliseconds since 1970, or a time with a zone, as in 2026-03-01T12:00:00+00:00"
            ) from None

    def positions(self, name: str) -> Positions:
        """One of two words, or JSON of offsets by partition, alone or below the topic's name as Kafka has it."""
        otherwise = LATEST if name == "endingOffsets" else EARLIEST
        text = (self.text(name) or otherwise).strip()
        if text.lower() in (EARLIEST, LATEST):
            return Positions(text.lower())
        found = _json(text)
        if isinstance(found, dict) and set(found) == {self.topic()} and isinstance(found[self.topic()], dict):
            found = found[self.topic()]
        if not isinstance(found, dict) or not all(number.isdecimal() for number in found):
            raise ConfigError(
                f'{name} is {text!r}; expected earliest, latest, or JSON of offsets by partition, as in {{"0": 23}}'
            )
        return Positions(otherwise, {int(number): _position(name, number, offset) for number, offset in found.items()})


def _position(name: str, partition: str, found: Any) -> OptionPosition:
    offset = as_whole_number(found)
    if offset is None or offset < min(_KAFKAS_OFFSETS):
        raise ConfigError(
            f"{name} has {found!r} for partition {partition}; expected an offset, or as in Kafka -2 for earliest, -1 for latest"
        )
    return _KAFKAS_OFFSETS.get(offset, offset)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
