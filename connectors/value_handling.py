"""What becomes of values that few types can hold: numbers of many digits, NaN, and the infinities of numbers, dates and times."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.connectors.setting import Setting

DECIMAL_MODE, INFINITY = "decimal.handling.mode", "infinity.handling"
PRECISE, DOUBLE, STRING = "precise", "double", "string"
FAIL, NULL = "fail", "null"
SPECIAL = ("NaN", "Infinity", "-Infinity", "infinity", "-infinity")  # as PostgreSQL prints them
DECIMAL_SETTING = Setting(
    DECIMAL_MODE,
    "the type of numerics: precise is decimal; double and string accept NaN, infinities and any number of digits",
    default=PRECISE,
    choices=(PRECISE, DOUBLE, STRING),
)
INFINITY_SETTING = Setting(
    INFINITY,
    "what is done with NaN and infinities in decimals, and with infinite dates and times: fail refuses the row, null reads them as null",
    default=FAIL,
    choices=(FAIL, NULL),
)


@dataclass(frozen=True)
class ValueHandling:
    """What the settings say."""

    decimals: str = PRECISE
    infinity: str = FAIL
