"""Random trees of SQL, for properties of its reader and printer."""

from __future__ import annotations

import decimal

from hypothesis import strategies as st

from streamkit.data_type import array_of, map_of, struct_of
from streamkit.expressions.sql.dialect import KSQL, LEVELS, SPARK, UNIT_ARGUMENTS
from streamkit.expressions.sql.expression_reader import CASTS
from streamkit.expressions.sql.literal_reader import INTERVAL_UNITS
from streamkit.expressions.sql.special_calls import TRIMS, UNITS, WITH_UNIT
from streamkit.plan.dotted_name import part
from streamkit.plan.expression import Alias, Call, Cast, Lambda, Literal, Reference, SuffixedNumber
from streamkit.sql.printer.names import QUOTED
from streamkit.sql.reader.clause_reader import CLAUSES
from streamkit.sql.reader.statement_reader import SHOWN, SHOWN_BY_TWO, STATEMENTS
from streamkit.sql.tree.query import (
    FieldsStar,
    JoinClause,
    Order,
    Query,
    SelectColumn,
    SourceName,
    Star,
    Subquery,
    WindowClause,
    Within,
)
from streamkit.sql.tree.span import Name, Written
from streamkit.sql.tree.statements import (
    AlterSource,
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    ColumnDefinition,
    ControlQuery,
    CreateAs,
    CreateConnector,
    CreateSource,
    CreateType,
    Define,
    DeleteRows,
    Describe,
    DropConnector,
    DropSource,
    DropType,
    Explain,
    InsertQuery,
    InsertValues,
    Print,
    Property,
    RunScript,
    SelectStatement,
    Set,
    Show,
)
from streamkit.sql.tree.type_names import named_type

WORDS = sorted(
    {
        *SPARK.reserved, *CLAUSES, *QUOTED, *STATEMENTS, *SHOWN, *SHOWN_BY_TWO, *UNIT_ARGUMENTS, *UNITS, *INTERVAL_UNITS, *TRIMS, *WITH_UNIT,
        *[
            "R", "X", "ARRAY", "MAP", "STRUCT", "DECIMAL", "DATE", "TIMESTAMP", "TIME", "KEY", "PRIMARY", "HEADERS", "HEADER", "CHANGES",
            "FINAL", "BY", "ASC", "DESC", "NULLS", "FIRST", "LAST", "WITHIN", "GRACE", "PERIOD", "SIZE", "ADVANCE", "RETENTION", "CAST",
            "TRY_CAST", "TOPIC", "SCHEMA", "SUBJECT", "ID", "TIMEOUT", "NOT", "EXISTS", "REPLACE", "INTO", "ZONE", "FOR", "PLACING",
        ],
    }
)  # fmt: skip
CHARACTERS = st.characters(exclude_categories=["Cs"])
ANY_TEXT = st.text(CHARACTERS, max_size=8) | st.text("'\"\\`$ {}a;-\n", max_size=6) | st.just("${a}$${b}")
NAMES = (
    st.sampled_from(["a", "b", "C", "a_1", "é", "1a", "_"])
    | st.sampled_from(WORDS)
    | st.sampled_from(WORDS).map(str.lower)
    | st.text(CHARACTERS, min_size=1, max_size=5)
    | st.text('.`" ${}a', min_size=1, max_size=5)
)
FUNCTIONS = (
    st.sampled_from(
        [
            "upper",
            "f",
            "count",
            "trim",
            "ltrim",
            "substring",
            "position",
            "overlay",
            "extract",
            "interval",
            "timestampadd",
            "in",
            "like",
        ]
    )
    | st.sampled_from(
        ["cast", "try_cast", "array", "map", "struct", "when", "and", "not", "between", "get_item", "get_field", "eq_null_safe"]
    )
    | st.sampled_from(sorted({function for level in LEVELS for function in level.values()}))
    | NAMES.map(str.lower).filter(lambda name: name.upper().lower() == name == name.lower())
)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9) | st.builds(
    lambda digits, exponent: decimal.Decimal((digits < 0, tuple(map(int, str(abs(digits)))), exponent)),
    st.integers(-(10**20), 10**20),
    st.integers(-18, 17),
)
DECIMALS = DECIMALS.filter(lambda value: value != 0 or str(value)[0] != "-")
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
MILLIS = st.integers(0, 10**6) | st.sampled_from([0, 1000, 60_000, 3_600_000, 86_400_000, 604_800_000, 5 * 604_800_000])
ATOMIC_TYPES = st.sampled_from(
    [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "decimal(4,2)",
        "time",
    ]
)
OF_SPARK_ALONE = ("tinyint", "smallint", "float", "timestamp_ntz")


def unnamed(strategy):
    """The same, whose text is short: that of strategies within each other doubles with each level."""

    @st.composite
    def drawn(draw):
        return draw(strategy)

    return drawn()


def optional(strategy):
    """A value, or none."""
    return st.none() | strategy


def tuples(strategy, smallest=0, largest=3):
    """A few values."""
    return st.lists(strategy, min_size=smallest, max_size=largest).map(tuple)


def types(names=True, dialect=SPARK):
    """Types of columns that a dialect has, also such as have parts that CREATE TYPE makes."""
    keys = st.sampled_from(["string", "int"])
    atomic = ATOMIC_TYPES.filter(lambda name: name not in OF_SPARK_ALONE) if dialect is KSQL else ATOMIC_TYPES
    leaves = atomic | NAMES.map(named_type) if names else atomic.filter(lambda name: name != "time")
    fields = st.lists(NAMES, min_size=1, max_size=3, unique_by=str.lower)
    return unnamed(
        st.recursive(
            unnamed(leaves),
            lambda inner: (
                st.builds(array_of, inner)
                | st.builds(map_of, keys, inner)
                | st.builds(lambda names, types: struct_of(zip(names, types)), fields, st.lists(inner, min_size=3, max_size=3))
            ),
            max_leaves=4,
        )
    )


class Trees:
    """Strategies of the trees that a dialect can say."""

    def __init__(self, dialect):
        self.dialect = dialect
        self.is_ksql = dialect is KSQL
        parts = st.lists(NAMES, min_size=1, max_size=2 if self.is_ksql else 4)
        self.references = parts.map(lambda names: Reference(".".join(map(part, names))))
        self.literals = st.builds(Literal, st.none() | st.booleans() | INTEGERS | ANY_TEXT | DECIMALS | FLOATS)
        if not self.is_ksql:
            self.literals |= st.builds(Literal, st.binary(max_size=4)) | self.suffixed()
        self.expressions = unnamed(st.recursive(unnamed(self.references | self.literals), self.larger, max_leaves=8))
        self.written = self.expressions.map(Written)
        self.names = NAMES.map(Name)
        self.topics = st.text(CHARACTERS, min_size=1, max_size=6).map(Name)
        self.columns = st.builds(ColumnDefinition, self.names, types(dialect=self.dialect)) | st.builds(
            ColumnDefinition, self.names, types(dialect=self.dialect), st.sampled_from(["key", "primary key", "headers"])
        ) | st.builds(ColumnDefinition, self.names, types(dialect=self.dialect), st.just("headers"), ANY_TEXT)  # fmt: skip
        self.queries = unnamed(self.query(unnamed(self.query(st.nothing()))))

    def suffixed(self):
        """Numbers with a suffix."""
        small = st.integers(-(2**7), 2**7 - 1).map(Literal)
        return st.builds(SuffixedNumber, small, st.sampled_from(["tinyint", "smallint", "bigint"]))

    def larger(self, inner):
        """Expressions around others."""
        inner = unnamed(inner)
        two = st.tuples(inner, inner)
        operators = st.sampled_from(sorted(one.function for one in self.dialect.operators.values()))
        arguments = tuples(inner | self.lambdas(inner), largest=4)
        return (
            st.builds(Call, operators, two)
            | st.builds(Call, st.sampled_from(["and", "or"]), two)
            | st.builds(
                Call, st.sampled_from(["not", *self.dialect.unary.values(), "isnull", "isnotnull"]), inner.map(lambda one: (one,))
            )
            | st.builds(Call, FUNCTIONS, arguments).filter(self.can_say)
            | self.predicates(inner)
            | st.builds(Call, st.just("when"), tuples(inner, 2, 5))
            | st.builds(lambda value, name: Call("get_field", (value, Literal(name))), inner, NAMES)
            | st.builds(Call, st.just("get_item"), two)
            | st.builds(Call, st.just("struct"), self.fields(inner))
            | st.builds(Cast, inner, types(dialect=self.dialect)).filter(lambda cast: not is_folded(cast))
            | self.own(inner)
        )

    def predicates(self, inner):
        """Predicates, with and without NOT."""
        found = (
            st.builds(Call, st.just("between"), st.tuples(inner, inner, inner))
            | st.builds(Call, st.just("in"), tuples(inner, 2, 4))
            | st.builds(Call, st.sampled_from(["like", "ilike", "rlike"]), st.tuples(inner, inner))
            | st.builds(Call, st.just("like"), st.tuples(inner, inner, st.text(CHARACTERS, min_size=1, max_size=1).map(Literal)))
            | st.builds(Call, st.just("eq_null_safe"), st.tuples(inner, inner))
        )
        return found | found.map(lambda one: Call("not", (one,)))

    def lambdas(self, inner):
        """Lambdas, which are arguments alone."""
        return st.builds(Lambda, tuples(NAMES, 1), inner, st.just(self.is_ksql))

    def fields(self, inner):
        """The arguments of struct: with names, or some in Spark."""
        named = st.builds(Alias, inner, NAMES)
        return tuples(named if self.is_ksql else named | inner, 1)

    def own(self, inner):
        """What one dialect alone has."""
        if self.is_ksql:
            units = st.sampled_from(["DAY", "DAYS", "HOURS"]).map(Literal)
            return (
                st.builds(Call, st.just("array"), tuples(inner))
                | st.builds(Call, st.just("map"), st.lists(inner, max_size=2).map(lambda keys: (*keys, *keys)))
                | st.builds(Call, st.sampled_from(["timestampadd", "datesub"]), st.tuples(units, inner, inner))
                | st.builds(Call, st.just("at_time_zone"), st.tuples(inner, st.just(Literal("UTC"))))
            )
        units = st.sampled_from(UNITS).map(Literal)
        intervals = st.tuples(st.sampled_from(["1", "-2", "1.5"]).map(Literal), st.sampled_from(INTERVAL_UNITS).map(Literal))
        return (
            st.builds(Call, st.just("interval"), intervals | st.just((Literal("1 day"),)))
            | st.builds(Call, st.sampled_from(["timestampadd", "timestampdiff"]), st.tuples(units, inner, inner))
            | st.builds(Call, st.just("try_cast"), st.tuples(inner, types(dialect=self.dialect).map(Literal)))
            | st.builds(Call, st.just("extract"), st.tuples(st.just(Literal("year")), inner))
        )

    def can_say(self, call):
        """Whether a call can be written in the dialect: a text of some others means another tree."""
        if self.is_ksql:
            return call.arguments != () or call.function not in ("count", *KSQL.of_times)  # COUNT() is COUNT(*) there
        if call.function == "struct" and any(isinstance(one, Lambda) for one in call.arguments):
            return False
        is_cast = call.function in CASTS and len(call.arguments) == 1
        return not is_cast and not (call.function in ("max_by", "min_by") and len(call.arguments) == 3)

    def query(self, queries):
        """Queries over sources, and over others."""
        written = unnamed(self.written)
        relations = st.builds(SourceName, self.names, optional(self.names)) | st.builds(Subquery, queries, optional(self.names))
        items = (
            st.builds(SelectColumn, written, optional(self.names))
            | st.builds(Star, optional(self.names))
            | st.builds(FieldsStar, written)
        )
        within = st.builds(Within, MILLIS, MILLIS, optional(MILLIS))
        joins = st.builds(JoinClause, st.sampled_from(["inner", "left", "right", "full"]), relations, written, optional(within))
        sizes = (optional(MILLIS), optional(MILLIS), optional(self.names))
        windows = st.builds(
            WindowClause, st.sampled_from(["tumbling", "session"]), MILLIS, st.none(), *sizes
        ) | st.builds(WindowClause, st.just("hopping"), MILLIS, MILLIS, *sizes)  # fmt: skip
        partitions = st.just(()) | tuples(written, 1).filter(lambda given: given != (Written(Literal(None)),))
        clauses = {
            "window": optional(windows),
            "where": optional(written),
            "group_by": optional(tuples(written, 1)),
            "partition_by": optional(partitions),
            "having": optional(written),
            "order_by": tuples(st.builds(Order, written, st.booleans(), optional(st.booleans()))),
            "emit": st.sampled_from(["", "changes", "final"]),
            "limit": optional(st.integers(0, 2**63 - 1)),
            "is_distinct": st.booleans(),
            "as_of": optional(written),
        }
        return st.builds(Query, tuples(items, 1), relations, tuples(joins, largest=2), **clauses) | st.builds(
            Query, tuples(items, 1), st.none(), **clauses
        )

    def statements(self):
        """Statements of all kinds."""
        names, written, flags = self.names, self.written, st.booleans()
        kinds = st.sampled_from(["stream", "table"])
        properties = self.properties()
        columns, plain = unnamed(tuples(self.columns)), st.builds(ColumnDefinition, names, types(dialect=self.dialect))
        listed = optional(tuples(names, 1))
        identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)
        texts = st.tuples(ANY_TEXT, ANY_TEXT)
        selects = unnamed(st.builds(SelectStatement, self.queries))
        shown = st.sampled_from([*(one.lower() for one in SHOWN), *(f"{one} {two}".lower() for one, two in SHOWN_BY_TWO.items())])
        with_more = ("topics", "all topics", "streams", "tables", "queries")
        found = [
            st.builds(CreateSource, kinds, names, columns, properties, flags, flags, flags),
            st.builds(CreateAs, kinds, names, self.queries, properties, flags, flags),
            st.builds(InsertQuery, names, self.queries, properties),
            st.builds(InsertValues, names, listed, tuples(tuples(written, 1), 1)),
            st.builds(DeleteRows, names, written),
            st.builds(DropSource, kinds, names, flags, flags, flags),
            st.builds(AlterSource, kinds, names, tuples(plain, 1)),
            st.builds(CreateType, names, types(dialect=self.dialect), flags),
            st.builds(DropType, names, flags),
            selects,
            st.builds(Describe, st.just("source"), names, flags)
            | st.builds(Describe, st.sampled_from(["streams", "tables"]), st.none(), flags),
            st.builds(Describe, st.sampled_from(["function", "connector"]), names),
            st.builds(Show, shown, flags).filter(lambda show: not show.is_extended or show.subject in with_more),
            st.builds(Print, self.topics, flags, optional(st.integers(0, 9)), optional(st.integers(0, 9))),
            st.builds(ControlQuery, st.sampled_from(["terminate", "pause", "resume"]), optional(names)),
            st.builds(Set, ANY_TEXT, ANY_TEXT, flags) | st.builds(Set, ANY_TEXT, st.none()),
            st.builds(Define, identifiers, optional(ANY_TEXT)),
            st.builds(RunScript, ANY_TEXT),
            st.builds(CreateConnector, st.sampled_from(["source", "sink"]), names, tuples(texts, 1), flags),
            st.builds(DropConnector, names, flags),
            st.builds(AssertTopic, self.topics, flags, properties, optional(MILLIS)),
            st.builds(AssertSchema, self.topics, optional(st.integers(0, 9)), flags, optional(MILLIS)),
            st.builds(AssertSchema, st.none(), st.integers(0, 9), flags, optional(MILLIS)),
            st.builds(AssertValues, names, listed, tuples(written, 1), flags),
            st.builds(AssertSource, kinds, names, tuples(self.columns, 1), properties),
        ]
        all_kinds = st.one_of(*map(unnamed, found))
        return all_kinds | st.builds(Explain, names | all_kinds)

    def properties(self):
        """What WITH says: names in capitals, each once."""
        names = (st.sampled_from(["KAFKA_TOPIC", "A", "SELECT"]) | ANY_TEXT.map(str.upper)).filter(
            lambda name: name.upper() == name
        )
        values = ANY_TEXT | st.integers(-(10**30), 10**30) | FLOATS | st.booleans() | st.none()
        return st.lists(st.builds(Property, names, values), max_size=3, unique_by=lambda one: one.name).map(tuple)


def is_folded(cast):
    """Whether the reader makes a literal of a cast."""
    value = cast.expression.value if isinstance(cast.expression, Literal) else None
    return cast.type == "double" and isinstance(value, (int, float)) and not isinstance(value, bool)


TREES = {"spark": Trees(SPARK), "ksql": Trees(KSQL)}
