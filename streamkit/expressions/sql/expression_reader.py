"""
Expressions in SQL, read into the tree that the same expression has in Python.

The rules of precedence are Spark's own, or ksqlDB's, and anything else is a syntax error. Words that mean something in an expression are no names
of columns unless they are in backticks, though Spark would guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from streamkit.data_type import normalise_type
from streamkit.expressions.sql.dialect import UNIT_ARGUMENTS, Dialect
from streamkit.expressions.sql.literal_reader import LITERAL_TYPES, IsValue, LiteralReader
from streamkit.expressions.sql.refusal import SyntaxRefusedError
from streamkit.expressions.sql.special_calls import SPECIAL
from streamkit.expressions.sql.word import Word
from streamkit.plan.dotted_name import part
from streamkit.plan.expression import Alias, Call, Cast, Expression, Lambda, Literal, Reference
from streamkit.plan.expression_text import expression_text
from streamkit.plan.text_span import TextSpan

Part = TypeVar("Part")
ALSO_FUNCTIONS = ("ANY", "SOME", "EXISTS", "LIKE", "ILIKE", "RLIKE", "REGEXP")  # keywords that may be called
NO_ARROW = (
    "a field of a struct is written with a point, as in address.street, and -> is of a lambda, which is an argument of a function; in the ksql "
    "dialect it is address->street"
)
DEPTH_MAX = 64  # parentheses, calls and signs within each other
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
UNIT_FUNCTIONS = (
    "TIMESTAMPADD",
    "TIMESTAMPSUB",
    "DATEADD",
    "DATESUB",
    "TIMEADD",
    "TIMESUB",
)  # their first argument may be DAY, too
ONCE_EACH = {  # aggregates of other SQL with DISTINCT, by the name of what takes each value once here
    "count": "count_distinct", "collect_list": "collect_set", "array_agg": "collect_set", "min": "min", "max": "max",
}  # fmt: skip
NO_FILTER = "there is no FILTER; write the condition inside of the aggregate: SUM(CASE WHEN … THEN value END), or COUNT(CASE WHEN … THEN 1 END)"
NO_ORDER_WITHIN = (
    "there is no WITHIN GROUP; sorted values are ARRAY_SORT(COLLECT_LIST(value)), of which ARRAY_JOIN(…, ', ') makes one text"
)


class NestedTooDeeplyError(SyntaxRefusedError):
    """An expression has too many levels."""


class ExpressionReader(LiteralReader):
    """Reads expressions; each method reads what its name says, and moves behind it."""

    row_only = "an expression sees the row only, not a subquery; join with a table instead"
    no_star = '* cannot be used; name the columns one by one, as in struct(a, b); select("*") and select("column.*") take a text of their own'
    no_parameters = "parameters (? and :name) cannot be used; write the value, or build the column in Python"
    no_other_rows = "it has a window over other rows (OVER); use windowed_by() on groups"
    other_once_each = "an aggregate takes all values; expected count_distinct(…) or collect_set(…), which take each value once"

    def __init__(self, text: str, words: Sequence[Word], dialect: Dialect, is_value: IsValue) -> None:
        super().__init__(words, dialect, is_value)
        self.text = text
        self.in_vain: set[int] = set()  # the places from which a special way of writing arguments was tried, and was none
        self._depth = 0

    def whole(self) -> Expression:
        """All words, with the name that they give their result."""
        expression = self.named()
        if self.word.kind != "end":
            raise self.unexpected("an operator or the end")
        return expression

    def named(self) -> Expression:
        """An expression, which AS may give a name."""
        start = self.word.start
        expression = self.expression()
        return self.made(Alias(expression, self.name()), start) if self.took("AS") else expression

    def expression(self) -> Expression:
        """An expression, down to OR."""
        parts = [self._conjunction()]
        while self.took("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else self._halved("or", parts)

    def _conjunction(self) -> Expression:
        parts = [self._negated()]
        while self.took("AND"):
            parts.append(self._negated())
        return parts[0] if len(parts) == 1 else self._halved("and", parts)

    def _halved(self, function: str, parts: Sequence[Expression]) -> Expression:
        """A chain of AND or OR as the tree that Spark makes of it: its halves joined, each a chain, so that long ones are not deep."""
        if len(parts) == 1:
            return parts[0]
        middle = (len(parts) + 1) // 2
        found = Call(function, (self._halved(function, parts[:middle]), self._halved(function, parts[middle:])))
        self.made(found, 0)
        self.places[id(found)] = TextSpan(self.places[id(parts[0])].start, self.places[id(parts[-1])].end)
        return found

    def _negated(self) -> Expression:
        starts = []
        while self.is_at("NOT", "!"):
            starts.append(self.move().start)
        if self.is_at("EXISTS") and self.is_before("(") and self.ahead(2).keyword in ("SELECT", "WITH"):
            raise self._unusable(self.row_only)
        found = self._predicate()
        for start in reversed(starts):
            found = self.made(Call("not", (found,)), start)
        return found

    def _predicate(self) -> Expression:
        """A value, and what may be once behind it: BETWEEN, IN, LIKE, IS …"""
        start = self.word.start
        value = self.value()
        if self.took("IS"):
            return self._is_predicate(value, start)
        negated = self.is_at("NOT", "!") and self.ahead().keyword in self.dialect.predicates
        if negated:
            self.move()
        key = self.word.keyword
        if key not in self.dialect.predicates:
            return value
        self.move()
        if key in ("LIKE", "ILIKE"):
            return self._like(value, key.lower(), negated, start)
        if key == "BETWEEN":
            found: Expression = self._between(value)
        elif key == "IN":
            found = self._in(value)
        else:
            found = Call("rlike", (value, self._operand()))
        return self._perhaps_not(self.made(found, start), negated, start)

    def _perhaps_not(self, found: Expression, negated: bool, start: int) -> Expression:
        return self.made(Call("not", (found,)), start) if negated else found

    def _between(self, value: Expression) -> Expression:
        lower = self._operand()
        self.expect("AND")
        return Call("between", (value, lower, self._operand()))

    def _is_predicate(self, value: Expression, start: int) -> Expression:
        negated = self.took("NOT", "!")
        if self.took("NULL"):
            return self.made(Call("isnotnull" if negated else "isnull", (value,)), start)
        if self.took("DISTINCT"):
            self.expect("FROM")
            same = self.made(Call("eq_null_safe", (value, self._operand())), start)
            return self._perhaps_not(same, not negated, start)
        if self.is_at("UNKNOWN"):
            raise self._unusable("IS UNKNOWN cannot be used; write IS NULL")
        if not self.is_at("TRUE", "FALSE"):
            raise self.unexpected("NULL, TRUE, FALSE or DISTINCT FROM")
        truth = self.move()
        literal = self.made(Literal(truth.key == "TRUE"), truth.start)
        return self._perhaps_not(self.made(Call("eq_null_safe", (value, literal)), start), negated, start)

    def _in(self, value: Expression) -> Expression:
        self.expect("(")
        if self.is_at("SELECT", "WITH"):
            raise self._unusable(self.row_only)
        return Call("in", (value, *self.listed(self.expression)))

    def _like(self, value: Expression, function: str, negated: bool, start: int) -> Expression:
        if self.is_at("ANY", "SOME", "ALL") and not self.dialect.has_arrows:
            return self._like_many(value, function, negated, start)
        arguments = [value, self._operand()]
        if self.took("ESCAPE"):
            if self.word.kind != "text" or len(self.word.value) != 1:
                raise self.unexpected("one character between quotes")
            arguments.append(self._literal(self.move()))
        return self._perhaps_not(self.made(Call(function, tuple(arguments)), start), negated, start)

    def _like_many(self, value: Expression, function: str, negated: bool, start: int) -> Expression:
        joint = "and" if self.move().key == "ALL" else "or"
        self.expect("(")
        patterns = self.listed(self.expression)
        likes = [self._perhaps_not(self.made(Call(function, (value, pattern)), start), negated, start) for pattern in patterns]
        found, *rest = likes
        for one in rest:
            found = self.made(Call(joint, (found, one)), start)
        return found

    def listed(self, read: Callable[[], Part], closing: str = ")") -> list[Part]:
        """Parts between commas, up to the closing sign."""
        found = [read()]
        while self.took(","):
            found.append(read())
        if not self.took(closing):
            raise self.unexpected(f"a comma or {closing}")
        return found

    def _operand(self) -> Expression:
        """An operand of BETWEEN, LIKE and the like; in ksqlDB it is no comparison."""
        return self.value(1 if self.dialect.has_arrows else 0)

    def value(self, level: int = 0) -> Expression:
        """Operands and operators between them, down to a level."""
        start = self.word.start
        found = self._signed()
        operators = self.dialect.operators
        while (operator := operators.get(self.word.key)) is not None and operator.level >= level:
            self.move()
            found = self.made(Call(operator.function, (found, self.value(operator.level + 1))), start)
            if operator.level == 0 and self.dialect.has_arrows:
                break  # comparisons do not chain
        return found

    def _signed(self) -> Expression:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise NestedTooDeeplyError(f"an expression is nested too deeply; expected at most {DEPTH_MAX} levels", self.word.span)
        start = self.word.start
        if self.is_at("-") and self.ahead().kind == "number":
            self.move()
            found = self.with_parts(self._number(start, -1), start)
        elif (function := self.dialect.unary.get(self.word.key)) is not None:
            self.move()
            found = self.made(Call(function, (self._signed(),)), start)
        else:
            found = self.with_parts(self._primary(), start)
        if self.dialect.has_arrows and self.is_at("AT") and self.is_before("TIME"):
            found = self._at_time_zone(found, start)
        self._depth -= 1
        return found

    def _at_time_zone(self, found: Expression, start: int) -> Expression:
        for word in ("AT", "TIME", "ZONE"):
            self.expect(word)
        if self.word.kind != "text":
            raise self.unexpected("a time zone between quotes")
        return self.made(Call("at_time_zone", (found, self._literal(self.move()))), start)

    def with_parts(self, found: Expression, start: int) -> Expression:
        """Fields, elements and casts behind an expression."""
        while (key := self.word.key) in (".", "[", "::", ":", "->", "COLLATE"):
            if key == "." or (key == "->" and self.dialect.has_arrows):
                following = self._field(found, start, key)
                if following is None:
                    break
                found = following
            elif key == "[":
                self.move()
                is_array = isinstance(found, Reference) and found.name.upper() == "ARRAY"
                found = Call("get_item", (found, self.value()))
                if is_array and self.is_at(","):
                    raise self._unusable("ARRAY[…] is of the ksql dialect; an array is written array(1, 2) here")
                self.expect("]")
                self.made(found, start)
            elif self.dialect.has_arrows:
                break
            elif key == "->":
                raise self._unusable(NO_ARROW)
            elif key == "::":
                self.move()
                found = self.made(self.cast(found, self.type()), start)
            elif key == ":" and self.is_before("="):
                raise self._unusable(
                    "`:=` is of the ksql dialect; a struct is written named_struct('a', 1, 'b', 2) here, and a map map('k', 1)"
                )
            elif key == ":":
                raise self._unusable("a path into a variant (:) cannot be used; read JSON by get_json_object or from_json")
            else:
                raise self._unusable("COLLATE cannot be used; texts compare by their bytes")
        return found

    def _field(self, found: Expression, start: int, sign: str) -> Expression | None:
        """A field of what was found, or the column of a source; None where all fields of it are named, which is no expression."""
        if self.is_before("*"):
            if self.ends_at_star(start):
                return None
            self.move()
            raise self._unusable(self.no_star)
        is_one_word = self.words[self.place - 1].start == start
        if sign == "." and self.dialect.has_arrows and not (isinstance(found, Reference) and is_one_word):
            raise self.unexpected("an operator; a field of a struct is written column->field")
        self.move()
        name = self.field_name()
        if isinstance(found, Reference) and sign == ".":
            return self.made(Reference(f"{found.name}.{part(name)}"), start)
        literal = self.made(Literal(name), self.words[self.place - 1].start)
        return self.made(Call("get_field", (found, literal)), start)

    def ends_at_star(self, start: int) -> bool:
        """Whether `.*` may be behind what begins at a place."""
        return False

    def field_name(self) -> str:
        """The name of a field or of the column of a source."""
        return self.name()

    def _primary(self) -> Expression:
        word = self.word
        match word.kind:
            case "number":
                return self._number(word.start, 1)
            case "text":
                return self.made(Literal(self._texts() if self.dialect.has_escapes else self.move().value), word.start)
            case "bytes":
                return self._literal(self.move())
            case "sign":
                return self._parenthesised() if word.text == "(" else self._strange()
            case "end" | "unreadable":
                raise self.unexpected("a value")
        return self._of_keyword(word) or self._call_or_column()

    def _strange(self) -> Expression:
        if self.is_at("*"):
            called = self.words[self.place - 2] if self.place > 1 and self.words[self.place - 1].key == "(" else None
            if called is not None and called.kind == "name" and called.key not in self.dialect.reserved:
                raise self._unusable(f"{called.text}(*): only count has a *, as in count(*), which counts rows. {self.no_star}")
            raise self._unusable(self.no_star)
        if self.is_at("?", ":"):
            raise self._unusable(self.no_parameters)
        raise self.unexpected("a value")

    def _parenthesised(self) -> Expression:
        if self.is_lambda_with_parentheses():
            raise self._unusable("a lambda stands only as an argument of a function")
        opening = self.move()
        if self.is_at("SELECT", "WITH") or (self.is_at("VALUES") and self.is_before("(")):
            raise self._unusable(self.row_only)
        if self.dialect.has_arrows:
            found = self.expression()
            self.expect(")")
            return found
        parts = self.listed(self.named)
        if len(parts) > 1:
            return self.made(Call("struct", tuple(parts)), opening.start)
        if isinstance(parts[0], Alias):
            raise self._refused(f"found AS {parts[0].name} within parentheses; expected a name only for the whole", opening)
        return parts[0]

    def _of_keyword(self, word: Word) -> Expression | None:
        """What begins with a keyword; None if this word is a name."""
        keyword = word.keyword
        if keyword in ("TRUE", "FALSE", "NULL"):
            self.move()
            return self.made(Literal({"TRUE": True, "FALSE": False, "NULL": None}[keyword]), word.start)
        if keyword == "CASE":
            return self._case()
        following = self.ahead()
        if self.dialect.has_arrows:
            if found := self._made_of_parts(word, following):
                return found
        elif found := self._of_spark(word, following):
            return found
        if keyword in self.dialect.reserved and not (
            keyword in ALSO_FUNCTIONS and following.key == "(" and not self.dialect.has_arrows
        ):
            raise self.unexpected("a value")
        return None

    def _of_spark(self, word: Word, following: Word) -> Expression | None:
        """Intervals, and texts with a type before them."""
        keyword = word.keyword
        if keyword == "INTERVAL" and following.key != "(":
            return self._interval()
        if keyword in LITERAL_TYPES and following.kind == "text":
            self.move()
            return self._typed_literal(LITERAL_TYPES[keyword], word.start)
        if following.kind == "text" and keyword == "TIME":
            raise self._unusable("a time of day cannot be used")
        return None

    def _made_of_parts(self, word: Word, following: Word) -> Expression | None:
        """`ARRAY[…]`, `MAP(k := v)`, `STRUCT(f := v)` and `DECIMAL '1.5'`."""
        keyword = word.keyword
        if keyword == "DECIMAL" and following.kind == "text":
            return self._decimal_text(word.start)
        if keyword == "ARRAY" and following.key == "[":
            return self._constructed("array", "]", lambda: [self.expression()])
        if keyword == "MAP" and following.key == "(":
            return self._constructed("map", ")", self._entry)
        if keyword == "STRUCT" and following.key == "(":
            return self._constructed("struct", ")", lambda: [self._struct_field()])
        return None

    def _constructed(self, function: str, closing: str, read: Callable[[], list[Expression]]) -> Expression:
        start = self.move().start
        self.move()
        parts: list[Expression] = []
        if not self.is_at(closing):
            parts += read()
            while self.took(","):
                parts += read()
        self.expect(closing)
        return self.made(Call(function, tuple(parts)), start)

    def _entry(self) -> list[Expression]:
        key = self.expression()
        self.expect(":=")
        return [key, self.expression()]

    def _struct_field(self) -> Expression:
        start = self.word.start
        name = self.any_name("the name of a field")
        self.expect(":=")
        return self.made(Alias(self.expression(), name), start)

    def _case(self) -> Expression:
        start = self.move().start
        opening = self.word
        subject = None if self.is_at("WHEN") else self.expression()
        if subject is not None and self.dialect.has_arrows:
            value = expression_text(subject)
            raise self._refused(
                f"CASE {value} WHEN … compares one value, which ksqlDB does not have; expected conditions, as in CASE WHEN {value} = 1 THEN …",
                opening,
            )
        arguments: list[Expression] = []
        while self.is_at("WHEN"):
            begin = self.move().start
            condition = self.expression()
            if subject is not None:
                condition = self.made(Call("eq", (subject, condition)), begin)
            self.expect("THEN")
            arguments += [condition, self.expression()]
        if not arguments:
            raise self.unexpected("WHEN")
        if self.took("ELSE"):
            arguments.append(self.expression())
        self.expect("END")
        return self.made(Call("when", tuple(arguments)), start)

    def _call_or_column(self) -> Expression:
        following = self.ahead().key
        if following == "=>" and self.dialect.has_arrows:
            raise self._unusable("a lambda stands only as an argument of a function")
        if following == "->" and not self.dialect.has_arrows:
            raise self._unusable(NO_ARROW)
        if following == "(":
            return self._call()
        start = self.word.start
        return self.made(Reference(part(self.column_name())), start)

    def column_name(self) -> str:
        """The name of a column, or of its source."""
        return self.name()

    def _call(self) -> Expression:
        word = self.move()
        name = word.value if word.kind == "quoted" else word.text.lower()
        self.expect("(")
        if self.is_at("DISTINCT"):
            raise self._unusable(self._no_distinct(word))
        found = SPECIAL[word.key](self, word) if word.key in self.dialect.special_calls else None
        if found is None:
            found = self._plain_call(name.lower(), word)
        self.made(found, word.start)
        self._refuse_behind_call()
        return found

    def _no_distinct(self, word: Word) -> str:
        """What to say of an aggregate with DISTINCT."""
        instead = ONCE_EACH.get(word.text.lower(), "")
        if not instead:
            return f"{word.text}(DISTINCT …) cannot be used; {self.other_once_each.format(name=word.text)}"
        return f"{word.text}(DISTINCT …) cannot be used; expected {instead.upper() if self.dialect.has_arrows else instead}(…)"

    def _plain_call(self, name: str, word: Word) -> Expression:
        is_star = self.is_at("*") and self.is_before(")")
        is_empty = self.is_at(")") and self.dialect.has_arrows  # ksqlDB's COUNT() is COUNT(*)
        of_rows = Literal(1) if name == "count" else Reference("ROWTIME") if name in self.dialect.of_times else None
        if of_rows is not None and (is_star or is_empty):
            place = (self.move() if is_star else self.word).start
            argument = self.made(of_rows, place)
            self.expect(")")
            return Call(name, (argument,))
        if self.took(")"):
            return Call(name, ())
        if self.dialect.has_arrows:
            return Call(name, (*self._unit_before(word), *self.listed(self.argument)))
        arguments = tuple(self.listed(self.named if name == "struct" else self.argument))
        if name in CASTS and len(arguments) == 1:
            return self.cast(arguments[0], CASTS[name])
        if name in ("max_by", "min_by") and len(arguments) == 3:
            return Call("top_k" if name == "max_by" else "bottom_k", (arguments[0], arguments[2], arguments[1]))
        if name in ("trim", "ltrim", "rtrim") and len(arguments) == 2:
            arguments = arguments[::-1]  # SQL has the characters first, Python last
        return Call(name, arguments)

    def _unit_before(self, function: Word) -> list[Expression]:
        """DAY as the first argument of a function that wants a unit there; DAYS is one anywhere."""
        is_unit = function.key in UNIT_FUNCTIONS and f"{self.word.key}S" in UNIT_ARGUMENTS and self.is_before(",")
        if not is_unit:
            return []
        unit = self._unit_literal()
        self.move()
        return [unit]

    def _refuse_behind_call(self) -> None:
        if self.word.key not in ("OVER", "FILTER", "IGNORE", "RESPECT", "WITHIN") or self.dialect.has_arrows:
            return
        following = self.ahead().text
        if self.is_at("OVER"):
            raise self._unusable(self.no_other_rows)
        if self.is_at("FILTER") and following == "(":
            raise self._unusable(NO_FILTER)
        if self.is_at("WITHIN") and following.upper() == "GROUP":
            raise self._unusable(NO_ORDER_WITHIN)
        if self.is_at("IGNORE", "RESPECT") and following.upper() == "NULLS":
            raise self._unusable(f"{self.word.text} {following} cannot be used")

    def argument(self) -> Expression:
        """An argument of a function: a value or a lambda."""
        arrow = "=>" if self.dialect.has_arrows else "->"
        word, following = self.word, self.ahead().key
        if following == arrow and word.kind in ("name", "quoted"):
            names = [self.parameter()]
            self.move()
            return self.made(Lambda(tuple(names), self.expression(), self.dialect.has_arrows), word.start)
        if self.is_lambda_with_parentheses():
            self.move()
            names = [self.parameter()]
            while self.took(","):
                names.append(self.parameter())
            self.expect(")")
            self.expect(arrow)
            return self.made(Lambda(tuple(names), self.expression(), self.dialect.has_arrows), word.start)
        if following == "=>" and not self.dialect.has_arrows:
            raise self._unusable("arguments by name (=>) cannot be used; write them in their order")
        if self.dialect.has_arrows and word.key in UNIT_ARGUMENTS and following in (",", ")"):
            return self._unit_literal()
        return self.expression()

    def parameter(self) -> str:
        """The name of a parameter of a lambda."""
        return self.name()

    def _unit_literal(self) -> Expression:
        word = self.move()
        return self.made(Literal(word.key), word.start)

    def is_lambda_with_parentheses(self) -> bool:
        """Whether the parameters of a lambda are here, in parentheses."""
        if not self.is_at("("):
            return False
        place = 1
        while self.ahead(place).kind in ("name", "quoted") and self.ahead(place + 1).text == ",":
            place += 2
        arrow = "=>" if self.dialect.has_arrows else "->"
        return (
            (place > 1 or self.dialect.has_arrows)
            and self.ahead(place).kind in ("name", "quoted")
            and (self.ahead(place + 1).text, self.ahead(place + 2).text) == (")", arrow)
        )

    def cast(self, value: Expression, type: str) -> Expression:
        """A cast; of a number to double the number itself, so that no digit is read twice."""
        if (
            isinstance(value, Literal)
            and isinstance(value.value, (int, float))
            and not isinstance(value.value, bool)
            and type == "double"
        ):
            return Literal(float(value.value))
        return Cast(value, type)

    def type(self) -> str:
        """A data type: a word, with what is between < and > or parentheses behind it."""
        start = self.word.start
        if self.word.kind != "name":
            raise self.unexpected("a type")
        nests = self.is_at("ARRAY", "MAP", "STRUCT")
        end = self.move().end
        if self.is_at("<" if nests else "("):
            end = self._behind("<", ">") if nests else self._behind("(", ")")
        return normalise_type(self.text[start:end])

    def _behind(self, opening: str, closing: str) -> int:
        """Move behind what an opening sign encloses; where that is."""
        depth = 0
        while True:
            word = self.move()
            if word.kind == "end":
                raise self._refused(f"found no {closing} for {opening}", word)
            if word.kind == "sign":
                depth += word.text.count(opening) - word.text.count(closing)
            if depth <= 0:
                return word.end
