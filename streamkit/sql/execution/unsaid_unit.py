"""
A number in place of a time, or a time in place of a number, neither of which says a unit.

A CAST of Spark counts seconds, and ksqlDB, `_timestamp` and the producer count milliseconds. So nothing becomes the other by itself.
"""

from __future__ import annotations

from streamkit.data_type import FLOATS, INTEGERS, decimal_of, inner_types

FROM_NUMBERS = {
    "timestamp": "a text such as '2026-01-31 12:00:00', or TIMESTAMP_MILLIS(…) or TIMESTAMP_SECONDS(…) of the number",
    "timestamp_ntz": "a text such as '2026-01-31 12:00:00'",
    "date": "a text such as '2026-01-31', or DATE_FROM_UNIX_DATE(…) of the number of days",
}  # what is expected, by the type of the column
TO_NUMBERS = {
    "timestamp": "UNIX_MILLIS(…) or UNIX_SECONDS(…) of the time",
    "timestamp_ntz": "UNIX_MILLIS(…) or UNIX_SECONDS(…) of a TIMESTAMP",
    "date": "UNIX_DATE(…), which counts days",
}  # by the type of the value


def advice_on_unit(given: str, type: str) -> str | None:
    """What is expected in place of a value of one type for a column of the other, at whatever depth; None where no unit is missing."""
    if type in FROM_NUMBERS and _is_number(given):
        return FROM_NUMBERS[type]
    if given in TO_NUMBERS and _is_number(type):
        return TO_NUMBERS[given]
    pairs = zip(inner_types(given), inner_types(type), strict=False)  # a struct of other fields is refused by the cast
    return next(filter(None, (advice_on_unit(one, other) for one, other in pairs)), None)


def _is_number(type: str) -> bool:
    return type in INTEGERS or type in FLOATS or decimal_of(type) is not None
