"""Dead letters as plain values: each, and how many there are of each step and error."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from streamkit.log.connect_dead_letter import COLUMNS as CONNECT_COLUMNS
from streamkit.log.connect_dead_letter import connect_dead_letters_of
from streamkit.log.dead_letter import SCHEMA, DeadLetter, dead_letters_of, is_dead_letter_topic
from streamkit.log.dead_letter_replay import Replay, check_dead_letter_topic, replayed
from streamkit.log.log import Log
from streamkit.query.position import EARLIEST, offsets_at, parse_offset
from streamkit.query.predicate import parse_predicate
from streamkit.query.wanted import Wanted, check_offset, condition_schema, standing_records

CHUNK_ROWS = 1_000
DECODED_ROWS = 100  # at a time, newest first: as many as a page has, for a reader may want no more
COUNTS = ("topic", "application", "operator", "error", "records", "replayed")


def dead_letters(
    log: Log, name: str, where: str | None, partitions: list[int] | None, offset: str | None
) -> Iterator[DeadLetter]:
    """The dead letters of a topic that are asked for; ConfigError if it has none by its kind."""
    wanted = _wanted(log, name, where, partitions, offset)
    for batch in standing_records(log, wanted):
        yield from _letters_of(log, wanted, batch)


def dead_letters_counted(log: Log, name: str, where: str | None, partitions: list[int] | None, offset: str | None) -> int:
    """How many dead letters of a topic are asked for; their records are not decoded."""
    return sum(batch.num_rows for batch in standing_records(log, _wanted(log, name, where, partitions, offset)))


def newest_dead_letters(
    log: Log,
    name: str,
    where: str | None,
    partitions: list[int] | None,
    offset: str | None,
    before: Mapping[int, int] | None = None,
) -> Iterator[DeadLetter]:
    """
    The dead letters of a topic that are asked for, the newest of each partition first, and by the times of their records between these.

    None that is not `before` the offset of its partition, which is its end unless given.
    """
    wanted = _wanted(log, name, where, partitions, offset)
    chosen = [one for one in log.end_offsets(name) if wanted.partitions is None or one in wanted.partitions]
    starts, ends = offsets_at(log, name, wanted.position), {**log.end_offsets(name), **(before or {})}
    backwards = (_backwards(log, wanted, one, starts[one], ends[one]) for one in chosen)
    yield from heapq.merge(*backwards, key=_moment, reverse=True)


def _moment(letter: DeadLetter) -> str:
    """The time of a dead letter's record, as a text that is ordered as times are: behind a second are its fractions."""
    return str(letter.timestamp or "").removesuffix("Z")


def _backwards(log: Log, wanted: Wanted, partition: int, start: int, end: int) -> Iterator[DeadLetter]:
    """Those of a partition, the last one first."""
    while end > start:
        begin = max(start, end - CHUNK_ROWS)
        batches = [*log.scan(wanted.topic.name, wanted.columns, [partition], begin, end)]
        for batch in map(wanted.matching, reversed(batches)):
            for stop in range(batch.num_rows, 0, -DECODED_ROWS):
                first = max(0, stop - DECODED_ROWS)
                yield from reversed([*_letters_of(log, wanted, batch.slice(first, stop - first))])
        end = begin


def _wanted(log: Log, name: str, where: str | None, partitions: list[int] | None, offset: str | None) -> Wanted:
    """What is asked for of a topic; ConfigError if it has no dead letters by its kind."""
    check_dead_letter_topic(log, name)
    found = log.topic(name)
    wanted = Wanted(
        found,
        SCHEMA.names if is_dead_letter_topic(found) else CONNECT_COLUMNS,
        tuple(partitions) if partitions else None,
        EARLIEST if offset is None else parse_offset(offset),
        None if where is None else parse_predicate(where, condition_schema(found)),
    )
    check_offset(log, wanted)
    return wanted


def _letters_of(log: Log, wanted: Wanted, rows: pa.RecordBatch) -> Iterator[DeadLetter]:
    return dead_letters_of(rows) if is_dead_letter_topic(wanted.topic) else connect_dead_letters_of(log, rows)


def dead_letter_counts(log: Log, name: str) -> list[dict[str, Any]]:
    """How many dead letters a topic has, by application, step and error; a row of nothing if it has none."""
    done = replayed(log, name)
    counts: Counter[tuple[str, str, str]] = Counter()
    again: Counter[tuple[str, str, str]] = Counter()
    for letter in dead_letters(log, name, None, None, None):
        kind = (letter.application, letter.operator, letter.error)
        counts[kind] += 1
        again[kind] += letter.origin in done
    if not counts:
        return [dict.fromkeys(COUNTS) | {"topic": name, "records": 0, "replayed": 0}]
    return [dict(zip(COUNTS, (name, *kind, counts[kind], again[kind]), strict=True)) for kind in sorted(counts)]


def dead_letter_json(letter: DeadLetter, *, is_replayed: bool) -> dict[str, Any]:
    """A dead letter without the bytes of its record."""
    facts = {name: value for name, value in vars(letter).items() if name not in ("record", "place")}
    partition, offset = letter.place
    return {**facts, "is_replayed": is_replayed, "_partition": partition, "_offset": offset}


def replay_json(topic: str, found: Replay, *, is_dry: bool) -> dict[str, Any]:
    """What a replay did, or would do."""
    return {
        "topic": topic, "dry_run": is_dry, "sent": found.sent, "replayed_before": found.before, "without_record": found.rows
    }  # fmt: skip
