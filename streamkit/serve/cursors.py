"""Where a page ended, as a text that the next request gives back: JSON in base 64, for nobody to read or make."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic
from streamkit.serve.refusals import RefusedError, bad_request


def cursor_text(place: dict[str, Any]) -> str:
    """A place as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def cursor_place(text: str, expected: dict[str, type | tuple[type, ...]], hint: str | None = None) -> dict[str, Any]:
    """The place of a cursor, which has what is expected; RefusedError for a text that no page gave, with what to do."""
    try:
        found = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise unknown_cursor(text, hint) from None
    if not isinstance(found, dict) or any(not isinstance(found.get(name), kind) for name, kind in expected.items()):
        raise unknown_cursor(text, hint)
    return found


def topic_cursor(log: Log, topic: Topic, **place: Mapping[int, int]) -> str:
    """A place in a topic, offsets by partition under a name, as a cursor; it names the log, because each log counts its topics from 1."""
    offsets = {name: {str(one): offset for one, offset in sorted(found.items())} for name, found in place.items()}
    return cursor_text({"log": log.catalog.standing().log_id, "topic": topic.id, **offsets})


def topic_offsets(log: Log, topic: Topic, text: str, name: str, hint: str | None = None) -> dict[int, int]:
    """The offsets of a name in the cursor of a topic, by partition; RefusedError with status 410 if it is of another topic or log."""
    found = cursor_place(text, {"log": str, "topic": int, name: dict}, hint)
    if (found["log"], found["topic"]) != (log.catalog.standing().log_id, topic.id):
        whose = f"another topic than {topic.name} is now" if found["log"] == log.catalog.standing().log_id else "another log"
        raise gone_cursor(f"of {whose}", hint)
    return {int(one): offset for one, offset in found[name].items() if one.isdecimal() and isinstance(offset, int)}


def gone_cursor(what: str, hint: str | None = None) -> RefusedError:
    """The answer to a cursor of something that is not there any more."""
    return RefusedError(410, "Gone", f"the cursor is {what}", hint or "leave it out to begin without it")


def unknown_cursor(text: str, hint: str | None = None) -> RefusedError:
    """The answer to a cursor that no page gave."""
    return bad_request(
        f"found cursor={text[:100]!r}; expected the cursor of an answer of this path",
        hint or "leave it out to begin at the beginning",
    )
