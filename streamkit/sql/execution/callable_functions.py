"""The functions that statements of a dialect may call, and the description of each."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from streamkit.expressions.aggregates import AGGREGATES
from streamkit.expressions.aggregates.ksql import families as ksql_aggregates  # noqa: F401 - enters the aggregates
from streamkit.expressions.aggregates.ksql.signature import KSQL_AGGREGATES
from streamkit.expressions.core.operation import FUNCTIONS
from streamkit.expressions.ksql import families as ksql_functions  # noqa: F401 - enters the functions
from streamkit.expressions.ksql.function import KSQL_FUNCTIONS
from streamkit.expressions.sql.dialect import DIALECTS, KSQL
from streamkit.plan.expression_text import OF_KSQL
from streamkit.sql.lowering.expression_parts import EXPLODING

SCALAR, AGGREGATE, OF_TABLES = "function", "aggregate", "table function"
OF_SQL_ALONE = {  # which Python has in other ways, or not
    "if": "The second value where the condition is true, else the third one.",
    "len": "How many characters a text has, or how many bytes.",
    "luhn_check": "Whether the digits of a text are a number with a right check digit, by Luhn's rule.",
    "map": "A map of keys and values, which take turns.",
    "mod": "The remainder of a division, with the sign of the first number.",
    "timestampadd": "A time that is so many of a unit later, as in timestampadd(HOUR, 2, at).",
    "timestampdiff": "How many whole units are between two times, as in timestampdiff(HOUR, begun, ended).",
    "try_cast": "A value in another type, and null where it cannot be: try_cast(x AS INT).",
}
KSQL_TABLE_FUNCTIONS = {
    "explode": ("EXPLODE(ARRAY<T>)", "A row for each element of an array."),
    "cube_explode": (
        "CUBE_EXPLODE(ARRAY<T>)",
        "A row for each combination of the elements of an array, with null in their places; of none there is one, an empty array.",
    ),
}


@dataclass(frozen=True, order=True)
class CallableFunction:
    """A function: its name as people write it, its kind, and its meaning in a sentence, behind its signatures if there are any."""

    name: str
    kind: str
    meaning: str = ""


@lru_cache(maxsize=len(DIALECTS))
def functions(dialect: str) -> tuple[CallableFunction, ...]:
    """The functions of a dialect and its aggregates, by name."""
    if dialect == KSQL.name:
        found = [CallableFunction(one.name.upper(), SCALAR, _said(one.texts, one.effect)) for one in KSQL_FUNCTIONS.values()]
        found += [CallableFunction(one.name.upper(), AGGREGATE, _said(one.texts, one.effect)) for one in KSQL_AGGREGATES.values()]
        found += [
            CallableFunction(name.upper(), OF_TABLES, f"{text}: {effect}")
            for name, (text, effect) in KSQL_TABLE_FUNCTIONS.items()
        ]
        return tuple(sorted(found))
    from streamkit import functions as handles

    names = {(name, SCALAR) for name in (*FUNCTIONS, "struct") if name in OF_SQL_ALONE or hasattr(handles, name)}
    names |= {(name, AGGREGATE) for one in AGGREGATES.values() if one.is_called for name in (one.name, *one.functions)}
    names |= {(name, OF_TABLES) for name in EXPLODING}
    return tuple(sorted(CallableFunction(name, kind) for name, kind in names if not name.startswith(OF_KSQL)))


def functions_called(dialect: str, name: str) -> list[CallableFunction]:
    """The function of a name, and the aggregate, with their meaning; none if there is neither."""
    found = [one for one in functions(dialect) if one.name.lower() == name.lower()]
    if dialect == KSQL.name:
        return found
    from streamkit import functions as handles

    handle = getattr(handles, name.lower(), None)
    text = OF_SQL_ALONE.get(name.lower(), "") if handle is None else (handle.__doc__ or "").strip()
    return [CallableFunction(one.name, one.kind, text) for one in found]


def nearest_function(dialect: str, name: str, others: Sequence[str]) -> str:
    """The name of the dialect, or of others, that is spelt most like another one; empty if none is."""
    names = {one.lower(): one for one in (*(one.name for one in functions(dialect)), *others)}
    return next((names[one] for one in difflib.get_close_matches(name.lower(), names, 1)), "")


def _said(texts: tuple[str, ...], effect: str) -> str:
    return f"{', '.join(texts)}: {effect}"
