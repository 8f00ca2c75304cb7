"""Literals, as they are written in SQL."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence

from streamkit.decimals import DECIMAL_CONTEXT
from streamkit.expressions.sql.cursor import WordCursor
from streamkit.expressions.sql.dialect import Dialect
from streamkit.expressions.sql.refusal import SyntaxRefusedError, UnusableSqlError
from streamkit.expressions.sql.word import Word
from streamkit.plan.expression import Call, Cast, Expression, Literal, SuffixedNumber
from streamkit.plan.text_span import TextSpan

RANGES = {"": (-(2**63), 2**63), "bigint": (-(2**63), 2**63), "smallint": (-(2**15), 2**15), "tinyint": (-(2**7), 2**7)}
LITERAL_TYPES = {"DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamp", "TIMESTAMP_NTZ": "timestamp_ntz"}
INTERVAL_UNITS = "NANOSECOND MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH YEAR".split()  # noqa: SIM905
FLOAT_MAX = 3.4028235677973366e38

IsValue = Callable[[str, str], bool]  # whether a text is a value of a type


class LiteralReader(WordCursor):
    """
    Reads numbers, texts, intervals, and texts with a type before them.

    `places` has where each node of a tree is written, by its `id`.
    """

    def __init__(self, words: Sequence[Word], dialect: Dialect, is_value: IsValue) -> None:
        super().__init__(words, dialect)
        self.is_value = is_value
        self.places: dict[int, TextSpan] = {}
        self._nodes: list[Expression] = []  # held, so that no other node gets the id of one

    def made(self, node: Expression, start: int) -> Expression:
        """A node of the tree, written from a place in the text to before the word that is here."""
        self.places[id(node)] = TextSpan(start, self.words[self.place - 1].end)
        self._nodes.append(node)
        return node

    def _refused(self, message: str, *words: Word) -> SyntaxRefusedError:
        return SyntaxRefusedError(message, TextSpan(words[0].start, words[-1].end))

    def _unusable(self, message: str) -> UnusableSqlError:
        """The error that the word here belongs to something that cannot be used."""
        return UnusableSqlError(message, self.word.span)

    def _texts(self) -> str:
        """Texts side by side are one."""
        found = ""
        while self.word.kind == "text":
            found += self.move().value
        return found

    def _number(self, start: int, sign: int) -> Expression:
        word = self.move()
        type, value = word.value
        if type in RANGES:
            return self.made(self._whole_number(word, type, sign * value), start)
        if type == "decimal":
            return self.made(Literal(self._checked_decimal(value.copy_negate() if sign < 0 and value else value, word)), start)
        if math.isinf(value) or (type == "float" and value > FLOAT_MAX):
            raise self._refused(f"{word.text} does not fit into {type}", word)
        found = Cast(Literal(f"{'-' * (sign < 0)}{word.text[:-1]}"), type) if type == "float" else Literal(sign * value)
        return self.made(found, start)

    def _whole_number(self, word: Word, type: str, number: int) -> Expression:
        low, high = RANGES[type]
        if low <= number < high:
            return SuffixedNumber(Literal(number), type) if type else Literal(number)
        if type or self.dialect.has_arrows:
            raise self._refused(f"{word.text} does not fit into {type or 'BIGINT'}", word)
        return Literal(self._checked_decimal(decimal.Decimal(number), word))

    def _checked_decimal(self, value: decimal.Decimal, word: Word) -> decimal.Decimal:
        _sign, digits, exponent = value.as_tuple()
        if max(len(digits) + max(int(exponent), 0), -int(exponent)) > 38:
            raise self._refused(
                f"{word.text} has more than 38 digits; write it as double: {word.text}{self._double_suffix}", word
            )
        return value

    @property
    def _double_suffix(self) -> str:
        return "E0" if self.dialect.has_arrows else "D"

    def _typed_literal(self, type: str, start: int) -> Expression:
        """A constant of a type as a text, which must be one."""
        word = self.move()
        if not self.is_value(word.value, type):
            raise self._refused(f"{word.text} is no {type}", word)
        return self.made(Cast(Literal(word.value), type), start)

    def _decimal_text(self, start: int) -> Expression:
        """`DECIMAL '1.5'`."""
        self.move()
        word = self.move()
        try:
            value = decimal.Decimal(word.value.strip(), DECIMAL_CONTEXT)
        except decimal.InvalidOperation:
            value = decimal.Decimal("NaN")
        if not value.is_finite():
            raise self._refused(f"{word.text} is no decimal", word)
        return self.made(Literal(self._checked_decimal(value, word)), start)

    def _interval(self) -> Expression:
        """An interval as texts and units in turn; the unit is empty where a text spells them itself."""
        first = self.move()
        if self.word.kind == "text" and self._unit(self.ahead()) is None:
            return self.made(Call("interval", (self._literal(self.move()),)), first.start)
        begin = self.word
        parts = [self._amount()]
        while self._begins_amount():
            parts.append(self._amount())
        if len(parts) == 1:
            return self.made(Call("interval", tuple(map(Literal, parts[0]))), first.start)
        if any(" TO " in unit for _, unit in parts):
            raise self._refused("an interval from one unit TO another stands alone", begin, self.words[self.place - 1])
        text = " ".join(f"{amount} {unit}" for amount, unit in parts)
        return self.made(Call("interval", (Literal(text),)), first.start)

    def _literal(self, word: Word) -> Expression:
        return self.made(Literal(word.value), word.start)

    def _amount(self) -> tuple[str, str]:
        """A number or a text, and its unit."""
        sign = self.move().text.strip("+") if self.is_at("-", "+") else ""
        if not self._is_amount(self.word):
            raise self._unusable(
                "an interval must be a constant with a unit, such as INTERVAL 1 DAY; a column of that name is written `interval`, in backticks"
            )
        word = self.move()
        unit = self._expected_unit("a unit, such as DAY")
        if self.took("TO"):
            unit = f"{unit} TO {self._expected_unit('a unit, such as SECOND')}"
        amount = str(word.value).strip() if word.kind == "text" else word.text
        return (amount.removeprefix("-") if sign and amount.startswith("-") else f"{sign}{amount}"), unit

    def _expected_unit(self, expected: str) -> str:
        unit = self._unit(self.word)
        if unit is None:
            raise self.unexpected(expected)
        self.move()
        return unit

    def _begins_amount(self) -> bool:
        """Whether a further amount begins here; without a unit it is an operand."""
        signed = self.is_at("-", "+")
        return self._is_amount(self.ahead(signed)) and self._unit(self.ahead(1 + signed)) is not None

    @staticmethod
    def _is_amount(word: Word) -> bool:
        return word.kind == "text" or (word.kind == "number" and word.value[0] in ("", "decimal") and word.text[-1].isdigit())

    @staticmethod
    def _unit(word: Word) -> str | None:
        """The unit that a word is, without the S of a plural."""
        unit = word.keyword if word.keyword in INTERVAL_UNITS else word.keyword.removesuffix("S")
        return unit if unit in INTERVAL_UNITS else None
