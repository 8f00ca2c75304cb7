"""Random nested expressions whose parts may fail, so that what is looked at, and when, matters."""

from __future__ import annotations

import random


def random_expression(chance, kind, depth):
    """A nested expression of a kind (number or condition) whose parts may fail, so that what is looked at when matters."""
    if not depth:
        return chance.choice(
            {"number": ["small", "i8", "i32", "j32", "1", "0", "NULL"], "condition": ["b", "c", "b IS NULL", "true"]}[kind]
        )

    def part(of):
        return random_expression(chance, of, depth - 1)

    if kind == "number":
        return chance.choice((
            lambda: f"({part('number')} {chance.choice('+-*')} {part('number')})",
            lambda: f"({part('number')} % {part('number')})",
            lambda: f"({part('number')} DIV {part('number')})",
            lambda: f"coalesce({part('number')}, {part('number')})",
            lambda: f"if({part('condition')}, {part('number')}, {part('number')})",
            lambda: f"CASE WHEN {part('condition')} THEN {part('number')} WHEN {part('condition')} THEN {part('number')} END",
            lambda: f"nullif(small, {chance.choice(('i8', '0'))})",
            lambda: f"greatest({part('number')}, {part('number')})",
        ))()  # fmt: skip
    return chance.choice((
        lambda: f"({part('condition')} {chance.choice(('AND', 'OR'))} {part('condition')})",
        lambda: f"(NOT {part('condition')})",
        lambda: f"({part('number')} {chance.choice(('<', '=', '>=', '<=>', '!='))} {part('number')})",
        lambda: f"({part('number')} IN ({part('number')}, {part('number')}))",
        lambda: f"(small BETWEEN {chance.choice(('i8', '0'))} AND 3)",
        lambda: f"({part('number')} IS NULL)",
    ))()  # fmt: skip


def random_expressions(count):
    """So many expressions, always the same."""
    kinds = ("number", "condition")
    return [random_expression(random.Random(seed), kinds[seed % 2], 1 + seed % 3) for seed in range(count)]
