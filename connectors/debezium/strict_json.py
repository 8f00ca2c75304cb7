"""JSON as the formats take it: no name twice, no bare NaN, no number beyond the greatest double, no text that UTF-8 cannot hold."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from streamkit.formats.json_numbers import parse_number, refuse_constant

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def strict_json(text: str, object_of: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """The value of a JSON text, objects as `object_of` makes them; ValueError for what is none, or could be read in two ways."""

    def checked(pairs: list[tuple[str, Any]]) -> Any:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"found the name {next(name for name in names if names.count(name) > 1)!r} twice in an object")
        return found if object_of is None else object_of(found)

    found = json.loads(text, object_pairs_hook=checked, parse_float=_finite, parse_constant=refuse_constant)
    if _SURROGATE.search(text):
        json.dumps(found, ensure_ascii=False, default=str).encode()  # half a pair of them is no text, as a name neither
    return found


def _finite(text: str) -> float:
    found = parse_number(text)
    if math.isinf(found):
        raise ValueError(f"found {text[:80]}, which is beyond the greatest double")
    return found
