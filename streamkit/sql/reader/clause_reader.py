"""What clauses of all statements are made of: names, expressions with their places, types, spans of time, and properties."""

from __future__ import annotations

from collections.abc import Callable

from streamkit.data_type import array_of, map_of, normalise_type, struct_of
from streamkit.errors import SchemaError
from streamkit.expressions.sql.dialect import CLAUSE_WORDS
from streamkit.expressions.sql.expression_reader import NO_FILTER, NO_ORDER_WITHIN, ExpressionReader, NestedTooDeeplyError
from streamkit.expressions.sql.refusal import SyntaxRefusedError
from streamkit.expressions.sql.word import Word
from streamkit.plan.expression import Alias, Call, Cast, Expression, Lambda
from streamkit.plan.text_span import TextSpan
from streamkit.sql.tree.span import Name, Written
from streamkit.sql.tree.statements import Property
from streamkit.sql.tree.type_names import BUILT_IN, OF_KSQLDB, missing_type, named_type

LEVELS_MAX = 200  # of a tree: what walks over trees calls itself at each level
MILLIS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000, "WEEK": 604_800_000}
A_UNIT = "a unit of time: MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS or WEEKS"
A_PROPERTY_VALUE = "a text between quotes, a number, TRUE, FALSE or NULL"
SYNONYM_TYPES = {"VARCHAR": "string", "BYTES": "binary", "INTEGER": "int"}  # ksqlDB's names, beside Spark's
SIZED_TYPES = ("VARCHAR", "STRING")  # a length behind them says nothing
SIMPLE_TYPES = OF_KSQLDB - {"ARRAY", "DECIMAL", "MAP", "STRUCT"}
SOURCE, COLUMN, FUNCTION, TYPE, PROPERTY, QUERY, TOPIC, OTHER = (
    "source",
    "column",
    "function",
    "type",
    "property",
    "query",
    "topic",
    "other",
)

# Words that begin a clause, with the words behind them that make them one; none: always. Else each may be the name of a column.
CLAUSES: dict[str, tuple[str, ...]] = {
    "FROM": (),
    "WHERE": (),
    "HAVING": (),
    "JOIN": (),
    "ON": (),
    "INNER": ("JOIN",),
    "LEFT": ("JOIN", "OUTER"),
    "RIGHT": ("JOIN", "OUTER"),
    "FULL": ("JOIN", "OUTER"),
    "WINDOW": ("TUMBLING", "HOPPING", "SESSION"),
    "GROUP": ("BY",),
    "PARTITION": ("BY",),
    "ORDER": ("BY",),
    "EMIT": ("CHANGES", "FINAL"),
    "GRACE": ("PERIOD",),
    "LIMIT": (),
    "WITHIN": (),
}
OPERATIONS = {  # names of trees that no function of ksqlDB has, with what is written for them
    "add": "a + b", "subtract": "a - b", "multiply": "a * b", "divide": "a / b", "remainder": "a % b", "negate": "-a", "positive": "a",
    "eq": "a = b", "ne": "a <> b", "lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b",
    "eq_null_safe": "a IS NOT DISTINCT FROM b", "isnull": "a IS NULL, or IFNULL(a, b)", "isnotnull": "a IS NOT NULL",
    "concat_operator": "a || b", "get_field": "a->b", "get_item": "a[b]", "array": "ARRAY[a, b]", "named_struct": "STRUCT(a := b)",
}  # fmt: skip
NO_PARTNER = "rows of the first without an equal row of the second are those of SELECT DISTINCT … FROM a LEFT JOIN b ON a.id = b.id WHERE b.id IS NULL"
SET_OPERATIONS = {  # by which other SQL joins two queries, with the way to say it here
    "UNION": "queries over streams write into one stream: CREATE STREAM name AS the first, INSERT INTO name the second; rows that are the same stay "
    "in it, and SELECT DISTINCT … FROM name gives them once",
    "INTERSECT": "rows of the first with an equal row of the second are those of SELECT DISTINCT … FROM a JOIN b ON a.id = b.id",
    "EXCEPT": NO_PARTNER,
    "MINUS": NO_PARTNER,
}
FUNCTION_IN_FROM = (
    "FROM has names and queries, and neither functions nor LATERAL; for each element of an array write EXPLODE(array) AS name in SELECT, and for "
    "windows of time WINDOW TUMBLING (SIZE 1 HOUR) before WHERE and GROUP BY"
)
NO_OVER = "there is no window over other rows (OVER); group the rows by GROUP BY, in a query that goes on also by WINDOW"
NAME = "a name"
OTHER_CLAUSES = {  # which other SQL has, by their first two or three words, with the way to say it here
    (
        "OFFSET",
        "",
    ): "there is no OFFSET; let ORDER BY sort the rows, WHERE begin behind the last one that you have, and LIMIT say how many",
    ("FETCH", "FIRST"): "there is no FETCH; write LIMIT and how many rows at the end of the query",
    ("FETCH", "NEXT"): "there is no FETCH; write LIMIT and how many rows at the end of the query",
    ("TOP", ""): "there is no TOP; write LIMIT and how many rows at the end of the query",
    ("NATURAL", "JOIN"): "there is no NATURAL JOIN; name the columns that are equal: JOIN … ON a.id = b.id",
    ("CROSS", "JOIN"): "there is no CROSS JOIN; name the columns that are equal: JOIN … ON a.id = b.id",
    ("OVER", "("): NO_OVER,
    ("OVER", NAME): NO_OVER,
    ("FILTER", "("): NO_FILTER,
    ("WITHIN", "GROUP", "("): NO_ORDER_WITHIN,
    ("QUALIFY", NAME): "there is no QUALIFY; group the rows by GROUP BY, and keep groups by HAVING",
    ("LATERAL", "VIEW"): "there is no LATERAL VIEW; write EXPLODE(array) AS name in SELECT",
}  # "" is a number or a text, NAME one that begins no clause
OPERATORS_OF_SPARK = {  # behind which a text is no name in the ksql dialect
    "ILIKE": "ksqlDB has no ILIKE; write LCASE(value) LIKE 'pattern in small letters', or NOT LIKE",
    "RLIKE": "ksqlDB has no RLIKE; write REGEXP_EXTRACT('pattern', value) IS NOT NULL, or IS NULL for NOT RLIKE",
    "REGEXP": "ksqlDB has no REGEXP; write REGEXP_EXTRACT('pattern', value) IS NOT NULL, or IS NULL for NOT REGEXP",
}


class ClauseReader(ExpressionReader):
    """Reads what clauses are made of."""

    row_only = "an expression sees one row, not a query; a SELECT may have the query in FROM, and join it"
    no_star = "* cannot be used in an expression; name the columns one by one"
    no_other_rows = NO_OVER
    other_once_each = "in a query that is run once write SELECT {name}(value) FROM (SELECT DISTINCT value FROM …)"
    no_parameters = "parameters (? and :name) cannot be used; write ${name}, and DEFINE name = 'value' before"
    item_start = -1  # where the item of SELECT begins that is read
    implicit_aliases: frozenset[int] = frozenset()  # the places of words that were read as names without AS
    is_stored = False  # whether the text is one of the catalog, whose names may be words that no statement gives any more

    def asks(self, *keys: str) -> None:
        """Note which keywords could be here; what completes a text listens."""

    def asks_name(self, kind: str) -> None:
        """Note that a name could be here, of a source, a column, a function, a type or a property; what completes a text listens."""

    def written_name(self, kind: str = OTHER, expected: str = "a name") -> Name:
        """A name where nothing else can be."""
        self.asks_name(kind)
        span = self.word.span
        return Name(self.any_name(expected), span)

    def source_name(self) -> Name:
        """The name of a stream or table."""
        return self.written_name(SOURCE, "the name of a stream or table")

    def given_name(self, kind: str = OTHER, expected: str = "a name") -> Name:
        """A name that the statement gives: a word by which queries could not mean it has to be quoted."""
        if self.word.key in self.dialect.not_given and not self.is_stored:
            raise self.unexpected(expected)
        return self.written_name(kind, expected)

    def parameter(self) -> str:
        return self.given_name(expected="the name of a parameter").text

    def any_name(self, expected: str = "a name") -> str:
        """A name where nothing else can be: any word."""
        word = self.word
        found = super().any_name(expected)
        if not found:
            raise SyntaxRefusedError("a name has at least one character", word.span)
        return found

    def topic_name(self) -> Name:
        """The name of a topic, in quotes or as it is written: topics have no capitals of their own."""
        self.asks_name(TOPIC)
        word = self.word
        if word.kind == "name":
            return Name(self.move().text, word.span)
        if word.kind not in ("text", "quoted"):
            raise self.unexpected("the name of a topic")
        return Name(str(self.move().value), word.span)

    def field_name(self) -> str:
        """The name of a field or of the column of a source: any word."""
        self.asks_name(COLUMN)
        return self.any_name("the name of a field or column")

    def _plain_call(self, name: str, word: Word) -> Expression:
        if self.dialect.has_arrows and not self.is_stored and name in OPERATIONS:
            raise SyntaxRefusedError(f"ksqlDB has no function {name.upper()}; write {OPERATIONS[name]}", word.span)
        return super()._plain_call(name, word)

    def column_name(self) -> str:
        """The name of a column, which begins no clause."""
        if self.begins_clause():
            raise self.unexpected("a value")
        return self.name("a value")

    def begins_clause(self, *, at_end: bool = False) -> bool:
        """Whether a clause begins here; `at_end`: also where the statement ends behind its first word."""
        partners = CLAUSES.get(self.word.key)
        if partners is None:
            return False
        following = self.ahead()
        if following.kind == "end":
            return at_end or self.word.key in CLAUSE_WORDS
        return self._is_clause(self.word.key, partners, following)

    def _is_clause(self, key: str, partners: tuple[str, ...], following: Word) -> bool:
        if key == "LIMIT":
            return following.kind == "number"
        if key == "WITHIN":
            return following.kind == "number" or following.key == "("
        if key == "WINDOW" and self.ahead(2).key in partners:
            return True
        return not partners or following.key in partners

    def begins_as_of(self) -> bool:
        """Whether AS OF and a moment are here, and no name `of`."""
        if not (self.is_at("AS") and self.is_before("OF")):
            return False
        moment = self.ahead(2)
        return moment.kind in ("text", "number") or moment.key in ("(", "TIMESTAMP")

    def begins_set_operation(self) -> bool:
        """Whether UNION, or another word that joins two queries, and a query are here, and no name `union`."""
        return self.word.key in SET_OPERATIONS and (self.is_before("(") or self.ahead().key in ("ALL", "DISTINCT", "SELECT"))

    def other_clause(self) -> str:
        """What to say of a clause of other SQL that begins here; empty if none does."""
        key, following = self.word.key, self.ahead()
        if self.is_stored or following.kind in ("end", "quoted"):
            return ""
        operator = following.key if key == "NOT" else key
        if self.dialect.has_arrows and operator in OPERATORS_OF_SPARK and self.ahead(2 if key == "NOT" else 1).kind == "text":
            return OPERATORS_OF_SPARK[operator]
        if key == "CROSS" and following.key == "JOIN" and self.begins_function(2):
            return FUNCTION_IN_FROM
        if (key, NAME) in OTHER_CLAUSES and following.kind == "name" and following.key not in (*CLAUSES, "AS"):
            return OTHER_CLAUSES[key, NAME]
        begin = key, "" if following.kind in ("number", "text") else following.key
        return OTHER_CLAUSES.get(begin) or OTHER_CLAUSES.get((*begin, self.ahead(2).key), "")

    def begins_function(self, count: int = 0) -> bool:
        """Whether so many words further on, where a source could be, a function or LATERAL is."""
        has_lateral = self.ahead(count).key == "LATERAL"
        name, following = self.ahead(count + has_lateral), self.ahead(count + has_lateral + 1)
        is_call = name.kind == "name" and name.key not in CLAUSES and following.key == "("
        return is_call or (has_lateral and name.key == "(")

    def alias(self) -> Name | None:
        """A name for what is before it, with or without AS."""
        if self.is_at("AS"):
            if self.begins_as_of():
                return None
            self.move()
            return self.given_name()
        word = self.word
        if word.kind not in ("name", "quoted") or word.key in self.dialect.reserved or self.begins_clause(at_end=True):
            return None
        if self.begins_set_operation() or self.other_clause():
            return None
        self.implicit_aliases |= {self.place}
        return self.given_name()

    def written(self, read: Callable[[], Expression] | None = None) -> Written:
        """An expression, and where its parts are written."""
        self.places, self._nodes = {}, []
        begin = self.word
        expression = (read or self.expression)()
        span = self.span_from(begin)
        return Written(expression, span, self._places_of(expression, span))

    def span_from(self, begin: Word) -> TextSpan:
        """From a word to before the word here."""
        return TextSpan(begin.start, self.words[self.place - 1].end)

    def _places_of(self, expression: Expression, span: TextSpan) -> dict[int, TextSpan]:
        """The places of the nodes of a tree; others that were made on the way are left out."""
        found: dict[int, TextSpan] = {}
        level: list[Expression] = [expression]
        levels = 0
        while level:
            levels += 1
            if levels > LEVELS_MAX:
                raise NestedTooDeeplyError(
                    f"the expression has more than {LEVELS_MAX} levels; split it, by a query in FROM", span
                )
            found.update((id(node), self.places[id(node)]) for node in level if id(node) in self.places)
            level = [part for node in level for part in _parts(node)]
        return found

    def duration(self) -> int:
        """A span of time in milliseconds."""
        count = self.whole_number("a number and a unit of time, such as 10 MINUTES")
        self.asks(*(f"{unit}S" for unit in MILLIS))
        millis = MILLIS.get(self.word.key) or MILLIS.get(self.word.key.removesuffix("S"))
        if millis is None:
            raise self.unexpected(A_UNIT)
        self.move()
        return count * millis

    def whole_number(self, expected: str = "a whole number") -> int:
        """A number without sign and fraction."""
        word = self.word
        if word.kind != "number" or word.value[0] != "":
            raise self.unexpected(expected)
        if word.value[1] >= 2**63:
            raise SyntaxRefusedError(f"{word.text} is too large; expected less than 2^63", word.span)
        return int(self.move().value[1])

    def quoted_text(self, expected: str = "a text between quotes") -> str:
        """A text."""
        if self.word.kind != "text":
            raise self.unexpected(expected)
        return str(self.move().value)

    def properties(self) -> tuple[Property, ...]:
        """`WITH (NAME = value, …)`; none if it is not here."""
        if not self.took("WITH"):
            return ()
        self.expect("(")
        found = self.listed(self._property)
        names: set[str] = set()
        for one in found:
            if one.name in names:
                raise SyntaxRefusedError(f"{one.name} is given twice", one.span)
            names.add(one.name)
        return tuple(found)

    def _property(self) -> Property:
        begin = self.word
        self.asks_name(PROPERTY)
        name = self.move().value if begin.kind == "text" else self.any_name("the name of a property")
        self.expect("=")
        value = self._property_value()
        return Property(name.upper(), value, self.span_from(begin))

    def _property_value(self) -> str | int | float | bool | None:
        if self.word.kind == "text":
            return str(self.move().value)
        if self.is_at("TRUE", "FALSE", "NULL"):
            return {"TRUE": True, "FALSE": False, "NULL": None}[self.move().key]
        sign = -1 if self.is_at("-") and self.ahead().kind == "number" else 1
        if sign < 0:
            self.move()
        if self.word.kind != "number":
            raise self.unexpected(A_PROPERTY_VALUE)
        type, value = self.move().value
        return sign * (float(value) if type in ("decimal", "double", "float") else int(value))

    def type(self) -> str:
        """A type: Spark's spelling of it, with the names of types that CREATE TYPE makes."""
        begin = self.word
        self._open_types, self._closed_types = 0, 0
        found, is_known = self._type()
        if self._closed_types:
            raise SyntaxRefusedError("there is a > too many", self.span_from(begin))
        if not is_known:
            return found
        try:
            return normalise_type(found)
        except SchemaError as error:
            raise SyntaxRefusedError(str(error), self.span_from(begin)) from None

    def _type(self) -> tuple[str, bool]:
        """The type here, and whether StreamKit has all of it; in ksqlDB `INT ARRAY` is `ARRAY<INT>`."""
        found, is_known = self._plain_type()
        while self.dialect.has_arrows and not self._closed_types and self.took("ARRAY"):
            self._depth_of_types(1)
            found = array_of(found)
        return found, is_known

    def _plain_type(self) -> tuple[str, bool]:
        word = self.word
        self.asks_name(TYPE)
        if word.kind == "quoted":
            name = self.any_name()
            if self.dialect.has_arrows and name.upper() in SIMPLE_TYPES:
                return self._simple_type(name.upper())
            return named_type(name), False
        if word.kind != "name":
            raise self.unexpected("a type")
        self.move()
        if word.key in ("ARRAY", "MAP", "STRUCT"):
            return self._nested_type(word.key)
        if self.dialect.has_arrows and not self.is_stored and word.key not in OF_KSQLDB:
            if self.is_at("("):
                raise SyntaxRefusedError(missing_type(word.text, {}, is_ksql=True), word.span)
            return named_type(self.dialect.as_name(word.text)), False
        if word.key in ("DECIMAL", "NUMERIC", "DEC"):
            return self._decimal_type(), True
        if word.key in SYNONYM_TYPES or word.key.lower() in BUILT_IN:
            return self._simple_type(word.key)
        return named_type(self.dialect.as_name(word.text)), False

    def _simple_type(self, key: str) -> tuple[str, bool]:
        """A type without parts; the ksql dialect reads a length behind any of them, and ignores it."""
        if (key in SIZED_TYPES or (self.dialect.has_arrows and key in SIMPLE_TYPES)) and self.took("("):
            self.whole_number("a length")
            self.expect(")")
        name = SYNONYM_TYPES.get(key, key.lower())
        return name, name != "time"

    def _decimal_type(self) -> str:
        if not self.is_at("(") and not self.dialect.has_arrows:
            return "decimal"
        self.expect("(")
        precision = self.whole_number("the number of digits")
        scale = 0
        if not (self.is_at(")") and not self.dialect.has_arrows):
            self.expect(",")
            scale = self.whole_number("the number of digits behind the point")
        self.expect(")")
        return f"decimal({precision},{scale})"

    def _nested_type(self, kind: str) -> tuple[str, bool]:
        self._depth_of_types(1)
        self.expect("<")
        if kind == "STRUCT":
            fields = [self._field_type()]
            while not self._closed_types and self.took(","):
                fields.append(self._field_type())
            names = {name if self.dialect.has_arrows else name.lower() for name, _ in fields}
            if len(names) < len(fields):
                raise SyntaxRefusedError("two fields of the struct have one name", self.word.span)
            found = struct_of((name, type) for name, (type, _) in fields), all(is_known for _, (_, is_known) in fields)
        elif kind == "MAP":
            key, is_known = self._type()
            if self._closed_types:
                raise self.unexpected(", and the type of the map's values")
            self.expect(",")
            value, is_known_too = self._type()
            found = map_of(key, value), is_known and is_known_too
        else:
            element, is_known = self._type()
            found = array_of(element), is_known
        self._close_type()
        self._depth_of_types(-1)
        return found

    def _depth_of_types(self, change: int) -> None:
        self._open_types += change
        if self._open_types > 30:
            raise NestedTooDeeplyError("the type is nested too deeply; expected at most 24 levels", self.word.span)

    def _field_type(self) -> tuple[str, tuple[str, bool]]:
        name = self.any_name("the name of a field")
        self.took(":")
        found = self._type()
        if self.took("NOT"):
            self.expect("NULL")
        return name, found

    def _close_type(self) -> None:
        """Move behind a `>`; the word `>>` closes two types."""
        if self._closed_types:
            self._closed_types -= 1
            return
        if self.is_at(">>", ">>>"):
            self._closed_types = len(self.move().key) - 1
            return
        self.expect(">")


def _parts(node: Expression) -> tuple[Expression, ...]:
    match node:
        case Call(_, arguments):
            return arguments
        case Cast(inner, _) | Alias(inner, _) | Lambda(_, inner):
            return (inner,)
    return ()
