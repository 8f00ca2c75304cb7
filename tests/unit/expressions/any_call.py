"""Calls of any function of `streamkit.functions` that the analysis takes, found by trying arguments."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from typing import Any

from streamkit import functions as F
from streamkit.errors import Location, StreamKitError
from streamkit.expressions.aggregates import AGGREGATES
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.catalyst import Analysed, Recorder
from streamkit.schema import Schema

SCHEMA = Schema.parse(
    "i int, b bigint NOT NULL, s string, d double, f boolean, m decimal(10,2), ts timestamp, dt date, bin binary, tn timestamp_ntz, "
    "ai array<int>, names array<string>, st struct<x:int,y:string>, mp map<string,int>, aa array<array<int>>, ast array<struct<x:int,y:string>>"
)
NUMBERS, TEXTS = (0, 1, 2, 0.5, 16), ("a", "1", "day", "x int", "yyyy-MM-dd", "UTC", "$.a")
LAMBDAS = (lambda x: x, lambda x: x.isNotNull(), lambda x, y: x, lambda x, y: y.isNotNull(), lambda x, y, z: z)
BY_HAND = {  # what is rarely found, or refused by Spark otherwise
    "aggregate": lambda: F.aggregate("ai", F.lit(0), lambda sum, x: sum + x),
    "concat_ws": lambda: F.concat_ws("-", "s", "names"),
    "element_at": lambda: F.element_at("ai", 1),
    "from_json": lambda: F.from_json("s", "x int"),
    "make_dt_interval": lambda: F.col("ts") + F.make_dt_interval("i"),
    "make_interval": lambda: F.col("ts") + F.make_interval("i"),
    "make_ym_interval": lambda: F.col("dt") + F.make_ym_interval("i"),
    "map_zip_with": lambda: F.map_zip_with("mp", "mp", lambda key, one, other: one + other),
    "reduce": lambda: F.reduce("ai", F.lit(0), lambda sum, x: sum + x),
    "try_element_at": lambda: F.try_element_at("ai", F.lit(1)),
    "zip_with": lambda: F.zip_with("ai", "ai", lambda one, other: one + other),
}
OF_AGGREGATES = {name for one in AGGREGATES.values() for name in (one.name, *one.functions)}
OF_USERS = {"udf", "pandas_udf", "arrow_udf"}
OF_ROWS = {"explode", "explode_outer", "posexplode", "posexplode_outer"}
NAMES = sorted(set(dir(F)) - OF_USERS - OF_ROWS)
TRIES_MAX, TRIES_FOR_MORE = 5_000, 100


def calls_of(name: str, count: int) -> list[Analysed]:
    """Up to so many calls of a function, each with the type that the analysis gives it."""
    chance, found = random.Random(name), dict[str, Analysed]()
    if name in BY_HAND:
        return list(analysed(name, BY_HAND[name]))
    for place in range(TRIES_MAX):
        found |= {str(call.expression): call for call in analysed(name, lambda: random_call(chance, name))}
        if len(found) == count or (found and place > TRIES_FOR_MORE):
            break
    return list(found.values())


def random_call(chance: random.Random, name: str) -> Any:
    function = getattr(F, name)
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    required = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty and one.kind in (0, 1)]
    most = sum(kind in (0, 1) for kind in kinds) + 3 * (inspect.Parameter.VAR_POSITIONAL in kinds)
    return function(*(argument(chance) for _ in range(chance.randint(len(required), most))))


def argument(chance: random.Random) -> Any:
    return chance.choice((F.col(chance.choice(SCHEMA.names)), F.col(chance.choice(SCHEMA.names)), chance.choice(SCHEMA.names),
                          chance.choice(NUMBERS), chance.choice(TEXTS), F.lit(chance.choice((*NUMBERS, *TEXTS))), chance.choice(LAMBDAS)))  # fmt: skip


def analysed(name: str, call: Any) -> Iterator[Analysed]:
    """The call with its type; nothing if it was refused."""
    recorder = Recorder(ExpressionAnalyzer())
    try:
        columns = [("x", call().expression)]
        (recorder.aggregates if name.lower() in OF_AGGREGATES else recorder.project)(SCHEMA, columns, Location("any_call.py", 1))
    except (StreamKitError, TypeError, ValueError, AttributeError):
        return
    yield from recorder.analysed
