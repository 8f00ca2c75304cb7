"""Random sequences of the words of Spark's expressions: operators of all levels side by side, and now and then a word that is missing or wrong."""

from __future__ import annotations

import random

ATOMS = (
    "i32", "j32", "small", "b", "c", "s", "t", "ints[0]", "counts['a']", "place.lat", "1", "-1", "2.5", "1e2", "3L", "'x'", "'it''s'", "NULL", "TRUE",
    "X'0f'", "INTERVAL 1 DAY", "INTERVAL 1 DAY 2 HOURS", "`i32`", "upper(s)", "CAST(i32 AS string)", "i32::bigint", "(i32 + 1)",
    "CASE WHEN b THEN 1 ELSE i32 END", "transform(ints, x -> x + i32)", "TRIM('x' FROM s)", "r'\\d'", "coalesce(i32, 1)", "(b OR c)",
)  # fmt: skip
BINARY = (
    "+",
    "-",
    "*",
    "/",
    "%",
    "DIV",
    "||",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    ">>>",
    "=",
    "==",
    "<>",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "<=>",
    "AND",
    "OR",
)
PREFIXES = ("-", "+", "~", "NOT", "!")
SUFFIXES = (
    "IS NULL", "IS NOT NULL", "IN (1, i32)", "NOT IN ('a')", "BETWEEN 1 AND 2", "NOT BETWEEN 1 AND j32", "LIKE 'a%'", "NOT LIKE 'b'", "RLIKE 'x'",
    "IS TRUE", "IS NOT FALSE", "IS DISTINCT FROM 1", "IS NOT DISTINCT FROM small", "::string", "[0]", ".lat", "LIKE 'a' ESCAPE '!'",
)  # fmt: skip
WRONG = (
    "AND",
    ",",
    "(",
    ")",
    "END",
    "WHEN",
    "AS",
    "IS",
    "NOT",
    "->",
    ".",
    ":",
    "?",
    ";",
    "x",
    "IN",
    "FROM",
    "BETWEEN",
    "::",
    "[",
    "]",
    "'",
    "--",
    "/*",
    "DISTINCT",
)


def random_text(chance):
    """A sequence of words, one of eight of them spoilt."""
    words = []
    for place in range(chance.randint(1, 5)):
        if place:
            words.append(chance.choice(BINARY))
        if chance.random() < 0.25:
            words.append(chance.choice(PREFIXES))
        words.append(chance.choice(ATOMS))
        if chance.random() < 0.25:
            words.append(chance.choice(SUFFIXES))
    if chance.random() < 0.125:
        spoil(chance, words)
    return " ".join(words)


def spoil(chance, words):
    """Drop a word, put a wrong one in, or write one twice."""
    place = chance.randrange(len(words))
    words[place : place + 1] = chance.choice(
        ((), (chance.choice(WRONG),), (words[place], chance.choice(WRONG)), (words[place],) * 2)
    )


def random_texts(count, seed=0):
    """So many texts, always the same of a seed."""
    chance = random.Random(seed)
    return [text for _ in range(count) if (text := random_text(chance)).strip()]
