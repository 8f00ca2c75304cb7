"""SQL text without Spark: what is refused, and how the refusal reads."""

from __future__ import annotations

import decimal
from pathlib import Path

import pytest

from streamkit import functions as F
from streamkit.errors import Location, TopologyError, UnsupportedExpressionError
from streamkit.expressions.analysis.sql import parse_sql
from streamkit.plan.expression import Alias, Call, Lambda, Literal, Reference, SuffixedNumber
from tests.unit.expressions.parity.families import read_family

REFUSED = read_family(Path(__file__).with_name("refused.sql"))


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_something_else_is_refused(text):
    """A text that Spark takes for more than a value of the row, or that is no SQL, is refused with the text and the user's line."""
    with pytest.raises(TopologyError) as caught:
        parse_sql(text, Location("a.py", 3))

    assert text[:20] in str(caught.value)
    assert str(caught.value).endswith("at a.py:3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", r"found b at character 3 \(a name for the result stands behind AS\); expected an operator or the end, in a b"),
        ("a + end", r"`end`\); expected a value"),
        ("CASE WHEN a b END", "expected THEN"),
        ("a > ", "found the end at character 5; expected a value"),
        ("'abc", "a quote or a comment is not closed"),
        ("sum(DISTINCT a)", "DISTINCT"),
        ("a:b", "get_json_object"),
        ("300Y", "300Y does not fit into tinyint"),
        ("DATE '2013-13-01'", "'2013-13-01' is no date"),
        ("CAST(a AS nosuchtype)", "the type 'nosuchtype' cannot be a column's"),
    ],
)
def test_refusals_say_where_and_what(text, message):
    """The message names the word, its place, and what is expected there."""
    with pytest.raises(TopologyError, match=message):
        parse_sql(text)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a || b + 1", Call("add", (Call("concat", (Reference("a"), Reference("b"))), Literal(1)))),
        ("'it''s'", Literal("it's")),
        ("'\\u0041\\n\\%'", Literal("A\n\\%")),
        ("-1", Literal(-1)),
        ("2S", SuffixedNumber(Literal(2), "smallint")),
        ("1.50", Literal(decimal.Decimal("1.50"))),
        ("1.5D", Literal(1.5)),
        ("9223372036854775808", Literal(decimal.Decimal(2**63))),
        ("a.b.c", Reference("a.b.c")),
        ("f(a).b[0]", Call("get_item", (Call("get_field", (Call("f", (Reference("a"),)), Literal("b"))), Literal(0)))),
        ("f(x -> x)", Call("f", (Lambda(("x",), Reference("x")),))),
        ("trim('x', s)", Call("trim", (Reference("s"), Literal("x")))),
        ("timestampadd(day, 1, t)", Call("timestampadd", (Literal("DAY"), Literal(1), Reference("t")))),
        ("a AS b", Alias(Reference("a"), "b")),
        ("show > 1 -- a word that starts a command elsewhere", Call("gt", (Reference("show"), Literal(1)))),
    ],
)
def test_texts_become_trees(text, tree):
    """The tree is the one that the same expression has in Python."""
    assert parse_sql(text) == tree


@pytest.mark.parametrize(
    ("text", "message"), [("a +", "syntax error"), ("uper(a)", "did you mean upper"), ("rand() > 1", "depends on when")]
)
def test_text_is_refused_at_the_call(text, message):
    """A typo is an error of the line that has it, before any schema is known."""
    with pytest.raises(TopologyError, match=message) as caught:
        F.expr(text)
    assert caught.value.at is not None
    assert caught.value.at.file == __file__


def test_an_unknown_function_names_the_nearest():
    """The message helps with a typo."""
    with pytest.raises(UnsupportedExpressionError, match="Spark has no function 'lenth'; did you mean length"):
        F.expr("lenth(a)")


def test_deep_nesting_is_an_error_of_the_text():
    """A text that is nested too deeply is refused with the limit, not a RecursionError; as many levels as the documents promise are read."""
    for levels in (200, 5000):
        with pytest.raises(
            TopologyError, match=r"nested too deeply; expected at most some 200 levels, in SQL text some 40 .*; found "
        ):
            parse_sql("upper(" * levels + "a" + ")" * levels)
    assert isinstance(parse_sql("upper(" * 40 + "a" + ")" * 40), Call)


def test_long_chains_of_conditions_are_not_deep():
    """As in Spark, whose tree has the halves of a chain side by side; so five thousand conditions are read."""
    assert parse_sql("a AND b AND c AND d AND e") == parse_sql("((a AND b) AND c) AND (d AND e)")
    assert isinstance(parse_sql(" OR ".join(f"a = {number}" for number in range(5_000))), Call)
