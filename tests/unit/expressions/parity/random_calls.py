"""Random nested calls of all functions with a signature: arguments of fitting types, constants among them, and some that do not fit."""

from __future__ import annotations

import random

import streamkit.expressions.analysis.arrow  # noqa: F401  # enters all families
from streamkit.expressions.core.coercion import accepts
from streamkit.expressions.core.operation import SIGNATURES
from tests.unit.expressions.parity.columns import SCHEMA
from tests.unit.expressions.parity.comparison import ROUGH

CONSTANTS = {
    "string": ("'a'", "''", "'é b'", "'1'", "NULL"), "int": ("0", "1", "-1", "3", "NULL"), "bigint": ("2L", "0"), "double": ("1.5D", "0.0D", "NULL"),
    "boolean": ("true", "NULL"), "numeric": ("2", "1.25", "0"), "integral": ("1", "2L"), "date": ("DATE '2013-01-05'",),
    "timestamp": ("TIMESTAMP '2013-01-05 10:11:12Z'",), "binary": ("X'00ff'",),
}  # fmt: skip
WRONG = 0.04
LENGTHS = {"repeat": 1}  # the argument that says how long a result is: a great one ends Spark
NAMES = sorted(set(SIGNATURES))
INFIX = {
    "numeric": ("+", "-", "*", "%"), "int": ("+", "-", "*", "DIV"), "string": ("||",), "boolean": ("AND", "OR", "="), "double": ("+", "/", "*"),
}  # fmt: skip


def random_call(chance, expected, depth):
    """An expression of an expected type, most of the time."""
    expected = expected.lstrip("=")
    wanted = chance.choice(expected.split("|")) if chance.random() > WRONG else chance.choice(("int", "string", "date", "array"))
    kind = chance.random()
    if depth <= 0 or kind < 0.2:
        return _leaf(chance, wanted)
    if kind < 0.35 and wanted in INFIX:
        return (
            f"({random_call(chance, wanted, depth - 1)} {chance.choice(INFIX[wanted])} {random_call(chance, wanted, depth - 1)})"
        )
    if kind < 0.45:
        return f"coalesce({random_call(chance, wanted, depth - 1)}, {random_call(chance, wanted, depth - 1)})"
    if kind < 0.55:
        branches = [random_call(chance, wanted, depth - 1) for _ in range(2)]
        return f"if({random_call(chance, 'boolean', depth - 1)}, {', '.join(branches)})"
    fitting = [name for name in NAMES if isinstance(gives := SIGNATURES[name][1], str) and accepts(wanted, gives)]
    return call_of(chance, chance.choice(fitting), depth) if fitting else _leaf(chance, wanted)


def call_of(chance, name, depth):
    """A call of a function; now and then with an argument too many or too few."""
    arguments = []
    for part in filter(None, (part.strip() for part in SIGNATURES[name][0].split(","))):
        repeats = chance.randint(0, 1) if part.startswith("[") else chance.randint(1, 2) if part.endswith("*") else 1
        arguments += [_argument(chance, name, part.strip("[]*"), depth - 1) for _ in range(repeats)]
    if name in LENGTHS:
        arguments[LENGTHS[name]] = chance.choice(("small", "2", "0", "-1", "NULL"))
    if chance.random() < WRONG:
        arguments = arguments[1:]
    return f"{name}({', '.join(arguments)})"


def _argument(chance, name, expected, depth):
    """What a function of a rough result takes is exact: a last digit of what it takes may be all digits of what it gives."""
    found = random_call(chance, expected, depth)
    return _leaf(chance, expected) if (name == "width_bucket" or ROUGH.search(f"{name}(")) and ROUGH.search(found) else found


def _leaf(chance, wanted):
    columns = [column.name for column in SCHEMA if accepts(wanted, column.type) and column.type != "void"]
    constants = CONSTANTS.get(wanted, ())
    if constants and (not columns or chance.random() < 0.35):
        return chance.choice(constants)
    return chance.choice(columns) if columns else "NULL"


def random_calls(count, seed=0):
    """So many different calls, each function in turn, always the same of a seed."""
    chance = random.Random(seed)
    found: dict[str, None] = {}
    place = 0
    while len(found) < count:
        found[call_of(chance, NAMES[place % len(NAMES)], 1 + place % 3)] = None
        place += 1
    return list(found)
