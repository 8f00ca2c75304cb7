"""Numbers for floats and doubles: what is beyond the greatest is an error, as a library would write an infinity in its place."""

from __future__ import annotations

import math
from typing import Any

FLOAT_END = (2 - 2**-24) * 2**127  # what is smaller rounds to a float that is finite
_INFINITY = ("inf", "infinity")


def check_range(value: Any, kind: str, path: str) -> None:
    """ValueError for a number that a `float` or `double` cannot hold; an infinity is one that says so, which `1e400` of JSON does not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, float) and math.isinf(value):
        is_beyond = str(value).lstrip("+-").lower() not in _INFINITY
    else:
        is_beyond = kind == "float" and abs(value) >= FLOAT_END
    if is_beyond:
        raise ValueError(f"{path}: found {str(value)[:80]}, which is beyond the greatest {kind}")
