"""
What can go wrong, named by what the caller can do about it.

StreamKitError
├── TopologyError              fix the topology: unknown column, wrong type, key mismatch
│   ├── UnsupportedExpressionError   use another function: StreamKit cannot evaluate this one
│   │   └── UnknownFunctionError     use one of the functions that the message names
│   ├── UnknownVerbError       use the verb that the message names
│   └── SqlError               correct the script: each fault has its line, and what was expected there
├── ConfigError                fix a setting, an option or an argument
├── SchemaError                fix the data or the schema: which row, which column
│   └── RecordTooLargeError    send smaller records, or raise the topic's max.message.bytes
├── TopicNotFoundError         create the topic, or fix its name
├── TopicExistsError           choose another name, or use the topic that is there
├── OffsetOutOfRangeError      seek to an existing offset: retention has deleted this one, or it is after the end
├── EvaluationError            fix the data or the expression: division by zero, overflow, bad cast
│   └── UnfitFunctionError     fix the function: it is not deterministic, or not known where it is called
├── ColumnTooLargeError        process less at once (max_bytes_per_epoch, smaller batches): a column holds 2 GiB of texts
├── SuppressionFullError       raise max_rows of suppress(), or let it emit early
├── CorruptionError            restore from a copy: topic, partition, offset, file, position
│   └── RecordBatchError       restore the topic of Kafka: its bytes are no record batch, or not the one that was written
├── CatalogLostError           rebuild the catalog (`streamkit rebuild`), or restore a newer copy
├── CatalogUnavailableError    start the catalog's server, or wait until it is back: it does not answer
├── FormatVersionError         upgrade StreamKit: the log was written by a newer one
├── FencedError                stop: a newer generation has taken over
│   └── MembershipLostError    poll again, which joins again: the group gave the partitions to others
├── StorageFullError           free disk space, then run again
├── StorageFailedError         fix what the operating system refuses (permission, mount, limit of open files, disk), then run again
├── NotEnoughReplicasError     repair or mount a disk, then write again: too few copies could be made
├── BufferFullError            send again later: the producer's buffer is full
├── OutcomeUnknownError        flush again: it settles whether the commit took effect, and completes it
├── OrphanedStateError         accept the change of topology, or undo it
├── StoreNotFoundError         fix the store's name, or start the application first
├── EpochFailedError           run the epoch again: its attempts did not agree or did not arrive whole
├── RegistryUnavailableError   start the schema registry, or correct its address: it does not answer
└── SetupError                 install what is missing (Java, a package)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

FAULTS_SHOWN = 20  # of a script in the text of its error
IN_PYTHON = "<sql>"  # the file name of a text in SQL that is in no file


@dataclass(frozen=True)
class Location:
    """A line of the user's own code, or with a `column`, counted from 1, a place in a text such as a script in SQL."""

    file: str
    line: int
    column: int | None = None

    def __str__(self) -> str:
        place = f"{self.line}" if self.column is None else f"{self.line}:{self.column}"
        return f"line {place}" if self.file == IN_PYTHON else f"{self.file}:{place}"

    @property
    def shown(self) -> str:
        """The place as the end of a message shows it; for a text with the words at the place."""
        return str(self)

    @property
    def keeps_case(self) -> bool:
        """Whether what is written here may give two columns names that differ in case only, as ksqlDB's SQL does."""
        return False

    def of(self, part: object) -> Location:
        """The place of a part of this text; the whole text, if no more is known."""
        return self


class StreamKitError(Exception):
    """Every error StreamKit raises on purpose."""

    is_retryable: ClassVar[bool] = False


class TopologyError(StreamKitError):
    """The topology is invalid as written; `at` is the user's own line."""

    def __init__(self, message: str, at: Location | None = None) -> None:
        super().__init__(f"{message}\n  at {at.shown}" if at else message)
        self.message = message
        self.at = at


class UnsupportedExpressionError(TopologyError):
    """The expression is valid in Spark, but StreamKit cannot evaluate it."""


class UnknownFunctionError(UnsupportedExpressionError, AttributeError):
    """`streamkit.functions` or a column has nothing of that name; an AttributeError too, so that `hasattr` and `getattr` work as usual."""


class UnknownVerbError(TopologyError, AttributeError):
    """StreamKit, a stream, table, group or topology has no such verb; an AttributeError too, so that `hasattr` and `getattr` work as usual."""


@dataclass(frozen=True)
class SqlFault:
    """One fault of a script in SQL, and its place."""

    message: str
    at: Location

    def __str__(self) -> str:
        return f"{self.message}\n  at {self.at.shown}"


class SqlError(TopologyError):
    """
    A script in SQL cannot be read, or does not fit what is there; `faults` are all that is wrong with it, in the order of the text.

    `message` and `at` are those of the first fault.
    """

    def __init__(self, faults: Sequence[SqlFault]) -> None:
        super().__init__(faults[0].message, faults[0].at)
        self.faults = tuple(faults)
        left = len(faults) - FAULTS_SHOWN
        shown = [*map(str, faults[:FAULTS_SHOWN]), *([f"… and {left:,} more"] if left > 0 else [])]
        self.args = ("\n".join(shown if len(faults) == 1 else [f"the script has {len(faults):,} faults", *shown]),)

    def __reduce__(self) -> tuple[type[SqlError], tuple[tuple[SqlFault, ...]]]:
        return SqlError, (self.faults,)


class ConfigError(StreamKitError):
    """A setting, an option or an argument is unknown or out of range; `at` is the user's own line, if one gave it."""

    def __init__(self, message: str, at: Location | None = None) -> None:
        super().__init__(f"{message}\n  at {at.shown}" if at else message)
        self.at = at


class SchemaError(StreamKitError):
    """
    Data does not fit its schema, or two schemas do not fit each other.

    `rows` are the first rows of the data that do not; `reasons` says of each why, where that differs from the message.
    """

    def __init__(self, message: str, rows: tuple[int, ...] = (), reasons: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.rows = rows
        self.reasons = reasons


class RecordTooLargeError(SchemaError):
    """A record is larger than its topic's `max.message.bytes`; no record of its batch was accepted."""


class TopicNotFoundError(StreamKitError):
    """The topic does not exist; the message lists the topics that do."""


class TopicExistsError(StreamKitError):
    """A topic of that name exists already and differs from the one asked for."""


class OffsetOutOfRangeError(StreamKitError):
    """
    The requested offset is not there any more, or not there yet.

    A partition has offsets from `earliest` to before `end`, which is the next one to be written; both are what was found when
    the error was raised. `offset` is None where none was asked for, since a group had committed nothing.
    """

    def __init__(self, message: str, topic: str, partition: int, offset: int | None, earliest: int, end: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.earliest = earliest
        self.end = end

    def __reduce__(self) -> tuple[type[OffsetOutOfRangeError], tuple[Any, ...]]:
        return type(self), (str(self), self.topic, self.partition, self.offset, self.earliest, self.end)


class EvaluationError(StreamKitError):
    """
    An expression failed on a row, as it would in Spark under ANSI rules, or a user's function did.

    `row` is a batch with that row alone, if whoever raised the error knows it; `call` is the scheduled call that failed, if no row did.
    `is_placed`: the message says which record it is about. `expression` is the text of the part of an expression that failed, if one did.
    """

    def __init__(self, message: str, row: Any = None, call: Any = None, expression: str = "") -> None:
        super().__init__(message)
        self.row = row
        self.call = call
        self.expression = expression
        self.is_placed = False


class NullResultError(EvaluationError):
    """Nothing ended: an expression of the ksql dialect failed on a row, so its value there is null. Dead letters name it as their error."""


class UnfitFunctionError(EvaluationError):
    """A user's function cannot be used, whatever the record: it gives two results, or its process does not know it."""


class ColumnTooLargeError(StreamKitError):
    """The values of one column are too long together: a column holds 2 GiB of texts or bytes. None of them was committed."""


class SuppressionFullError(StreamKitError):
    """A `suppress` holds back more rows than its `max_rows`, and has `when_full="stop"`; the message names the key group."""


class CorruptionError(StreamKitError):
    """
    Stored bytes are not the bytes that were written; no row of the frame is returned.

    Of a topic's rows, `offset` is the first that cannot be read, and from `next_offset` on the partition may be readable again;
    all four are None where the bytes are not those of a known topic.
    """

    def __init__(
        self,
        message: str,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        next_offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset

    def __reduce__(self) -> tuple[type[CorruptionError], tuple[Any, ...]]:
        return type(self), (str(self), self.topic, self.partition, self.offset, self.next_offset)


class RecordBatchError(CorruptionError):
    """Bytes from Kafka are no record batch; `offset` is that of the batch, or None if only a part of a batch was read."""


class CatalogLostError(StreamKitError):
    """The catalog is missing, or lacks commits that the log's journal has."""


class CatalogUnavailableError(StreamKitError):
    """The server of the catalog did not answer in time; the call changed nothing."""

    is_retryable = True


class FormatVersionError(StreamKitError):
    """The log or the store was written by a newer format."""


class FencedError(StreamKitError):
    """A newer generation of the application or producer has taken over."""


class MembershipLostError(FencedError):
    """The group removed this consumer as dead, or gave the partition to another one; its new owner reads again what was not committed."""


class StorageFullError(StreamKitError):
    """The disk is full; everything that was committed before stays readable."""

    is_retryable = True


class StorageFailedError(StreamKitError, OSError):
    """
    The operating system refused a call on the log's files; everything that was committed before is unchanged.

    It is an OSError too: `errno` and `strerror` are those of the error behind it, None where nothing says them.
    """

    is_retryable = True

    def __init__(self, message: str, number: int | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.errno, self.strerror = number, reason

    def __reduce__(self) -> tuple[type[StorageFailedError], tuple[str, int | None, str | None]]:
        return type(self), (self.message, self.errno, self.strerror)

    def __str__(self) -> str:
        return self.message


class NotEnoughReplicasError(StreamKitError):
    """Fewer copies of a file could be made than `min.insync.replicas`; nothing became visible, and reading goes on."""

    is_retryable = True


class BufferFullError(StreamKitError):
    """The producer's buffer had no room within `max_block_ms`; the new rows were not accepted, and earlier ones are kept."""

    is_retryable = True


class OutcomeUnknownError(StreamKitError):
    """A commit raised `reason`, and it is not known whether it took effect; repeating it settles that, and never applies it twice."""

    is_retryable = True

    def __init__(self, reason: Exception) -> None:
        super().__init__(f"the catalog failed inside a commit, whose outcome is not known yet: {reason}")
        self.reason = reason


class OrphanedStateError(StreamKitError):
    """A start of this topology cannot go on with the state that the application has."""


class StoreNotFoundError(StreamKitError):
    """The application has no such store; the message lists those it has."""


class StoreLostError(StreamKitError):
    """The store has no log, and this host has no copy of it that is up to date."""


class EpochFailedError(StreamKitError):
    """The attempts of an epoch did not agree or did not arrive whole; nothing became visible."""

    is_retryable = True


class RegistryUnavailableError(StreamKitError):
    """The schema registry did not answer in time; try again what needs its schemas."""

    is_retryable: ClassVar[bool] = True


class SetupError(StreamKitError):
    """Something outside Python is missing; the message says how to get it."""
