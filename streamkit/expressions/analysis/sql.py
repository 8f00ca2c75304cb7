"""
Spark SQL as text, read into the tree that the same expression has in Python.

sqlglot's Spark dialect cuts the text into words (`sql_words`). Its parser is not used: it takes what dozens of dialects allow, drops words that are
missing (`CASE WHEN a b END`), and has other levels of precedence than Spark: `||` beside `+`, one level each for `&`, `^` and `|`, one level for all
comparisons. Here stand Spark's own rules, by which anything else is a syntax error. Words that mean something in an expression are no names of
columns unless they stand in backticks, though Spark would guess.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import pyarrow as pa

from streamkit.data_type import normalise_type
from streamkit.errors import EvaluationError, Location, SchemaError, TopologyError, UnsupportedExpressionError
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.analysis.sql_words import SyntaxRefusedError, Word, words
from streamkit.plan.dotted_name import part
from streamkit.plan.expression import Alias, Call, Cast, Expression, Lambda, Literal, Reference, SuffixedNumber, TypedExpression
from streamkit.plan.expression_size import TOO_DEEP

RESERVED = frozenset(
    [
        "ALL",
        "AND",
        "ANY",
        "AS",
        "BETWEEN",
        "CASE",
        "DISTINCT",
        "DIV",
        "ELSE",
        "END",
        "ESCAPE",
        "EXISTS",
        "FALSE",
        "FROM",
        "ILIKE",
        "IN",
        "INTERVAL",
        "IS",
        "LIKE",
        "NOT",
        "NULL",
        "OR",
        "OVER",
        "REGEXP",
        "RLIKE",
        "SELECT",
        "SOME",
        "THEN",
        "TRUE",
        "WHEN",
        "WITH",
    ]
)
LEVELS: tuple[dict[str, str], ...] = (  # from loose to tight; all are left-associative
    {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "<=>": "eq_null_safe"},
    {"|": "bitwise_or"},
    {"^": "bitwise_xor"},
    {"&": "bitwise_and"},
    {"<<": "shiftleft", ">>": "shiftright", ">>>": "shiftrightunsigned"},
    {"+": "add", "-": "subtract", "||": "concat"},
    {"*": "multiply", "/": "divide", "%": "remainder", "DIV": "div"},
)
_EMPTY_ROW = pa.record_batch([pa.array([0])], names=["_"])
UNARY = {"-": "negate", "+": "positive", "~": "bitwise_not"}
RANGES = {"": (-(2**63), 2**63), "bigint": (-(2**63), 2**63), "smallint": (-(2**15), 2**15), "tinyint": (-(2**7), 2**7)}
ALSO_FUNCTIONS = ("ANY", "SOME", "EXISTS", "LIKE", "ILIKE", "RLIKE", "REGEXP")  # keywords that may be called
LITERAL_TYPES = {"DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamp", "TIMESTAMP_NTZ": "timestamp_ntz"}
UNITS = "YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND".split()  # noqa: SIM905
INTERVAL_UNITS = "NANOSECOND MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH YEAR".split()  # noqa: SIM905
WITH_UNIT = {
    "TIMESTAMPADD": "timestampadd", "DATEADD": "timestampadd", "DATE_ADD": "timestampadd", "TIMESTAMPDIFF": "timestampdiff",
    "DATEDIFF": "timestampdiff", "DATE_DIFF": "timestampdiff", "TIMEDIFF": "timestampdiff",
}  # fmt: skip
TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
CASTS = {  # types that may be called as functions
    name: normalise_type(name)
    for name in [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "decimal",
        "date",
        "timestamp",
        "binary",
        "string",
    ]
}
ROW_ONLY = "an expression sees the row only, not a subquery; join with a table instead"
STAR = '* cannot be used; name the columns one by one, as in struct(a, b); select("*") and select("column.*") take a text of their own'
PLAIN = "an aggregate must not be DISTINCT or have a FILTER; expected it plain: count_distinct(…) for DISTINCT, count_if(…) or a when in it for FILTER"


class _RefusedSqlError(ValueError):
    """The text is Spark SQL that cannot be used here."""


def parse_sql(text: str, at: Location | None = None) -> Expression:
    """The expression that the text is; TopologyError if it is no Spark SQL, UnsupportedExpressionError if it cannot be used here."""
    if not isinstance(text, str) or not text.strip():
        raise TopologyError(f"an SQL expression must be a text that is not empty; found {text!r}", at)
    try:
        return _parsed(text)
    except SyntaxRefusedError as error:
        raise TopologyError(f"syntax error: {error}, in {text}", at) from None
    except _RefusedSqlError as error:
        raise UnsupportedExpressionError(f"{error}, in {text}", at) from None
    except SchemaError as error:
        raise TopologyError(f"{error}, in {text}", at) from None
    except RecursionError:
        raise TopologyError(f"{TOO_DEEP}; found {text[:200]} …", at) from None


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Expression:
    return _WordReader(text).whole()


class _WordReader:
    """A place in the words of a text; each method reads what its name says, and moves behind it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = words(text)
        self._place = 0

    @property
    def _word(self) -> Word:
        return self._words[self._place]

    def _ahead(self, count: int = 1) -> Word:
        return self._words[min(self._place + count, len(self._words) - 1)]

    def _next(self) -> Word:
        word = self._word
        self._place += word.kind != "end"
        return word

    def _is(self, *expected: str) -> bool:
        """Whether a sign or keyword stands here."""
        return (self._word.text if self._word.kind == "sign" else self._word.keyword) in expected

    def _took(self, *expected: str) -> bool:
        found = self._is(*expected)
        self._place += found
        return found

    def _expect(self, *expected: str) -> None:
        if not self._took(*expected):
            raise self._unexpected(" or ".join(expected))

    def _unexpected(self, expected: str) -> SyntaxRefusedError:
        word = self._word
        hint = ""
        if word.keyword in RESERVED:
            hint = f" (a column of that name stands in backticks: `{word.text}`)"
        elif word.kind in ("name", "quoted") and self._place:
            hint = " (a name for the result stands behind AS)"
        return SyntaxRefusedError(f"found {word.text} at character {word.start + 1}{hint}; expected {expected}")

    def whole(self) -> Expression:
        """The whole text, with the name it gives its result."""
        expression = self._named()
        if self._word.kind != "end":
            raise self._unexpected("an operator or the end")
        return expression

    def _named(self) -> Expression:
        expression = self._expression()
        return Alias(expression, self._name()) if self._took("AS") else expression

    def _name(self) -> str:
        word = self._word
        if word.kind == "quoted":
            return str(self._next().value)
        if word.kind != "name" or word.keyword in RESERVED:
            raise self._unexpected("a name")
        return self._next().text

    def _expression(self) -> Expression:
        return self._joined("OR", "or", lambda: self._joined("AND", "and", self._negated))

    def _joined(self, keyword: str, function: str, part: Callable[[], Expression]) -> Expression:
        parts = [part()]
        while self._took(keyword):
            parts.append(part())
        return _halved(function, parts)

    def _negated(self) -> Expression:
        if self._took("NOT", "!"):
            return Call("not", (self._negated(),))
        if self._is("EXISTS") and self._ahead().text == "(" and self._ahead(2).keyword in ("SELECT", "WITH"):
            raise _RefusedSqlError(ROW_ONLY)
        value = self._value()
        return self._predicate(value)

    def _predicate(self, value: Expression) -> Expression:
        """What may stand once behind a value: BETWEEN, IN, LIKE, IS …"""
        if self._took("IS"):
            return self._is_predicate(value)
        negated = self._is("NOT", "!") and self._ahead().keyword in ("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP")
        self._place += negated
        if self._took("BETWEEN"):
            lower = self._value()
            self._expect("AND")
            found: Expression = Call("between", (value, lower, self._value()))
        elif self._took("IN"):
            found = self._in(value)
        elif self._took("RLIKE", "REGEXP"):
            found = Call("rlike", (value, self._value()))
        elif self._is("LIKE", "ILIKE"):
            return self._like(value, self._next().keyword.lower(), negated)
        else:
            return value
        return Call("not", (found,)) if negated else found

    def _is_predicate(self, value: Expression) -> Expression:
        negated = self._took("NOT", "!")
        if self._took("NULL"):
            return Call("isnotnull" if negated else "isnull", (value,))
        if self._took("DISTINCT"):
            self._expect("FROM")
            same = Call("eq_null_safe", (value, self._value()))
            return same if negated else Call("not", (same,))
        if self._is("UNKNOWN"):
            raise _RefusedSqlError("IS UNKNOWN cannot be used; write IS NULL")
        if not self._is("TRUE", "FALSE"):
            raise self._unexpected("NULL, TRUE, FALSE or DISTINCT FROM")
        found = Call("eq_null_safe", (value, Literal(self._next().keyword == "TRUE")))
        return Call("not", (found,)) if negated else found

    def _in(self, value: Expression) -> Expression:
        self._expect("(")
        if self._is("SELECT", "WITH"):
            raise _RefusedSqlError(ROW_ONLY)
        members = self._listed(self._expression)
        return Call("in", (value, *members))

    def _like(self, value: Expression, function: str, negated: bool) -> Expression:
        if self._is("ANY", "SOME", "ALL"):
            return self._like_many(value, function, negated)
        arguments = [value, self._value()]
        if self._took("ESCAPE"):
            if self._word.kind != "text" or len(self._word.value) != 1:
                raise self._unexpected("one character between quotes")
            arguments.append(Literal(self._next().value))
        found = Call(function, tuple(arguments))
        return Call("not", (found,)) if negated else found

    def _like_many(self, value: Expression, function: str, negated: bool) -> Expression:
        joint = "and" if self._next().keyword == "ALL" else "or"
        self._expect("(")
        likes: list[Expression] = [Call(function, (value, pattern)) for pattern in self._listed(self._expression)]
        found, *rest = [Call("not", (like,)) for like in likes] if negated else likes
        for one in rest:
            found = Call(joint, (found, one))
        return found

    def _listed(self, read: Callable[[], Expression]) -> list[Expression]:
        """Parts between commas, up to the closing parenthesis."""
        found = [read()]
        while self._took(","):
            found.append(read())
        self._expect(")")
        return found

    def _value(self, level: int = 0) -> Expression:
        if level == len(LEVELS):
            return self._signed()
        found = self._value(level + 1)
        while self._is(*LEVELS[level]):
            word = self._next()
            found = Call(LEVELS[level][word.keyword or word.text], (found, self._value(level + 1)))
        return found

    def _signed(self) -> Expression:
        if self._is("-") and self._ahead().kind == "number":
            self._next()
            return self._with_parts(self._number(-1))
        if self._is(*UNARY):
            return Call(UNARY[self._next().text], (self._signed(),))
        return self._with_parts(self._primary())

    def _with_parts(self, found: Expression) -> Expression:
        """Fields, elements and casts behind an expression."""
        while True:
            if self._took("."):
                if self._is("*"):
                    raise _RefusedSqlError(STAR)
                name = self._name()
                found = (
                    Reference(f"{found.name}.{part(name)}")
                    if isinstance(found, Reference)
                    else Call("get_field", (found, Literal(name)))
                )
            elif self._took("["):
                found = Call("get_item", (found, self._value()))
                self._expect("]")
            elif self._took("::"):
                found = _cast(found, self._type())
            elif self._is(":"):
                raise _RefusedSqlError("a path into a variant (:) cannot be used; read JSON by get_json_object or from_json")
            elif self._is("COLLATE"):
                raise _RefusedSqlError("COLLATE cannot be used; texts compare by their bytes")
            else:
                return found

    def _primary(self) -> Expression:
        word = self._word
        match word.kind:
            case "number":
                return self._number(1)
            case "text":
                return Literal(self._texts())
            case "bytes":
                return Literal(self._next().value)
            case "sign":
                return self._parenthesised() if word.text == "(" else self._strange()
            case "end":
                raise self._unexpected("a value")
        return self._of_keyword(word.keyword) or self._call_or_column()

    def _strange(self) -> Expression:
        if self._is("*"):
            raise _RefusedSqlError(STAR)
        if self._is("?", ":"):
            raise _RefusedSqlError("parameters (? and :name) cannot be used; write the value, or build the column in Python")
        raise self._unexpected("a value")

    def _texts(self) -> str:
        """Texts side by side are one."""
        found = ""
        while self._word.kind == "text":
            found += self._next().value
        return found

    def _number(self, sign: int) -> Expression:
        word = self._next()
        type, value = word.value
        number = sign * value
        if type in RANGES:
            low, high = RANGES[type]
            if not low <= number < high:
                if type:
                    raise SyntaxRefusedError(f"{word.text} does not fit into {type}")
                return Literal(_checked_decimal(decimal.Decimal(number), word.text))
            return Literal(number) if not type else SuffixedNumber(Literal(number), type)
        if type == "decimal":
            return Literal(_checked_decimal(-value if sign < 0 else value, word.text))
        if math.isinf(value) or (type == "float" and value > 3.4028235677973366e38):
            raise SyntaxRefusedError(f"{word.text} does not fit into {type}")
        return Cast(Literal(f"{'-' * (sign < 0)}{word.text[:-1]}"), type) if type == "float" else Literal(sign * value)

    def _parenthesised(self) -> Expression:
        if self._is_lambda_with_parentheses():
            raise _RefusedSqlError("a lambda stands only as an argument of a function")
        self._expect("(")
        if self._is("SELECT", "WITH", "VALUES"):
            raise _RefusedSqlError(ROW_ONLY)
        parts = self._listed(self._named)
        if len(parts) > 1:
            return Call("struct", tuple(parts))
        if isinstance(parts[0], Alias):
            raise SyntaxRefusedError(f"found AS {parts[0].name} within parentheses; expected a name only for the whole")
        return parts[0]

    def _of_keyword(self, keyword: str) -> Expression | None:
        """What begins with a keyword; None if this word is a name."""
        following = self._ahead()
        if keyword in ("TRUE", "FALSE", "NULL"):
            self._next()
            return Literal({"TRUE": True, "FALSE": False, "NULL": None}[keyword])
        if keyword == "CASE":
            return self._case()
        if keyword == "INTERVAL" and following.text != "(":
            return self._interval()
        if keyword in LITERAL_TYPES and following.kind == "text":
            self._next()
            return _typed_literal(LITERAL_TYPES[keyword], self._next())
        if following.kind == "text" and keyword == "TIME":
            raise _RefusedSqlError("a time of day cannot be used")
        if keyword in RESERVED and not (keyword in ALSO_FUNCTIONS and following.text == "("):
            raise self._unexpected("a value")
        return None

    def _case(self) -> Expression:
        self._expect("CASE")
        subject = None if self._is("WHEN") else self._expression()
        arguments: list[Expression] = []
        while self._took("WHEN"):
            condition = self._expression()
            self._expect("THEN")
            arguments += [condition if subject is None else Call("eq", (subject, condition)), self._expression()]
        if not arguments:
            raise self._unexpected("WHEN")
        if self._took("ELSE"):
            arguments.append(self._expression())
        self._expect("END")
        return Call("when", tuple(arguments))

    def _interval(self) -> Expression:
        """An interval as texts and units in turn; the unit is empty where a text spells them itself."""
        self._expect("INTERVAL")
        if self._word.kind == "text" and self._unit(self._ahead()) is None:
            return Call("interval", (Literal(self._next().value),))
        parts = [self._amount()]
        while self._begins_amount():
            parts.append(self._amount())
        if len(parts) == 1:
            return Call("interval", tuple(map(Literal, parts[0])))
        if any(" TO " in unit for _, unit in parts):
            raise SyntaxRefusedError("an interval from one unit TO another stands alone")
        return Call("interval", (Literal(" ".join(f"{amount} {unit}" for amount, unit in parts)),))

    def _amount(self) -> tuple[str, str]:
        """A number or a text, and its unit."""
        sign = self._next().text.strip("+") if self._is("-", "+") else ""
        if not self._is_amount(self._word):
            raise _RefusedSqlError("an interval must be a constant with a unit, such as INTERVAL 1 DAY")
        word = self._next()
        unit = self._unit(self._word)
        if unit is None:
            raise self._unexpected("a unit, such as DAY")
        self._next()
        if self._took("TO"):
            last = self._unit(self._word)
            if last is None:
                raise self._unexpected("a unit, such as SECOND")
            self._next()
            unit = f"{unit} TO {last}"
        amount = str(word.value).strip() if word.kind == "text" else word.text
        return (amount.removeprefix("-") if sign and amount.startswith("-") else f"{sign}{amount}"), unit

    def _begins_amount(self) -> bool:
        """Whether a further amount stands here; without a unit it is an operand."""
        signed = self._is("-", "+")
        return self._is_amount(self._ahead(signed)) and self._unit(self._ahead(1 + signed)) is not None

    @staticmethod
    def _is_amount(word: Word) -> bool:
        return word.kind == "text" or (word.kind == "number" and word.value[0] in ("", "decimal") and word.text[-1].isdigit())

    @staticmethod
    def _unit(word: Word) -> str | None:
        """The unit that a word is, without the S of a plural."""
        unit = word.keyword if word.keyword in INTERVAL_UNITS else word.keyword.removesuffix("S")
        return unit if unit in INTERVAL_UNITS else None

    def _call_or_column(self) -> Expression:
        if self._ahead().text == "->" and self._ahead().kind == "sign":
            raise _RefusedSqlError("a lambda stands only as an argument of a function")
        if self._ahead().text == "(" and self._ahead().kind == "sign":
            return self._call()
        return Reference(self._name())

    def _call(self) -> Expression:
        word = self._next()
        name = word.value if word.kind == "quoted" else word.text.lower()
        self._expect("(")
        if self._is("DISTINCT"):
            raise _RefusedSqlError(PLAIN)
        special = _SPECIAL.get(word.keyword)
        found = special(self) if special else None
        if found is None:
            found = self._plain_call(name.lower())
        self._refuse_behind_call()
        return found

    def _plain_call(self, name: str) -> Expression:
        if self._took(")"):
            return Call(name, ())
        if name == "count" and self._is("*") and self._ahead().text == ")":
            self._place += 2
            return Call(name, (Literal(1),))
        argument = self._named if name == "struct" else self._argument
        arguments = tuple(self._listed(argument))
        if name in CASTS and len(arguments) == 1:
            return _cast(arguments[0], CASTS[name])
        if name in ("max_by", "min_by") and len(arguments) == 3:
            return Call("top_k" if name == "max_by" else "bottom_k", (arguments[0], arguments[2], arguments[1]))
        if name in ("trim", "ltrim", "rtrim") and len(arguments) == 2:
            arguments = arguments[::-1]  # SQL has the characters first, Python last
        return Call(name, arguments)

    def _refuse_behind_call(self) -> None:
        following = self._ahead().text
        if self._is("OVER"):
            raise _RefusedSqlError("it has a window over other rows (OVER); use windowed_by() on groups")
        if self._is("FILTER") and following == "(":
            raise _RefusedSqlError(PLAIN)
        if (self._is("IGNORE", "RESPECT") and following.upper() == "NULLS") or (
            self._is("WITHIN") and following.upper() == "GROUP"
        ):
            raise _RefusedSqlError(f"{self._word.text} {following} cannot be used")

    def _argument(self) -> Expression:
        """A value or a lambda."""
        if self._word.kind in ("name", "quoted") and self._ahead().text == "->":
            names = [self._name()]
            self._expect("->")
            return Lambda(tuple(names), self._expression())
        if self._is_lambda_with_parentheses():
            self._expect("(")
            names = [self._name()]
            while self._took(","):
                names.append(self._name())
            self._expect(")")
            self._expect("->")
            return Lambda(tuple(names), self._expression())
        if self._ahead().text == "=>":
            raise _RefusedSqlError("arguments by name (=>) cannot be used; write them in their order")
        return self._expression()

    def _is_lambda_with_parentheses(self) -> bool:
        if not self._is("("):
            return False
        place = 1
        while self._ahead(place).kind in ("name", "quoted") and self._ahead(place + 1).text == ",":
            place += 2
        return (
            place > 1
            and self._ahead(place).kind in ("name", "quoted")
            and (self._ahead(place + 1).text, self._ahead(place + 2).text) == (")", "->")
        )

    def _cast_call(self, safe: bool) -> Expression:
        value = self._expression()
        self._expect("AS")
        type = self._type()
        self._expect(")")
        return Call("try_cast", (value, Literal(type))) if safe else _cast(value, type)

    def _type(self) -> str:
        """A data type: a word, with what stands between < and > or parentheses behind it."""
        start = self._word.start
        if self._word.kind != "name":
            raise self._unexpected("a type")
        nests = self._is("ARRAY", "MAP", "STRUCT")
        end = self._next().end
        if self._is("<" if nests else "("):
            end = self._behind("<", ">") if nests else self._behind("(", ")")
        return normalise_type(self._text[start:end])

    def _behind(self, opening: str, closing: str) -> int:
        """Move behind what an opening sign encloses; where that is."""
        depth = 0
        while True:
            word = self._next()
            if word.kind == "end":
                raise SyntaxRefusedError(f"found no {closing} for {opening}")
            if word.kind == "sign":
                depth += word.text.count(opening) - word.text.count(closing)
            if depth <= 0:
                return word.end

    def _extract(self) -> Expression | None:
        if self._ahead().keyword != "FROM":
            return None
        name = self._name()
        self._expect("FROM")
        return self._closed(Call("extract", (Literal(name), self._value())))

    def _closed(self, found: Expression) -> Expression:
        self._expect(")")
        return found

    def _position(self) -> Expression | None:
        return self._tried("IN", lambda part: Call("locate", (part, self._value())))

    def _tried(self, keyword: str, finish: Callable[[Expression], Expression]) -> Expression | None:
        """A call whose first argument ends at a keyword; None, back where it began, if it ends at something else."""
        place = self._place
        if self._is(")"):
            return None
        first = self._value()
        if not self._took(keyword):
            self._place = place
            return None
        return self._closed(finish(first))

    def _substring(self) -> Expression | None:
        def finish(text: Expression) -> Expression:
            start = self._value()
            return Call("substring", (text, start, *([self._value()] if self._took("FOR", ",") else [])))

        return self._tried("FROM", finish)

    def _overlay(self) -> Expression | None:
        def finish(text: Expression) -> Expression:
            replacement = self._value()
            self._expect("FROM")
            start = self._value()
            return Call("overlay", (text, replacement, start, *([self._value()] if self._took("FOR") else [])))

        return self._tried("PLACING", finish)

    def _trim(self) -> Expression | None:
        if self._is(*TRIMS) and self._ahead().text not in (",", ")"):
            name = TRIMS[self._next().keyword]
            characters = () if self._is("FROM") else (self._value(),)
            self._expect("FROM")
            return self._closed(Call(name, (self._value(), *characters)))
        return self._tried("FROM", lambda characters: Call("trim", (self._value(), characters)))

    def _with_unit(self) -> Expression | None:
        name = WITH_UNIT[self._words[self._place - 2].keyword]
        if self._word.keyword not in UNITS or self._ahead().text != ",":
            return None
        place, unit = self._place, self._next().keyword
        self._expect(",")
        arguments = [self._value()]
        if not self._took(","):
            self._place = place  # date_add(day, 3): a column of that name
            return None
        return self._closed(Call(name, (Literal(unit), *arguments, self._value())))


_SPECIAL: dict[str, Callable[[_WordReader], Expression | None]] = {
    "CAST": lambda reader: reader._cast_call(safe=False),
    "TRY_CAST": lambda reader: reader._cast_call(safe=True),
    "EXTRACT": _WordReader._extract,
    "POSITION": _WordReader._position,
    "SUBSTRING": _WordReader._substring,
    "SUBSTR": _WordReader._substring,
    "OVERLAY": _WordReader._overlay,
    "TRIM": _WordReader._trim,
    **dict.fromkeys(WITH_UNIT, _WordReader._with_unit),
}


def _halved(function: str, parts: Sequence[Expression]) -> Expression:
    """A chain of AND or OR as the tree that Spark makes of it: its halves joined, each a chain, so that long ones are not deep."""
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return Call(function, (_halved(function, parts[:middle]), _halved(function, parts[middle:])))


def _cast(value: Expression, type: str) -> Expression:
    """A cast; of a number to double the number itself, so that no digit is read twice."""
    if (
        isinstance(value, Literal)
        and isinstance(value.value, (int, float))
        and not isinstance(value.value, bool)
        and type == "double"
    ):
        return Literal(float(value.value))
    return Cast(value, type)


def _typed_literal(type: str, word: Word) -> Expression:
    """A constant of a type as a text, which must be one."""
    text = TypedExpression("literal", "string", (), word.value)
    try:
        evaluate(TypedExpression("cast", type, (text,)), _EMPTY_ROW)
    except EvaluationError:
        raise SyntaxRefusedError(f"{word.text} is no {type}") from None
    return Cast(Literal(word.value), type)


def _checked_decimal(value: decimal.Decimal, text: str) -> decimal.Decimal:
    _sign, digits, exponent = value.as_tuple()
    if max(len(digits) + max(int(exponent), 0), -int(exponent)) > 38:
        raise SyntaxRefusedError(f"{text} has more than 38 digits; write it as double: {text}D")
    return value
