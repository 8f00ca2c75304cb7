"""Where a page ended, as a text that the next request gives back: JSON in base 64, for nobody to read or make."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from streamkit.serve.refusals import RefusedError, bad_request


def cursor_text(place: dict[str, Any]) -> str:
    """A place as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def cursor_place(text: str, expected: dict[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """The place of a cursor, which has what is expected; RefusedError for a text that no page gave."""
    try:
        found = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise unknown_cursor(text) from None
    if not isinstance(found, dict) or any(not isinstance(found.get(name), kind) for name, kind in expected.items()):
        raise unknown_cursor(text)
    return found


def unknown_cursor(text: str) -> RefusedError:
    """The answer to a cursor that no page gave."""
    return bad_request(
        f"found cursor={text[:100]!r}; expected the cursor of a page of this path", "leave it out to begin at the beginning"
    )
