"""Dead letters as plain values: each, and how many there are of each step and error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from streamkit.log.connect_dead_letter import COLUMNS as CONNECT_COLUMNS
from streamkit.log.connect_dead_letter import connect_dead_letters_of
from streamkit.log.dead_letter import SCHEMA, DeadLetter, dead_letters_of, is_dead_letter_topic
from streamkit.log.dead_letter_replay import Replay, check_dead_letter_topic, replayed
from streamkit.log.log import Log
from streamkit.query.position import EARLIEST, parse_offset
from streamkit.query.predicate import parse_predicate
from streamkit.query.wanted import Wanted, check_offset, condition_schema, standing_records

COUNTS = ("topic", "application", "operator", "error", "records", "replayed")


def dead_letters(
    log: Log, name: str, where: str | None, partitions: list[int] | None, offset: str | None
) -> Iterator[DeadLetter]:
    """The dead letters of a topic that are asked for; ConfigError if it has none by its kind."""
    check_dead_letter_topic(log, name)
    found = log.topic(name)
    condition = None if where is None else parse_predicate(where, condition_schema(found))
    position = EARLIEST if offset is None else parse_offset(offset)
    is_of_application = is_dead_letter_topic(found)
    wanted = Wanted(
        found,
        SCHEMA.names if is_of_application else CONNECT_COLUMNS,
        tuple(partitions) if partitions else None,
        position,
        condition,
    )
    check_offset(log, wanted)
    for batch in standing_records(log, wanted):
        yield from dead_letters_of(batch) if is_of_application else connect_dead_letters_of(log, batch)


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
