"""
What `--where` and `where=` say, as a condition: comparisons of columns, joined by and, or, not, in SQL's three-valued logic.

    condition   := conjunction { OR conjunction }
    conjunction := negation { AND negation }
    negation    := NOT negation | '(' condition ')' | COLUMN | operand test
    test        := (= | == | != | <> | < | <= | > | >=) operand | IS [NOT] NULL
                 | [NOT] IN '(' literal {, literal} ')' | [NOT] BETWEEN literal AND literal | [NOT] LIKE text
    operand     := COLUMN | `COLUMN` | literal
    literal     := number | 'text' | "text" | TRUE | FALSE

Anything else is refused. Times and dates are written as texts, in ISO 8601; bytes are compared with a text's UTF-8.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.decimals import DECIMAL_CONTEXT, power_of_ten
from streamkit.errors import ConfigError
from streamkit.query.condition import COMPARISONS, QueryCondition, compared
from streamkit.query.moment import parse_moment

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<name>[A-Za-z_][\w$]*|`(?:[^`]|``)+`)|(?P<sign><=|>=|==|!=|<>|[=<>(),]))"
)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WORDS = frozenset(("and", "or", "not", "is", "null", "in", "between", "like", "true", "false"))
_KNOWN = "known are = != < <= > >=, IS NULL, IN (…), BETWEEN, LIKE, AND, OR, NOT and brackets"


@dataclass(frozen=True)
class _PredicateWord:
    """A part of the text, of one kind: number, text, name, word, sign or end."""

    kind: str
    value: str
    position: int


def parse_predicate(text: str, schema: pa.Schema) -> QueryCondition:
    """The condition that a text means for rows of this schema; ConfigError says where it cannot be understood, and what can."""
    parser = _Parser(text, schema)
    found = parser.condition()
    if parser.next.kind != "end":
        parser.refuse("the end, AND or OR")
    return found


class _Parser:
    """Reads a text from left to right; `next` is the token that has not been taken yet."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self._tokens = _tokens(text)
        self.next = self._tokens.pop(0)

    def condition(self) -> QueryCondition:
        found = self._conjunction()
        while self._takes("or"):
            found = found | self._conjunction()
        return found

    def _conjunction(self) -> QueryCondition:
        found = self._negation()
        while self._takes("and"):
            found = found & self._negation()
        return found

    def _negation(self) -> QueryCondition:
        if self._takes("not"):
            return ~self._negation()
        if self._takes("("):
            found = self.condition()
            self._expect(")")
            return found
        return self._test()

    def _test(self) -> QueryCondition:
        if self.next.kind != "name":
            return self._mirrored()
        column = self._column()
        if self.next.value in COMPARISONS:
            return self._comparison(column)
        if self._takes("is"):
            is_null = not self._takes("not")
            self._expect("null")
            return QueryCondition(pc.field(column).is_null() if is_null else pc.field(column).is_valid())
        is_negated = self._takes("not")
        if self._takes("in"):
            found = self._membership(column)
        elif self._takes("between"):
            found = self._range(column)
        elif self._takes("like"):
            found = self._pattern(column)
        elif not is_negated and pa.types.is_boolean(self._type(column)):
            return QueryCondition(pc.field(column))
        else:
            self.refuse("a comparison")
        return ~found if is_negated else found

    def _mirrored(self) -> QueryCondition:
        """A comparison that begins with its literal."""
        literal = self._literal()
        sign = self._take()
        if sign.value not in COMPARISONS or self.next.kind != "name":
            self.refuse("a comparison with a column")
        return self._compared(self._column(), _MIRRORED.get(sign.value, sign.value), literal)

    def _comparison(self, column: str) -> QueryCondition:
        sign = self._take().value
        if self.next.kind != "name":
            return self._compared(column, sign, self._literal())
        other = self._column()
        types = (self._type(column), self._type(other))
        if pa.types.is_nested(types[0]) or pa.types.is_nested(types[1]):
            nested = column if pa.types.is_nested(types[0]) else other
            raise ConfigError(f"the condition compares {nested}, which is {self._type(nested)}; {_wanted(self._type(nested))}")
        if types[0] == types[1]:
            return QueryCondition(COMPARISONS[sign](pc.field(column), pc.field(other)))
        if not all(_is_number(found) for found in types):
            raise ConfigError(
                f"the condition compares {column} ({types[0]}) with {other} ({types[1]}); expected columns of one type"
            )
        return QueryCondition(COMPARISONS[sign](_as_double(column), _as_double(other)))

    def _compared(self, column: str, sign: str, literal: _PredicateWord) -> QueryCondition:
        value = self._value(literal, column)
        is_mixed = pa.types.is_integer(self._type(column)) and pa.types.is_floating(value.type)
        return compared(column, _as_double(column) if is_mixed else pc.field(column), sign, value)

    def _membership(self, column: str) -> QueryCondition:
        self._expect("(")
        found = self._compared(column, "=", self._literal())
        while self._takes(","):
            found = found | self._compared(column, "=", self._literal())
        self._expect(")")
        return found

    def _range(self, column: str) -> QueryCondition:
        least = self._compared(column, ">=", self._literal())
        self._expect("and")
        return least & self._compared(column, "<=", self._literal())

    def _pattern(self, column: str) -> QueryCondition:
        if not _is_text(self._type(column)):
            raise ConfigError(
                f"the condition asks what {column} is like, which is {self._type(column)}; expected a column of texts"
            )
        if self.next.kind != "text":
            self.refuse("a pattern such as 'N1%'")
        return QueryCondition(pc.match_like(pc.field(column), pattern=_unquoted(self._take().value)))

    def _column(self) -> str:
        name = _unquoted(self._take().value)
        if name not in self._schema.names:
            raise ConfigError(f"the condition names the column {name!r}; the topic has {', '.join(self._schema.names)}")
        return name

    def _type(self, column: str) -> pa.DataType:
        return self._schema.field(column).type

    def _literal(self) -> _PredicateWord:
        if self.next.kind not in ("number", "text") and self.next.value not in ("true", "false"):
            self.refuse("a number, a text in quotes, true or false")
        return self._take()

    def _value(self, token: _PredicateWord, column: str) -> pa.Scalar:
        """A literal in the type of the column it is compared with."""
        kind = self._type(column)
        for is_kind, expected, read in _LITERALS:
            if is_kind(kind) and token.kind == expected:
                return read(token.value, kind)
        raise ConfigError(f"the condition compares {column}, which is {kind}, with {token.value}; {_wanted(kind)}")

    def _takes(self, value: str) -> bool:
        """Take the next token if it is this word or sign."""
        is_next = self.next.kind in ("word", "sign") and self.next.value == value
        if is_next:
            self._take()
        return is_next

    def _expect(self, value: str) -> None:
        if not self._takes(value):
            self.refuse(value.upper())

    def _take(self) -> _PredicateWord:
        token, self.next = self.next, self._tokens.pop(0) if self._tokens else self.next
        return token

    def refuse(self, expected: str) -> Any:
        found = self.next.value or "nothing more"
        raise ConfigError(
            f"the condition {self._text!r}: found {found!r} at position {self.next.position}, expected {expected}; {_KNOWN}"
        )


def _tokens(text: str) -> list[_PredicateWord]:
    tokens, position = [], 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            position += len(text[position:]) - len(text[position:].lstrip())
            raise ConfigError(f"the condition {text!r}: cannot read {text[position]!r} at position {position}; {_KNOWN}")
        kind, value = str(match.lastgroup), match[str(match.lastgroup)]
        if kind == "name" and value.lower() in _WORDS:
            kind, value = "word", value.lower()
        tokens.append(_PredicateWord(kind, value, match.start(str(match.lastgroup))))
        position = match.end()
    return [*tokens, _PredicateWord("end", "", len(text))]


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote) if quote in "'\"`" else text


def _as_double(column: str) -> pc.Expression:
    """A column of numbers as doubles, in which numbers of all types can be compared; those past 2 to the 53 are rounded."""
    return pc.field(column).cast(pa.float64(), safe=False)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _number(text: str, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_decimal(kind):
        return _decimal(text, kind)
    if pa.types.is_integer(kind) and len(text) <= 20 and text.lstrip("+-").isdecimal() and -(1 << 63) <= int(text) < 1 << 63:
        return pa.scalar(int(text), pa.int64())
    return pa.scalar(float(text))


def _decimal(text: str, kind: pa.DataType) -> pa.Scalar:
    """The number, or one with few digits that lies as it does between all those that the column can have."""
    try:
        exact = decimal.Decimal(text, DECIMAL_CONTEXT)
    except decimal.InvalidOperation:
        raise ConfigError(f"the condition has the number {text}; expected one with an exponent of at most 18 digits") from None
    limit = power_of_ten(kind.precision - kind.scale)
    number = min(max(exact, limit.copy_negate()), limit)
    below = number.quantize(power_of_ten(-kind.scale), decimal.ROUND_FLOOR, DECIMAL_CONTEXT)
    half = decimal.Decimal((0, (5,), -kind.scale - 1))
    found = below if below == number else DECIMAL_CONTEXT.add(below, half)
    return pa.scalar(found, pa.decimal256(kind.precision + 2, kind.scale + 1))


def _date(text: str, kind: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(dt.date.fromisoformat(_unquoted(text)))
    except ValueError:
        raise ConfigError(f"the condition has the date {text}; expected one such as '2026-01-31'") from None


def _time(text: str, kind: pa.DataType) -> pa.Scalar:
    moment = parse_moment(_unquoted(text))
    return pa.scalar(moment if kind.tz else moment.replace(tzinfo=None), pa.timestamp("us", tz=kind.tz))


_LITERALS: tuple[tuple[Callable[[pa.DataType], bool], str, Callable[[str, pa.DataType], pa.Scalar]], ...] = (
    (_is_number, "number", _number),
    (pa.types.is_string, "text", lambda text, kind: pa.scalar(_unquoted(text))),
    (pa.types.is_binary, "text", lambda text, kind: pa.scalar(_unquoted(text).encode())),
    (pa.types.is_boolean, "word", lambda text, kind: pa.scalar(text == "true")),
    (pa.types.is_date, "text", _date),
    (pa.types.is_timestamp, "text", _time),
)


def _wanted(kind: pa.DataType) -> str:
    for is_kind, wanted in (
        (_is_number, "a number"),
        (_is_text, "a text in quotes"),
        (pa.types.is_boolean, "true or false"),
        (pa.types.is_date, "a date such as '2026-01-31'"),
        (pa.types.is_timestamp, "a time such as '2026-01-31T12:00:00Z'"),
    ):
        if is_kind(kind):
            return f"expected {wanted}"
    return "columns of that type cannot be compared"
