"""Random pairs of decimal types, with those at the limits often, and what can be computed of two decimals or of one."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa

from streamkit.schema import Schema

ROWS = 36
COLUMNS = 24
WIDE_TYPES = ((38, 18), (37, 17), (38, 24))  # whole parts of more than a word, and as many digits behind the point
OF_TWO = (
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} % {b}", "{a} DIV {b}", "pmod({a}, {b})", "try_add({a}, {b})", "try_subtract({a}, {b})",
    "try_multiply({a}, {b})", "try_divide({a}, {b})", "{a} < {b}", "{a} >= {b}", "{a} = {b}", "{a} <=> {b}", "{a} != {b}",
    "coalesce({a}, {b})", "nvl({a}, {b})", "nullif({a}, {b})", "greatest({a}, {b})", "least({a}, {b}, 1)", "CASE WHEN {a} > 0 THEN {a} ELSE {b} END",
    "if({b} IS NULL, {a}, {b})", "{a} IN ({b}, 0.5)", "{a} BETWEEN {b} AND {a}", "array({a}, {b})", "array_union(array({a}), array({a}, NULL))",
    "array_contains(array({a}), {b})", "array_intersect(array({a}), array({a}, NULL))", "struct({a}) = struct({b})",
    "map({a}, {b})[{a}]", "({a} + {b}) * {a}", "({a} - {b}) * {b}", "array_position(array({a}, {b}), coalesce({a}, {b}))",
    "concat(array({a}), array({b}))", "nvl2({a}, {a}, {b})", "width_bucket({a}, 0, {b}, 3)", "{a} + {b} > {a}",
)  # fmt: skip
OF_ONE = (
    "CAST({a} AS BOOLEAN)", "CAST({a} AS BIGINT)", "CAST({a} AS FLOAT)", "CAST({a} AS DOUBLE)", "CAST({a} AS STRING)", "CAST({a} AS {t})",
    "TRY_CAST({a} AS BOOLEAN)", "TRY_CAST({a} AS {t})", "CAST(CAST({a} AS STRING) AS {t})", "positive({a})", "round({a}, {n})",
    "bround({a}, {n})", "ceil({a})", "floor({a})", "ceil({a}, {n})", "floor({a}, {n})", "sign({a})", "sqrt({a})", "{a} + 1", "{a} * 1.5",
    "{a} - 2L", "{a} + 0.5D", "1 / {a}", "{a} % 3", "try_mod({a}, 0.5)", "{a} = 1", "{a} / (1 + 2)", "{a} * CAST(3 AS BIGINT)",
    "{a} % 3Y", "{a} - length('abc')",
    "{a} / coalesce(3, 4)", "nullif(-1, {a})", "1 BETWEEN {a} AND {a}", "{a} = CAST(0.5 AS FLOAT)", "CAST(1.5 AS FLOAT) < {a}", "map({a}, 1)[0.1001]",
    "round({a}, -39)", "{a} < 0.5", "{a} IN (0, 1, 0.5)", "hash({a})", "xxhash64({a})",
    "format_number({a}, 2)", "to_json(struct({a}))", "NOT CAST({a} AS BOOLEAN)", "CAST(array({a}) AS ARRAY<BOOLEAN>)",
    "CAST(array({a}) AS ARRAY<{t}>)", "CAST(array({a}) AS ARRAY<STRING>)", "zeroifnull({a})", "nullifzero({a})", "timestamp_seconds({a})",
)  # fmt: skip
OF_SHORT = (  # of others Spark makes numbers of fewer digits on the way, by the most that they may have
    ("-{a}", 34), ("abs({a})", 34), ("CAST({a} AS TIMESTAMP)", 34), ("TRY_CAST({a} AS TIMESTAMP)", 34), ("CAST({a} AS TINYINT)", 18),
    ("CAST({a} AS SMALLINT)", 18), ("CAST({a} AS INT)", 18), ("TRY_CAST({a} AS INT)", 18),
)  # fmt: skip


def random_type(chance):
    """Precision and scale: as often at the limits, with all digits behind the point, or none, as in between."""
    precision = chance.choice((1, 2, 3, 17, 18, 19, 37, 38, 38, 38, *(chance.randint(1, 38) for _ in range(8))))
    return precision, chance.choice(
        (
            0,
            precision,
            precision,
            max(precision - 1, 0),
            max(precision - chance.randint(10, 22), 0),
            chance.randint(0, precision),
            min(precision, 6),
        )
    )


def random_decimals(seed):
    """Columns of random decimal types: a schema and a batch of their edges, and of numbers with any count of digits."""
    chance = random.Random(seed)
    types = [*WIDE_TYPES, *(random_type(chance) for _ in range(COLUMNS - len(WIDE_TYPES)))]
    schema = Schema.parse(", ".join(f"d{place} decimal({precision},{scale})" for place, (precision, scale) in enumerate(types)))
    columns = [pa.array(_values(chance, *type), pa.decimal128(*type)) for type in types]
    return schema, pa.record_batch(columns, schema=schema.arrow)


def _values(chance, precision, scale):
    edges = [
        0,
        1,
        -1,
        10**precision - 1,
        1 - 10**precision,
        5 * 10 ** (precision - 1),
        -(10 ** (precision - 1)),
        10**scale,
        15 * 10**scale // 10,
    ]
    digits = [chance.choice((1, -1)) * chance.randrange(10 ** chance.randint(1, precision)) for _ in range(ROWS)]
    numbers = [*_near_words(chance, precision, scale), *(number for number in edges if abs(number) < 10**precision), *digits][
        : ROWS - 1
    ]
    values = [Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)) for number in numbers] + [None]
    chance.shuffle(values)
    return values


def _near_words(chance, precision, scale):
    """Numbers whose whole part fills words of 32 bits, or just does not, with a part behind the point that is nearly 0, a half or 1."""
    found = []
    for _ in range(16):
        whole = 2 ** (32 * chance.choice((1, 1, 2, 3))) * chance.choice((1, 1, 2, 10)) + chance.choice((-1, -1, 0, 1))
        part = chance.choice((0, 1, 10**scale - 1, 5 * 10**scale // 10, 5 * 10**scale // 10 - 1, chance.randrange(10**scale)))
        found.append(chance.choice((1, -1)) * (whole * 10**scale + part))
    return [number for number in found if abs(number) < 10**precision]


def random_expressions_of_decimals(schema, count, seed):
    """So many expressions over columns of the schema, each form in turn, always the same of a seed."""
    chance = random.Random(seed)
    forms = [*((form, 38) for form in OF_TWO + OF_ONE), *OF_SHORT]
    found: dict[str, None] = {}
    place = chance.randrange(len(forms))
    while len(found) < count:
        form, digits = forms[place % len(forms)]
        a = chance.choice([name for name in schema.names if schema[name].arrow.type.precision <= digits])
        b = chance.choice(schema.names)
        precision, scale = random_type(chance)
        found[form.format(a=a, b=b, t=f"DECIMAL({precision},{scale})", n=chance.choice((-38, -3, 0, 1, 2, 37, 40)))] = None
        place += 1
    return list(found)
