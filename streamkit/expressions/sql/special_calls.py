"""Functions whose arguments are written in ways of their own: CAST(a AS int), TRIM(BOTH 'x' FROM s), EXTRACT(YEAR FROM t) …"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamkit.expressions.sql.word import Word
from streamkit.plan.expression import Call, Expression, Literal

if TYPE_CHECKING:
    from streamkit.expressions.sql.expression_reader import ExpressionReader

UNITS = "YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND".split()  # noqa: SIM905
WITH_UNIT = {
    "TIMESTAMPADD": "timestampadd", "DATEADD": "timestampadd", "DATE_ADD": "timestampadd", "TIMESTAMPDIFF": "timestampdiff",
    "DATEDIFF": "timestampdiff", "DATE_DIFF": "timestampdiff", "TIMEDIFF": "timestampdiff",
}  # fmt: skip
TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _cast(reader: ExpressionReader, word: Word) -> Expression:
    value = reader.expression()
    reader.expect("AS")
    begin = reader.word.start
    type = reader.type()
    name = reader.made(Literal(type), begin)
    reader.expect(")")
    return Call("try_cast", (value, name)) if word.key == "TRY_CAST" else reader.cast(value, type)


def _extract(reader: ExpressionReader, word: Word) -> Expression | None:
    if not reader.is_before("FROM"):
        return None
    start = reader.word.start
    name = reader.made(Literal(reader.name()), start)
    reader.expect("FROM")
    return _closed(reader, Call("extract", (name, reader.value())))


def _closed(reader: ExpressionReader, found: Expression) -> Expression:
    reader.expect(")")
    return found


def _tried(reader: ExpressionReader, keyword: str, finish: Callable[[Expression], Expression]) -> Expression | None:
    """A call whose first argument ends at a keyword; None, back where it began, if it ends at something else."""
    place = reader.place
    if reader.is_at(")") or place in reader.in_vain:
        return None
    first = reader.value()
    if not reader.took(keyword):
        _go_back(reader, place)
        return None
    return _closed(reader, finish(first))


def _go_back(reader: ExpressionReader, place: int) -> None:
    """Go back, and do not try it there again: calls within calls would be read twice as often at each level."""
    reader.in_vain.add(place)
    reader.move_to(place)


def _position(reader: ExpressionReader, word: Word) -> Expression | None:
    return _tried(reader, "IN", lambda part: Call("locate", (part, reader.value())))


def _substring(reader: ExpressionReader, word: Word) -> Expression | None:
    def finish(text: Expression) -> Expression:
        start = reader.value()
        return Call("substring", (text, start, *([reader.value()] if reader.took("FOR", ",") else [])))

    return _tried(reader, "FROM", finish)


def _overlay(reader: ExpressionReader, word: Word) -> Expression | None:
    def finish(text: Expression) -> Expression:
        replacement = reader.value()
        reader.expect("FROM")
        start = reader.value()
        return Call("overlay", (text, replacement, start, *([reader.value()] if reader.took("FOR") else [])))

    return _tried(reader, "PLACING", finish)


def _trim(reader: ExpressionReader, word: Word) -> Expression | None:
    if reader.is_at(*TRIMS) and reader.ahead().text not in (",", ")"):
        name = TRIMS[reader.move().key]
        characters = () if reader.is_at("FROM") else (reader.value(),)
        reader.expect("FROM")
        return _closed(reader, Call(name, (reader.value(), *characters)))
    return _tried(reader, "FROM", lambda characters: Call("trim", (reader.value(), characters)))


def _with_unit(reader: ExpressionReader, word: Word) -> Expression | None:
    if reader.word.keyword not in UNITS or reader.ahead().text != "," or reader.place in reader.in_vain:
        return None
    place = reader.place
    unit = reader.move()
    reader.expect(",")
    amount = reader.value()
    if not reader.took(","):
        _go_back(reader, place)  # date_add(day, 3): a column of that name
        return None
    name = reader.made(Literal(unit.key), unit.start)
    return _closed(reader, Call(WITH_UNIT[word.key], (name, amount, reader.value())))


SPECIAL: dict[str, Callable[[ExpressionReader, Word], Expression | None]] = {
    "CAST": _cast,
    "TRY_CAST": _cast,
    "EXTRACT": _extract,
    "POSITION": _position,
    "SUBSTRING": _substring,
    "SUBSTR": _substring,
    "OVERLAY": _overlay,
    "TRIM": _trim,
    **dict.fromkeys(WITH_UNIT, _with_unit),
}
