"""
The two dialects of expressions, as values: Spark's and ksqlDB's.

A dialect says how a text is cut into words, and which words and signs mean what. The trees that a reader makes of both have the same names for
the same operators, so what they mean by them is said later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

RESERVED = frozenset(
    "ALL AND ANY AS BETWEEN CASE DISTINCT DIV ELSE END ESCAPE EXISTS FALSE FROM ILIKE IN INTERVAL IS LIKE NOT NULL OR OVER REGEXP RLIKE "  # noqa: SIM905
    "SELECT SOME THEN TRUE WHEN WITH".split()
)
KSQL_RESERVED = frozenset(
    [
        "AND",
        "AS",
        "BETWEEN",
        "CASE",
        "DISTINCT",
        "ELSE",
        "END",
        "FALSE",
        "FROM",
        "IN",
        "IS",
        "LIKE",
        "NOT",
        "NULL",
        "OR",
        "SELECT",
        "THEN",
        "TRUE",
        "WHEN",
        "WITH",
    ]
)
CLAUSE_WORDS = frozenset(("FROM", "HAVING", "JOIN", "ON", "WHERE"))  # which begin a clause of a query whatever is behind them
UNIT_ARGUMENTS = ("MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS", "WEEKS", "MONTHS", "YEARS")
UNARY = {"-": "negate", "+": "positive", "~": "bitwise_not"}
LEVELS: tuple[dict[str, str], ...] = (  # from loose to tight; all are left-associative
    {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "<=>": "eq_null_safe"},
    {"|": "bitwise_or"},
    {"^": "bitwise_xor"},
    {"&": "bitwise_and"},
    {"<<": "shiftleft", ">>": "shiftright", ">>>": "shiftrightunsigned"},
    {"+": "add", "-": "subtract", "||": "concat"},
    {"*": "multiply", "/": "divide", "%": "remainder", "DIV": "div"},
)
KSQL_OF_TIMES = frozenset(
    (
        *("avg", "max", "min", "sum", "stddev_samp", "stddev_sample", "collect_list", "collect_set", "count_distinct"),
        *("earliest_by_offset", "latest_by_offset", "attr"),
    )
)
KSQL_LEVELS: tuple[dict[str, str], ...] = (
    {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"},
    {"||": "concat"},
    {"+": "add", "-": "subtract"},
    {"*": "multiply", "/": "divide", "%": "remainder"},
)
PREDICATES = ("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP")  # what may have NOT before it
SPECIAL_CALLS = (
    "CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "SUBSTR", "OVERLAY", "TRIM", "TIMESTAMPADD", "DATEADD", "DATE_ADD", "TIMESTAMPDIFF",
    "DATEDIFF", "DATE_DIFF", "TIMEDIFF",
)  # fmt: skip


class BinaryOperator(NamedTuple):
    """An operator between two values: the `function` that the tree calls, and its level: higher ones bind tighter."""

    function: str
    level: int


@dataclass(frozen=True)
class Dialect:
    """
    How expressions are written.

    `reserved` are the words that name a column in backticks alone. `not_given` are those which statements give as a name in backticks alone:
    also words that begin clauses, and units, which a query would take for something else in some places. `operators` and `unary` give the
    functions that signs call, and `predicates` the words that may have NOT before them. `special_calls` are the functions whose arguments are
    written in ways of their own. `of_times` are the aggregates that are those of ROWTIME if they have `*`, or nothing.

    `has_escapes`: a backslash in a text escapes what follows it, and `"…"` is a text; without, `"…"` is a name. `has_capital_names`: names
    without quotes are read in capitals. `has_arrows`: fields are written `a->b` and lambdas `x => e`, ARRAY[…], MAP(k := v), STRUCT(f := v)
    make nested values, units are arguments, and comparisons do not chain; without, `a.b`, `x -> e`, and Spark's literals with types and
    suffixes, intervals, rows in parentheses and `::`.
    """

    name: str
    reserved: frozenset[str]
    not_given: frozenset[str]
    operators: Mapping[str, BinaryOperator]
    unary: Mapping[str, str]
    predicates: frozenset[str]
    special_calls: frozenset[str]
    of_times: frozenset[str]
    has_escapes: bool
    has_capital_names: bool
    has_arrows: bool

    def as_name(self, text: str) -> str:
        """A name without quotes as it is meant."""
        return text.upper() if self.has_capital_names else text


def operators_of(levels: tuple[dict[str, str], ...]) -> dict[str, BinaryOperator]:
    """The operators of levels, from loose to tight."""
    return {sign: BinaryOperator(function, level) for level, signs in enumerate(levels) for sign, function in signs.items()}


SPARK = Dialect(
    name="spark",
    reserved=RESERVED,
    not_given=RESERVED | CLAUSE_WORDS,
    operators=operators_of(LEVELS),
    unary=UNARY,
    predicates=frozenset(PREDICATES),
    special_calls=frozenset(SPECIAL_CALLS),
    of_times=frozenset(),
    has_escapes=True,
    has_capital_names=False,
    has_arrows=False,
)
KSQL = Dialect(
    name="ksql",
    reserved=KSQL_RESERVED,
    not_given=KSQL_RESERVED | CLAUSE_WORDS | frozenset(UNIT_ARGUMENTS),
    operators=operators_of(KSQL_LEVELS),
    unary={"-": "negate", "+": "positive"},
    predicates=frozenset(("BETWEEN", "IN", "LIKE")),
    special_calls=frozenset(("CAST",)),
    of_times=KSQL_OF_TIMES,
    has_escapes=False,
    has_capital_names=True,
    has_arrows=True,
)
DIALECTS = {dialect.name: dialect for dialect in (SPARK, KSQL)}
