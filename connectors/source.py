"""Sources: what brings rows of a foreign system into topics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from streamkit.connectors.connector import Connector
from streamkit.connectors.position_form import PositionForm
from streamkit.connectors.setting import Setting
from streamkit.errors import SchemaError
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic

Position: TypeAlias = Mapping[str, Any]
RawRecord: TypeAlias = tuple[bytes | None, bytes | None]  # the key and the value, as they were read
RecordPlace: TypeAlias = tuple[str, int, int]  # of a record where it was read: `_topic`, `_partition` and `_offset`
# The topic it was bound for, the record, why, its place, and its event time in ms
Refused: TypeAlias = tuple[str, bytes, Exception, RecordPlace | None, int | None]
RECREATED_MODE, BEGIN = "recreated.mode", "begin"


def kept_for_ever(key: Sequence[str]) -> dict[str, str]:
    """The settings of a topic that is a table: without retention, and compacted if there is a key."""
    return {"retention.ms": "-1", **({"cleanup.policy": "compact"} if key else {})}


class Reading(NamedTuple):
    """Rows that records became, each with its number in `_row`, and records that are none. If it `is_sure` no part of them would say otherwise."""

    tables: Sequence[pa.Table]
    refused: Sequence[Refused]
    is_sure: bool = True


class Unread(Protocol):
    """
    Records of a poll that become rows when they are written: what one is may depend on the topic that those before it have made.

    The runtime reads many at once. Where one of them fails it reads fewer, in their order, until those that fail are alone: so each
    becomes what it would be alone, and one that fails leaves nothing behind.
    """

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def read(self, start: int, end: int) -> Reading:
        """The rows of those from one number on up to another; of a single record it is sure."""
        ...


class Polled(NamedTuple):
    """
    The result of a poll: rows by topic, and the position after them by split.

    The rows of a topic are one table, or several in their order if the columns have different types. A table has the
    topic's columns, and maybe `_timestamp`, `_deleted` and `_headers`, and `_topic`, `_partition` and
    `_offset`, where the row comes from. A position is a value of JSON.
    """

    tables: Mapping[str, pa.Table | Sequence[pa.Table] | Unread]
    positions: Mapping[str, Position]


class Source(Connector):
    """
    Rows of a foreign system. The runtime writes the rows of a poll, and its positions, in one transaction of the log.

    A task calls `open` first, then `poll` again and again, then `close`; all in one thread. After an error it makes a new
    source, and opens it at the positions that the log has committed. An error that is a StreamKitError with
    `is_retryable`, a ConnectionError or a TimeoutError starts the task again after a while; any other one fails it.
    """

    IS_SOURCE: ClassVar[bool] = True
    KIND: ClassVar[tuple[Setting, ...]] = (
        Setting("topic", "the topic of the log to which the rows are written", default=""),
        Setting("topic.partitions", "the partitions of a topic that is created", "integer", None, least=1),
        Setting(
            "topic.schema", "the columns of a topic that is created, such as 'id bigint'; else the rows say them", default=None
        ),
        Setting(
            RECREATED_MODE,
            "what happens if a topic or table was deleted and made again: fail stops the task, begin reads it from its beginning",
            default="fail",
            choices=("fail", BEGIN),
        ),
        Setting(
            "topic.config.", "Kafka's settings of a topic that is created, such as topic.config.cleanup.policy", default=None
        ),
    )
    refused: list[Refused]  # of the poll under way; the runtime takes them
    keeps_partitions = False  # True: a row of an opaque topic goes to its `_partition`, if the topic has as many
    says_columns: ClassVar[str] = "value.format and value.schema, such as 'id bigint, name string'"  # the settings
    is_bounded = False  # True: what is there now is read, then the task ends; the runtime says so before it opens the source
    IS_BY_RECORD: ClassVar[bool] = (
        False  # True: polls bring `Unread`, and each record says its key: another one is its own failure
    )
    GOES_TOGETHER: ClassVar[bool] = True  # False: records do not, such as requests, so later ones may go to another topic
    IS_RAW: ClassVar[bool] = False  # True: tables are `key binary, value binary`, which `value.format` says how to read
    POSITION: ClassVar[PositionForm | None] = None  # what its positions look like; None: nothing checks them

    def use(self, log: Log) -> None:
        """Called first, with the log to which the rows are written: a source that reads topics of the log needs it."""

    @abstractmethod
    def splits(self) -> Sequence[str]:
        """The parts of the foreign system that may be read in parallel; the runtime gives them to `tasks.max` tasks."""

    @abstractmethod
    def open(self, positions: Mapping[str, Position | None]) -> None:
        """
        Begin to read these splits, each after its position, or at its beginning if it has none.

        It is called again, with all splits of the task, when `splits` has new ones.
        """

    @abstractmethod
    def poll(self, timeout: float) -> Polled | None:
        """The next rows; waits up to `timeout` seconds for them, and returns None if there are none by then."""

    @classmethod
    def position_fault(cls, split: str, position: Position) -> str | None:
        """
        What is wrong with a position of a split, and what is expected; None if it can be given to `open`.

        The runtime calls this before it uses a position, and `offsets set` before it writes one: the position may be that of another
        connector, or have another form. It is called on the class, so it cannot depend on settings.
        """
        return None if cls.POSITION is None else cls.POSITION.fault(position)

    def committed(self, positions: Mapping[str, Position]) -> None:
        """Called after the log has committed these positions: only now may the foreign system forget the rows before them."""

    def identities(self, splits: Sequence[str]) -> Mapping[str, str]:
        """
        What tells each split from another of the same name, if the foreign system says it, such as the id of a topic or a table.

        A position belongs to one identity. If a split has another identity later, it was deleted and made again, and the position means
        nothing in the new one: the setting `recreated.mode` says what happens.
        """
        return {}

    def name_of(self, split: str) -> str:
        """How errors name a split."""
        return split

    def made_again(self, split: str) -> None:
        """Called before `open` if a split was deleted and another one of its name is read from its beginning."""

    def targets(self, split: str, position: Position) -> Mapping[str, str] | None:
        """
        The topics, before any router, that have the rows before a position of a split, by what is read into each.

        The rows after the position must get into the same topics: another topic, or one that was deleted since, would have only a part of the
        rows, so a start with such settings is refused. None for a source whose starts are not compared.
        """
        topic = self.settings["topic"]
        return {"": topic} if topic else {}

    def without_topic(self, position: Position) -> Position | None:
        """The position to go on from, if the topic with the rows before it was deleted and `recreated.mode` is `begin`; None forgets it."""
        return position

    def topic(self, topic: Topic) -> None:
        """Called before `open` with the topic of the setting `topic`, if it exists and no transform makes other columns of the rows."""

    def refuse_record(
        self, topic: str, record: bytes, error: Exception, place: RecordPlace | None = None, time_ms: int | None = None
    ) -> None:
        """
        Leave out a record that cannot even be made a row: within a poll, before it returns.

        Raises the error unless `errors.tolerance` is `all`; else the record is counted, and is a dead letter of this poll: by its `place`
        it stands in its order among rows that fail later on their way, which have `_topic`, `_partition` and `_offset`. `time_ms` is
        its event time, as far as the source knows it; else that of now.
        """
        if self.settings["errors.tolerance"] == "none":
            raise error
        self.refused.append((topic, record, error, place, time_ms))

    def without_refused(self, reason_of: Callable[[str, pa.Table], SchemaError | None]) -> Polled | None:
        """
        The poll under way without the rows that are refused, once whoever waits for an answer about them has it.

        It is called when rows of a poll do not fit their topic and `errors.tolerance` is `none`. `reason_of` takes a topic and
        rows, does with them what is done with a poll up to the topic, and says what is wrong with the first that fails; its `rows`
        has the number. None if nothing was refused, or nobody waits: then the error stops the task.
        """
        return None

    def record_of(self, place: RecordPlace) -> RawRecord | None:
        """A record of the last poll that the source made a row of, or refused, for its dead letter; None where rows are what was read."""
        return None

    def place_of(self, topic: str, row: int) -> str:
        """Where a row of the last poll came from, such as its file and line; empty where its `_topic`, `_partition` and `_offset` say it."""
        return ""

    def is_at_end(self) -> bool:
        """Whether everything that was there when the source was opened has been polled; called after a poll without rows."""
        return True

    @property
    def has_schemas_of_records(self) -> bool:
        """Whether each record has its own columns, as behind a registry: then a transform may fit some records and not others."""
        return self.IS_RAW and bool(self.settings["schema.registry."])

    def key_of(self, topic: str) -> Sequence[str]:
        """The key columns of a topic that is created; the setting `key` unless the foreign system knows better."""
        return tuple(self.settings["key"])

    def config_of(self, topic: str) -> Mapping[str, str]:
        """Kafka's settings of a topic that is created, below those of `topic.config.`."""
        return {}

    def partitions_of(self, topic: str) -> int | None:
        """The partitions of a topic that is created; None for the setting of the log."""
        found: int | None = self.settings["topic.partitions"]
        return found

    def format_of_bytes(self) -> str | None:
        """The format of a topic that is created for rows of `key binary, value binary`; None if these are columns like others."""
        return self.settings["value.format"] or "bytes" if self.IS_RAW else None

    def close(self) -> None:
        """Close all connections; called once, also after an error."""
