"""Expressions in ksqlDB's dialect: the trees that they mean, and what is none."""

from __future__ import annotations

import decimal

import pytest

from streamkit.expressions.analysis.sql import is_value
from streamkit.expressions.sql.dialect import KSQL, SPARK
from streamkit.expressions.sql.expression_reader import ExpressionReader
from streamkit.expressions.sql.refusal import SqlRefusedError
from streamkit.expressions.sql.words import words
from streamkit.plan.expression import Alias, Call, Cast, Lambda, Literal, Reference

A, B, C = (Reference(name) for name in "ABC")


def read(text):
    """The tree of an expression in ksqlDB's dialect."""
    return ExpressionReader(text, words(text, KSQL), KSQL, is_value).whole()


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", A),
        ("`a`", Reference("a")),
        ('"a ""b"', Reference('a "b')),
        ("`a.b`", Reference("`a.b`")),
        ("1a", Reference("1A")),
        ("s.a", Reference("S.A")),
        ("a->b", Call("get_field", (A, Literal("B")))),
        ("s.a->`b`->c", Call("get_field", (Call("get_field", (Reference("S.A"), Literal("b"))), Literal("C")))),
        ("a[1]", Call("get_item", (A, Literal(1)))),
        ("'it''s \\n'", Literal("it's \\n")),
        ("9223372036854775807", Literal(2**63 - 1)),
        ("-9223372036854775808", Literal(-(2**63))),
        ("1.50", Literal(decimal.Decimal("1.50"))),
        ("5.", Literal(decimal.Decimal(5))),
        (".5", Literal(decimal.Decimal("0.5"))),
        ("1e3", Literal(1000.0)),
        ("DECIMAL '10'", Literal(decimal.Decimal(10))),
        ("a || b + c", Call("concat", (A, Call("add", (B, C))))),
        ("a = b || c", Call("eq", (A, Call("concat", (B, C))))),
        ("a <> b AND NOT a >= c", Call("and", (Call("ne", (A, B)), Call("not", (Call("ge", (A, C)),))))),
        ("a BETWEEN b AND c", Call("between", (A, B, C))),
        ("a NOT IN (b, c)", Call("not", (Call("in", (A, B, C)),))),
        ("a LIKE 'x!%' ESCAPE '!'", Call("like", (A, Literal("x!%"), Literal("!")))),
        ("a IS DISTINCT FROM b", Call("not", (Call("eq_null_safe", (A, B)),))),
        ("a IS NOT NULL", Call("isnotnull", (A,))),
        ("CASE WHEN a THEN b ELSE c END", Call("when", (A, B, C))),
        ("ARRAY[a, b]", Call("array", (A, B))),
        ("ARRAY[]", Call("array", ())),
        ("MAP('k' := a, b := c)", Call("map", (Literal("k"), A, B, C))),
        ("STRUCT(x := a, `y` := b)", Call("struct", (Alias(A, "X"), Alias(B, "y")))),
        ("CAST(a AS int)", Cast(A, "int")),
        ("Ucase(a)", Call("ucase", (A,))),
        ("COUNT(*)", Call("count", (Literal(1),))),
        ("filter(a, x => x > b)", Call("filter", (A, Lambda(("X",), Call("gt", (Reference("X"), B)), keeps_case=True)))),
        ("f(a, (k, v) => k)", Call("f", (A, Lambda(("K", "V"), Reference("K"), keeps_case=True)))),
        ("TIMESTAMPADD(DAYS, 1, a)", Call("timestampadd", (Literal("DAYS"), Literal(1), A))),
        ("TIMESTAMPADD(day, 1, a)", Call("timestampadd", (Literal("DAY"), Literal(1), A))),
        ("f(day, 1)", Call("f", (Reference("DAY"), Literal(1)))),
        ("a AT TIME ZONE 'UTC'", Call("at_time_zone", (A, Literal("UTC")))),
        ("-a * b", Call("multiply", (Call("negate", (A,)), B))),
    ],
)
def test_texts_become_trees(text, tree):
    """The tree has the names of Spark's operators, whatever the dialect."""
    assert read(text) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CASE a WHEN 1 THEN b END", "expected conditions, as in CASE WHEN A = 1 THEN"),
        ("a = b = c", "found = at character 7; expected an operator or the end"),
        ("a IS NULL IS NULL", "expected an operator"),
        ("9223372036854775808", "9223372036854775808 does not fit into BIGINT"),
        ("s.a.b", "a field of a struct is written column->field"),
        ("a & b", "found &"),
        ("'a' 'b'", "found 'b'"),
        ("'a", "a quote or a comment is not closed"),
        ("/* a /* b */ c */", "found /"),
        ("x => x", "a lambda stands only as an argument"),
        ("(a, b)", "expected )"),
        ("MAP(a, b)", "expected :="),
        ("DECIMAL 'x'", "'x' is no decimal"),
    ],
)
def test_what_ksqldb_does_not_read_is_refused(text, message):
    """A text of another dialect is an error, and no other tree."""
    with pytest.raises(SqlRefusedError) as caught:
        read(text)

    assert message in str(caught.value)


def test_nodes_know_where_they_are_written():
    """Each node of the tree has a place, which is the text that means it."""
    text = "a->b + ucase( c ) * -1"
    reader = ExpressionReader(text, words(text, KSQL), KSQL, is_value)
    tree = reader.whole()

    def texts(node):
        start, end = reader.places[id(node)]
        return [text[start:end], *(inner for one in getattr(node, "arguments", ()) for inner in texts(one))]

    assert texts(tree) == [text, "a->b", "a", "b", "ucase( c ) * -1", "ucase( c )", "c", "-1"]


def test_calls_within_calls_are_read_in_time():
    """A function whose arguments can be written in two ways is not read twice at each level, which would take hours here."""
    text = "a"
    for _ in range(50):
        text = f"substring({text}, 1)"

    assert isinstance(ExpressionReader(text, words(text, SPARK), SPARK, is_value).whole(), Call)
