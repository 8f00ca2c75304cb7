"""Dead letters within the limits of their topic: what failed since it is too large, or of a far time, is none the less written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamkit.log.connect_dead_letter import PREFIX
from streamkit.log.log import Log
from streamkit.log.rows.event_time import TimeLimits
from streamkit.log.rows.record_size import TIMESTAMP_BYTES
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.names import DELETED, HEADERS, TIMESTAMP

_SLACK_MS = 60_000  # until the letter is sent, its topic's limits move
_TEXT_BYTES = 2_000  # of an error's message or trace, in a letter that is too large
_NOTE_BYTES = 200  # for the header that says what was cut
LetterHeaders = Sequence[tuple[str, bytes | None]]


def within_limits(log: Log, topic: str, letters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """
    The letters as their topic takes them.

    An event time that it refuses becomes the header `__connect.errors.timestamp`, and the letter has the time of now. Of one that
    is too large the error's texts are cut, then the record's own headers left out, then the value and the key cut; the header
    `__connect.errors.cut` says of how many bytes.
    """
    declared, now_ms = log.topic(topic), log.clock.now_ms()
    limits = TimeLimits.of(declared, now_ms)
    return [_sized(_timed(letter, limits), declared.max_message_bytes) for letter in letters]


def _timed(letter: Mapping[str, Any], limits: TimeLimits) -> dict[str, Any]:
    found = letter.get(TIMESTAMP)
    if found is None or _is_taken(found, limits):
        return dict(letter)
    said = found.isoformat() if isinstance(found, dt.datetime) else str(found)
    rest = {name: value for name, value in letter.items() if name != TIMESTAMP}
    return rest | {HEADERS: [*letter[HEADERS], (f"{PREFIX}timestamp", said.encode())]}


def _is_taken(found: Any, limits: TimeLimits) -> bool:
    if not isinstance(found, dt.datetime):
        return False  # of a year that no datetime has, or no time at all
    naive = found.astimezone(dt.timezone.utc).replace(tzinfo=None) if found.tzinfo else found
    time_ms = int(np.datetime64(naive, "ms").astype(np.int64))
    return limits.take(time_ms - _SLACK_MS) and limits.take(time_ms)


def _sized(letter: dict[str, Any], limit: int) -> dict[str, Any]:
    size = _bytes_of(letter)
    if size <= limit:
        return letter
    headers = letter[HEADERS]
    own = [(name, value) for name, value in headers if not name.startswith(PREFIX)]
    said = [(name, value and value[:_TEXT_BYTES]) for name, value in headers if name.startswith(PREFIX)]
    has_own = bool(own) and _bytes_of({**letter, HEADERS: [*own, *said]}) + _NOTE_BYTES <= limit
    kept = [*own, *said] if has_own else said
    room = max(0, limit - _NOTE_BYTES - _bytes_of({HEADERS: kept}))
    key, value = letter[KEY], letter[VALUE]
    cut_key = key if key is None or len(key) <= room // 2 else key[: room // 2]
    cut_value = value and value[: room - len(cut_key or b"")]
    lost = [f"{name} of {len(was)} bytes" for name, was, now in ((KEY, key, cut_key), (VALUE, value, cut_value)) if was != now]
    lost += ["headers"] if own and not has_own else []
    note = (f"{PREFIX}cut", ", ".join(lost or ["errors"]).encode())
    flags = {name: found for name, found in letter.items() if name in (TIMESTAMP, DELETED)}
    return {KEY: cut_key, VALUE: cut_value, HEADERS: [*kept, note], **flags}


def _bytes_of(letter: Mapping[str, Any]) -> int:
    pairs: LetterHeaders = letter[HEADERS]
    headers = sum(len(name.encode()) + len(value or b"") for name, value in pairs)
    return TIMESTAMP_BYTES + len(letter.get(KEY) or b"") + len(letter.get(VALUE) or b"") + headers
