"""The page of all functions, by the family that evaluates them."""

from __future__ import annotations

from collections import defaultdict

from scripts.site.reference.sentences import first_sentence, row, table
from streamkit import functions as F

INTRODUCTION = """# Functions

These are the functions of `streamkit.functions`, which is imported as `F`.
They have the names, the arguments and the results of `pyspark.sql.functions`, by Spark's ANSI rules.
Nothing is computed when one is called: it gives a `Column`, which the application evaluates on Arrow batches.
Another function of `pyspark.sql.functions` is refused where it is called; the error says what there is instead.
The same functions can be written as SQL, in conditions such as `filter("upper(city) = 'OSLO'")`, and in `F.expr`.
How types are found: [expressions](../expressions.md).
"""
FAMILIES = {
    "aggregates": "Aggregates",
    "numbers": "Numbers",
    "texts": "Texts",
    "times": "Times",
    "logic": "Conditions and nulls",
    "nested": "Arrays, maps and structs",
    "json": "JSON",
    "casts": "Casts",
    "python": "Python functions",
    "core": "Columns",
    "columns": "Columns",
    "explosions": "Several records of one",
}


def page() -> str:
    """The text of the page."""
    families = defaultdict(list)
    for name in dir(F):
        function = getattr(F, name)
        family = function.__module__.split(".")[2]
        families[FAMILIES.get(family, "Others")].append(row(f"`{name}`", first_sentence(function)))
    lines = [INTRODUCTION]
    for family in dict.fromkeys([*FAMILIES.values(), "Others"]):
        if family in families:
            lines += [f"## {family}", "", *table("function", "what it gives"), *families[family], ""]
    return "\n".join(lines)
