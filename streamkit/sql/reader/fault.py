"""What a fault of a statement says: what was found, what was expected, and the nearest word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import pairwise

from streamkit.expressions.sql.dialect import Dialect
from streamkit.expressions.sql.refusal import SqlRefusedError, UnexpectedWordError
from streamkit.expressions.sql.word import Word
from streamkit.plan.text_span import TextSpan
from streamkit.sql.reader.asking_reader import asked
from streamkit.sql.reader.clause_reader import CLAUSES, MILLIS

SIMILARITY = 0.7  # of a word to the one that was meant; 1 is the same
SHOWN_LENGTH = 60  # of a word in a message
NEXT_WORDS = {"GROUP": "GROUP BY", "PARTITION": "PARTITION BY", "ORDER": "ORDER BY"}
OPERATORS = frozenset("AND AT BETWEEN COLLATE DIV ILIKE IN IS LIKE NOT OR REGEXP RLIKE".split())  # noqa: SIM905
LITERALS = ("DATE", "TIME", "TIMESTAMP")
NO_VALUES = ("a type", "=")  # expected where the word before is no value
LISTED_MAX = 8
BEFORE_VALUES = ("CASE", "DISTINCT", "NOT")  # words behind which a value is missing where they were meant as names
FOLLOWING = {  # what comes behind a clause that no other word goes on
    "FROM": "a stream or table", "JOIN": "a stream or table", "WHERE": "a condition", "HAVING": "a condition", "ON": "a condition",
    "LIMIT": "how many rows, a whole number", "WITHIN": "a duration, as in WITHIN 5 MINUTES",
}  # fmt: skip

OF_INTERVALS = {  # by the sign before the interval
    "+": "; a time later is TIMESTAMPADD(DAYS, 1, time), of a DATE DATEADD(DAYS, 1, date), of a TIME TIMEADD(HOURS, 1, time)",
    "-": "; a time before is TIMESTAMPSUB(DAYS, 1, time), of a DATE DATESUB(DAYS, 1, date), of a TIME TIMESUB(HOURS, 1, time)",
}

Fault = tuple[str, TextSpan]


def fault_of(error: SqlRefusedError, words: Sequence[Word], dialect: Dialect, implicit_aliases: Iterable[int]) -> Fault:
    """The message of an error of a statement, and where it is wrong."""
    if not isinstance(error, UnexpectedWordError):
        return str(error), error.span or TextSpan(words[0].start, words[-1].end)
    alias = error.place - 1
    if alias in implicit_aliases and (nearest := _nearest(words[alias], words[:alias], dialect)):
        if nearest != words[alias].key:
            return f"found {words[alias].text}; did you mean {nearest}?", words[alias].span
        if nearest in CLAUSES:  # and no operator such as AT, which was read as the alias that it is
            meant = difflib.get_close_matches(error.found.key, CLAUSES[nearest], 1, SIMILARITY)
            hint = f"; did you mean {meant[0]}?" if meant else ""
            return f"found {_shown(error.found)} behind {nearest}; {_partners(nearest)}{hint}", error.found.span
    nearest = _nearest(error.found, words[: error.place], dialect)
    hint = f"; did you mean {nearest}?" if nearest and nearest != error.found.key else _quoting_hint(error, words, dialect)
    expected = error.expected or _behind_statement(words[: error.place], dialect)
    return f"found {_shown(error.found)}; expected {expected}{hint or _other_spelling(error, words)}", error.found.span


def _other_spelling(error: UnexpectedWordError, words: Sequence[Word]) -> str:
    """How ksqlDB writes an operator that other SQL has."""
    around = [one.text for one in words[max(error.place - 1, 0) : error.place + 2]]
    if around[:2] == ["=", "="]:
        return "; equality is written a = b"
    if around[1:] == [":", ":"]:
        return "; a cast is written CAST(value AS type)"
    before = [one.key for one in words[max(error.place - 2, 0) : error.place]]
    if before[-1:] == ["INTERVAL"] and error.found.kind in ("text", "number"):
        return OF_INTERVALS.get(before[0], "")
    is_literal = before[-1:] and before[-1] in LITERALS and error.found.kind == "text" and error.expected not in NO_VALUES
    return _plain_literal(str(error.found.value), before[-1]) if is_literal else ""


def _plain_literal(text: str, type: str) -> str:
    """How a literal of a time is written: the ksql dialect has a T between the date and the time."""
    date, *time = text.split() or [""]
    written = _cut("T".join([date, "".join(time)]) if time else date).replace("'", "''")
    return f"; write '{written}' alone beside a {type}, else CAST('{written}' AS {type})"


def _nearest(word: Word, before: Sequence[Word], dialect: Dialect) -> str:
    """The keyword that could be behind some words and is most like the one that is there; empty if none is like it."""
    if word.kind != "name":
        return ""
    keywords = asked(before, dialect).keywords
    one_of_each = {unit for unit in MILLIS if f"{unit}S" in keywords}
    close = difflib.get_close_matches(word.key, sorted(keywords | one_of_each), 1, SIMILARITY)
    return close[0] if close else ""


def _partners(key: str) -> str:
    partners = CLAUSES[key]
    return f"expected {' or '.join(partners)}" if partners else f"expected {FOLLOWING[key]}"


def _behind_statement(before: Sequence[Word], dialect: Dialect) -> str:
    """The words that could go on here."""
    words = sorted(asked(before, dialect).keywords - OPERATORS - {"AS"})
    listed = [NEXT_WORDS.get(word, word) for word in words]
    return ", ".join(listed) + " or the end of the statement" if 0 < len(listed) <= LISTED_MAX else "the end of the statement"


def _quoting_hint(error: UnexpectedWordError, words: Sequence[Word], dialect: Dialect) -> str:
    """How a name or a text is written, if something else was."""
    word = error.found
    if word.text.startswith("&"):  # of other SQL
        return "; conditions are joined by AND"
    before = words[error.place - 1] if error.place else word
    if error.expected == "a value" and before.keyword in BEFORE_VALUES:
        return _in_backticks(before, dialect)
    if word.key == "FROM" and any(one.key == "SELECT" for one in words[: error.place]) and not _is_elsewhere(error, words):
        return ""  # it is that of the query, which lacks something before it
    wants_name, wants_text = "name" in error.expected or error.expected == "a value", "between quotes" in error.expected
    if wants_name and word.kind == "name" and (word.key in dialect.not_given or word.key in CLAUSES):
        return _in_backticks(word, dialect)
    if wants_name and word.kind == "text" and word.value:
        return f"; a name is written without quotes, or in backticks: `{_cut(str(word.value))}`"
    if wants_text and word.kind in ("name", "quoted"):
        return f"; a text is written '{_cut(_dotted(words, error.place).strip(chr(34)))}'"
    return ""


def _dotted(words: Sequence[Word], place: int) -> str:
    """The name at a place, with what points join to it, as names of settings have them."""
    found = words[place].text
    for before, word in pairwise(words[place:]):
        if word.start != before.end or "." not in (before.text, word.text):
            break
        found += word.text
    return found


def _is_elsewhere(error: UnexpectedWordError, words: Sequence[Word]) -> bool:
    return any(one.key == error.found.key for place, one in enumerate(words) if place != error.place)


def _in_backticks(word: Word, dialect: Dialect) -> str:
    return f"; write `{dialect.as_name(word.text)}` in backticks if it is a name"


def _shown(word: Word) -> str:
    if word.kind == "end":
        return "the end of the statement"
    return _cut(word.text)


def _cut(text: str) -> str:
    text = "".join(one if one.isprintable() else f"U+{ord(one):04X}" for one in " ".join(text.split()))
    return text if len(text) <= SHOWN_LENGTH else f"{text[: SHOWN_LENGTH - 1]}…"
