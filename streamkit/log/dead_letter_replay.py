"""
Dead letters sent again: their records go back to the topics they came from, each once.

A second topic, named after the dead-letter topic, has the place of every record that was sent again. It is written in the
transaction that sends the records. So a replay that is run twice, or again after it was killed, sends nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from streamkit.errors import SchemaError, TopicNotFoundError
from streamkit.log.connect_dead_letter import has_connect_dead_letters
from streamkit.log.dead_letter import UNKNOWN_ID, DeadLetter, RecordOrigin, is_dead_letter_topic
from streamkit.log.log import Log
from streamkit.log.rows.records import records_of
from streamkit.log.topic.settings import CLEANUP_POLICY
from streamkit.log.topic.topic import Topic
from streamkit.names import check_name
from streamkit.schema import Schema

SUFFIX = "-replayed"
KEY = ("topic", "topic_id", "partition", "offset")  # by id, for a topic that was made again begins at offset 0 again
MARKS = "topic string NOT NULL, topic_id bigint NOT NULL, partition int NOT NULL, offset bigint NOT NULL"
MARKS_WITHOUT_ID = "topic string NOT NULL, partition int NOT NULL, offset bigint NOT NULL"  # as they were once
MARKS_OF_BEFORE = f"{MARKS_WITHOUT_ID}, topic_id bigint"


@dataclass
class Replay:
    """What a replay did: how many records it sent to each topic, how many had been sent before, and how many no replay can send."""

    sent: dict[str, int] = field(default_factory=dict)
    before: int = 0
    rows: int = 0


def dead_letter_topics(log: Log) -> list[str]:
    """The names of the topics that hold dead letters."""
    return [name for name in log.topics() if has_dead_letters(log, name)]


def has_dead_letters(log: Log, name: str) -> bool:
    """Whether a topic holds dead letters, of applications or of connectors."""
    return is_dead_letter_topic(log.topic(name)) or has_connect_dead_letters(log, name)


def check_dead_letter_topic(log: Log, name: str) -> None:
    """SchemaError if a topic holds no dead letters."""
    if not has_dead_letters(log, name):
        raise SchemaError(
            f"topic {name} holds no dead letters: it has {log.topic(name).schema}; topics with dead letters are "
            f"{', '.join(dead_letter_topics(log)) or 'none'}"
        )


def replayed(log: Log, name: str) -> set[RecordOrigin]:
    """The places of the records that were sent again from a dead-letter topic; none if another topic has the name of its marks."""
    marks = f"{name}{SUFFIX}"
    if marks not in log.topics() or not _holds_marks(log.topic(marks)):
        return set()
    rows = log.read(marks).to_pylist()
    return {(row["topic"], row.get("topic_id") or UNKNOWN_ID, row["partition"], row["offset"]) for row in rows}


def replay(log: Log, name: str, letters: Iterable[DeadLetter], *, is_dry: bool = False) -> Replay:
    """
    Send the records of dead letters of a topic back to where they came from: all of them or none, each once.

    They are sent in the order that they have in their partitions, whatever the order of the dead letters, so that the newest record of a key
    stays the newest. A record that several steps failed on is sent once. Columns that a topic has got since are null. A dry run sends nothing, and
    raises the same errors. TopicNotFoundError if a topic is gone, or was made again, SchemaError if it no longer accepts the record, or if the
    topic of the marks holds something else; nothing is sent then. FencedError if another replay of the topic began meanwhile.
    """
    check_dead_letter_topic(log, name)
    marks, producer_name = f"{name}{SUFFIX}", check_name(f"dlq-replay-{name}", "producer")
    if is_dry:
        chosen, found = _chosen(letters, replayed(log, name))
        for topic, record in _records(log, chosen):
            records_of(log.topic(topic), record, log.clock.now_ms())
        if chosen:
            _check_marks(log, marks)
        return found
    with log.producer(id=producer_name) as producer:  # fences another replay, which reads the marks of this one then
        chosen, found = _chosen(letters, replayed(log, name))
        if not chosen:
            return found
        records = _records(log, chosen)
        _declare_marks(log, marks)
        with producer.transaction():
            for letter, (topic, record) in zip(chosen, records, strict=True):
                assert letter.origin is not None
                producer.send_batch(topic, record)
                producer.send(marks, dict(zip(KEY, letter.origin, strict=True)))
    return found


def _check_marks(log: Log, name: str) -> None:
    """SchemaError if a topic of the marks' name holds something else."""
    if name in log.topics(internal=True) and not _holds_marks(log.topic(name)):
        raise SchemaError(
            f"topic {name} has {log.topic(name).schema}; expected {MARKS}, or no topic of that name: "
            f"it is to hold the places of the records that were sent again from {name.removesuffix(SUFFIX)}, so delete it, or keep its rows elsewhere"
        )


def _holds_marks(topic: Topic) -> bool:
    return not topic.internal and topic.schema in map(Schema.parse, (MARKS, MARKS_OF_BEFORE, MARKS_WITHOUT_ID))


def _declare_marks(log: Log, name: str) -> None:
    _check_marks(log, name)
    if name not in log.topics():
        log.create_topic(name, MARKS, key=KEY, partitions=1, config={CLEANUP_POLICY: "compact"})
    elif "topic_id" not in log.topic(name).schema:
        log.alter_topic(name, schema=MARKS_OF_BEFORE)


def _records(log: Log, letters: Sequence[DeadLetter]) -> list[tuple[str, pa.RecordBatch]]:
    """The topic and the record of each letter, in the columns that the topic has now."""
    found = [(letter.origin[0], letter.again()) for letter in letters if letter.origin is not None]
    topics = {name: _topic(log, name) for name, _ in found}
    _check_identities(letters, topics)
    return [(name, _with_new_columns(topics[name], record)) for name, record in found]


def _topic(log: Log, name: str) -> Topic:
    if name not in log.topics():
        raise TopicNotFoundError(
            f"topic {name} is gone, so its records cannot be sent again; expected it back, or a condition that leaves them out, such as topic <> '{name}'"
        )
    return log.topic(name)


def _check_identities(letters: Sequence[DeadLetter], topics: Mapping[str, Topic]) -> None:
    """Refuse letters of a former topic of the same name; a letter without a topic's id is taken for one of the present topic."""
    known = [letter for letter in letters if letter.topic_id != UNKNOWN_ID]
    former = [letter for letter in known if letter.topic_id != topics[str(letter.topic)].id]
    if former:
        last = max(former, key=lambda letter: letter.place[1])
        raise TopicNotFoundError(
            f"topic {last.topic} was deleted and made again, and {len(former)} records of dead letters are of the former one, the last of them at offset "
            f"{last.place[1]}, so they cannot be sent again; expected dead letters of the topic that is there: "
            f"beginning at offset {last.place[1] + 1}, or a condition, leaves the others out"
        )


def _with_new_columns(topic: Topic, record: pa.RecordBatch) -> pa.RecordBatch:
    """A record with null in the columns that its topic got since."""
    for column in topic.schema:
        if column.nullable and column.name not in record.schema.names:
            record = record.append_column(column.name, pa.nulls(record.num_rows, column.arrow.type))
    return record


def _chosen(letters: Iterable[DeadLetter], done: set[RecordOrigin]) -> tuple[list[DeadLetter], Replay]:
    chosen: dict[RecordOrigin, DeadLetter] = {}
    found, before = Replay(), set()
    for letter in letters:
        origin = letter.origin
        if origin is None:
            found.rows += 1
        elif origin in done:
            before.add(origin)
        else:
            found.sent[origin[0]] = found.sent.get(origin[0], 0) + (origin not in chosen)
            chosen[origin] = letter  # the last one of the record, which says where the letters of a topic end
    found.before = len(before)
    return [chosen[origin] for origin in sorted(chosen)], found
