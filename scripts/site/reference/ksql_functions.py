"""The page of ksqlDB's functions, by the family that evaluates them."""

from __future__ import annotations

from collections import defaultdict

from scripts.site.reference.sentences import row, table
from streamkit.expressions.aggregates.ksql import families as aggregates  # noqa: F401 - enters the aggregates
from streamkit.expressions.aggregates.ksql.signature import KSQL_AGGREGATES
from streamkit.expressions.ksql import families  # noqa: F401 - enters the functions
from streamkit.expressions.ksql.function import KSQL_FUNCTIONS
from streamkit.expressions.ksql.refused import REFUSED, called

INTRODUCTION = """# Functions of the ksql dialect

Expressions of the [ksql dialect](../sql.md) call these functions, which are ksqlDB's.
`SET 'streamkit.sql.dialect' = 'ksql'` chooses the dialect; [functions](functions.md) has those of Spark's.
`T`, `U` and other single letters are any type, the same in all places of a signature; `…` says that more arguments may follow.
INTEGER widens to BIGINT, DECIMAL and DOUBLE without a CAST; every other change of type needs one.
A function of null is null, where its line says nothing else; one that fails makes its column null in that row.
As an argument of another function it is null alone ([SQL](../sql.md#expressions-of-the-ksql-dialect)).
"""
TITLES = {
    "texts": "Texts",
    "regular_expressions": "Regular expressions",
    "mathematics": "Numbers",
    "arrays": "Arrays",
    "maps": "Maps",
    "lambdas": "Lambdas",
    "nulls": "Nulls",
    "times": "Dates and times",
    "times_of_day": "Times of the day",
    "json": "JSON",
    "urls": "URLs",
    "bytes": "Bytes and encodings",
}


def page() -> str:
    """The text of the page."""
    lines = [INTRODUCTION, "## Aggregates", "", *table("aggregate", "what it gives")]
    lines += [row(_signatures(one.texts), one.effect) for _, one in sorted(KSQL_AGGREGATES.items())]
    found = defaultdict(list)
    for _, one in sorted(KSQL_FUNCTIONS.items()):
        found[one.family].append(row(_signatures(one.texts), one.effect))
    for family, title in TITLES.items():
        lines += ["", f"## {title}", "", *table("function", "what it gives"), *found.pop(family)]
    assert not found, f"families without a title: {', '.join(found)}"
    lines += ["", "## Functions that StreamKit lacks", "", *table("function", "why")]
    lines += [row(f"`{called(name)}`", f"{reason}.") for name, reason in sorted(REFUSED.items())]
    return "\n".join(lines)


def _signatures(texts: tuple[str, ...]) -> str:
    return ", ".join(f"`{text}`" for text in texts)
