"""Maps have their entries in the order in which Java's HashMap gives them, however they are made."""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamkit.data_type import to_arrow
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.core.elements import Elements, maps_of
from streamkit.expressions.core.failing_rows import noted_failures
from streamkit.expressions.ksql.java_maps import FEWEST_BUCKETS, as_read, buckets_of, in_buckets
from streamkit.schema import Schema
from streamkit.sql.ksql.expressions import ksql_expression
from tests.unit.sql.ksql.reading import read

PROGRAM = Path(__file__).parent / "MapsByJava.java"
SIGNS = "abcdefghijklmnopqrstuvwxyzABC0123456789_- éα𝄞\ud7ff\uffff"
DAY_MS = 86_400_000
Keys = list[Any]


def random_text(chance: random.Random) -> str:
    return "".join(chance.choice(SIGNS) for _ in range(chance.randint(0, 12)))


def random_bits(chance: random.Random) -> int:
    return chance.choice((chance.randint(-9, 9), chance.randint(-(2**31), 2**31 - 1), chance.randint(-(2**63), 2**63 - 1)))


KINDS: dict[str, tuple[Callable[[random.Random], Any], Callable[[Any], str]]] = {
    "string": (random_text, lambda text: text.encode("utf-16-be", "surrogatepass").hex()),
    "int": (lambda chance: (random_bits(chance) + 2**31) % 2**32 - 2**31, str),
    "bigint": (random_bits, str),
    "boolean": (lambda chance: chance.random() < 0.5, lambda value: str(value).lower()),
    "double": (
        lambda chance: float(chance.choice((chance.randint(-9, 9), chance.random(), 1e300 * chance.random()))),
        lambda number: str(int(np.float64(number).view(np.int64))),
    ),
    "date": (lambda chance: chance.randint(-99_999, 99_999), lambda day: str(day * DAY_MS)),
    "timestamp": (lambda chance: chance.randint(-(2**43), 2**43) * 1000, lambda micros: str(micros // 1000)),
}
WAYS = ("sized", "collected", "merged", "united")


def cases() -> list[tuple[str, str, int, Keys]]:
    """A way, a type, where the second of two maps begins, and keys without repeats; maps of all sizes around those at which Java makes room."""
    chance = random.Random(7)
    found = []
    for way, (kind, (draw, _)) in itertools.product(WAYS, KINDS.items()):
        if way != "united" or kind == "string":
            for size in [*range(30), *(chance.choice((47, 48, 49, 96, 97, 98, 193)) for _ in range(3))] * (
                3 if kind == "string" else 1
            ):
                keys = list(dict.fromkeys(draw(chance) for _ in range(size)))
                found.append((way, kind, chance.randint(0, len(keys)), keys))
    return found


def by_java(given: list[tuple[str, str, int, Keys]]) -> list[list[int]]:
    lines = ["\t".join([way, kind, str(cut), *map(KINDS[kind][1], keys)]) for way, kind, cut, keys in given]
    done = subprocess.run(["java", str(PROGRAM)], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return [list(map(int, line.split())) for line in done.stdout.splitlines()]


def map_of(kind: str, keys: Keys, start: int = 0) -> pa.Array:
    """One map of the keys, whose values are their places."""
    storage = {"date": pa.int32(), "timestamp": pa.int64()}.get(kind, to_arrow(kind))
    array = pa.array(keys, storage).view(to_arrow(kind)) if storage != to_arrow(kind) else pa.array(keys, storage)
    places = pa.array(range(start, start + len(keys)), pa.int32())
    return maps_of(array, places, np.array([len(keys)]), np.ones(1, bool))


def value_of(text: str, columns: dict[str, tuple[str, pa.Array]]) -> Any:
    """The value of an expression of the ksql dialect, in one row."""
    types = {name: type for name, (type, _) in columns.items()}
    schema = Schema.parse(", ".join(f"{name} {type}" for name, type in types.items()), keeps_case=True)
    ((_, typed),) = ExpressionAnalyzer().project(schema, [("r", ksql_expression(read(text), types))])
    return evaluate(typed, pa.record_batch({name: array for name, (_, array) in columns.items()}))[0].as_py()


def ours(way: str, kind: str, cut: int, keys: Keys) -> Keys:
    type = f"map<{kind},int>"
    if way == "sized":
        return [item for _, item in as_read(map_of(kind, keys))[0].as_py()]
    if way == "merged":
        elements = Elements.of(map_of(kind, keys))
        buckets = buckets_of(elements.lengths - 1, FEWEST_BUCKETS)
        return [item for _, item in in_buckets(elements, buckets, newest_first=True).as_maps()[0].as_py()]
    if way == "united":
        return list(
            value_of(
                "MAP_VALUES(MAP_UNION(A, B))", {"A": (type, map_of(kind, keys[:cut])), "B": (type, map_of(kind, keys[cut:], cut))}
            )
        )
    made = Elements.of(map_of(kind, keys))
    return list(in_buckets(made, buckets_of(made.lengths, FEWEST_BUCKETS)).items.to_pylist())


@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java that compiles")
def test_the_order_is_that_of_java():
    """Of keys of all types, and of maps that were made for as many entries, collected, merged, and united."""
    given = cases()
    different = [(case, found, ours(*case)) for case, found in zip(given, by_java(given), strict=True) if found != ours(*case)]
    assert not different, (len(different), different[:3])


@pytest.mark.parametrize("text", ["FILTER(M, (K, V) => V)", "TRANSFORM(M, (K, V) => K, (K, V) => V)", "FILTER(A, X => X)"])
def test_a_failure_is_told_of_the_function_that_was_written(text):
    """Neither the order nor the collector that is put around a map is in the text of what failed."""
    types = {"M": "map<string,boolean>", "A": "array<boolean>"}
    schema = Schema.parse(", ".join(f"{name} {type}" for name, type in types.items()), keeps_case=True)
    ((_, typed),) = ExpressionAnalyzer().project(schema, [("r", ksql_expression(read(text), types))])
    maps, arrays = pa.array([[("x", None)]], to_arrow(types["M"])), pa.array([[None]], to_arrow(types["A"]))
    with noted_failures() as notes:
        assert evaluate(typed, pa.record_batch({"M": maps, "A": arrays})).to_pylist() == [None]
    assert [note.shown.upper().replace("->", "=>") for note in notes] == [text]
