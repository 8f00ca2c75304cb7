"""Expressions in which one column is null and another fails: Spark does not look at an argument that it does not need."""

from __future__ import annotations

import random
import re

from tests.unit.expressions.parity.columns import SCHEMA
from tests.unit.expressions.parity.families import FAMILIES
from tests.unit.expressions.parity.random_calls import NAMES as NAMED
from tests.unit.expressions.parity.random_calls import call_of

NAMES = "|".join(sorted(SCHEMA.names, key=len, reverse=True))
COLUMN = re.compile(rf"'(?:[^'\\]|\\.|'')*'|(?<![\w.`$])(?P<name>{NAMES})(?![\w(`])")
NULL = "if(j32k < j32k, {0}, NULL)"  # of the column's type, and known to nobody before it runs
FAILING = "array({0})[j32k - j32k + 9]"  # of the column's type; an index that there is not is an error under ANSI rules


def places_of(text):
    """Where columns stand in an expression, outside of texts."""
    return [match.span() for match in COLUMN.finditer(text) if match["name"]]


def with_null_and_failure(text, null, failing):
    """The expression in which the columns at two places are null and failing."""
    changes = sorted([(null, NULL), (failing, FAILING)], reverse=True)
    for (start, end), form in changes:
        text = text[:start] + form.format(text[start:end]) + text[end:]
    return text


def nulls_beside_failures(count=None, seed=0):
    """Expressions of all families, each with a null and a failure at two of its columns' places; the first so many, or all."""
    chance = random.Random(seed)
    texts = [text for family, texts in FAMILIES.items() if family != "random" for text in texts]
    texts += [call_of(chance, name, 1) for name in NAMED for _ in range(2)]
    chance.shuffle(texts)
    found: dict[str, None] = {}
    for text in texts:
        places = places_of(text)
        if len(places) > 1:
            null, failing = chance.sample(places, 2)
            found[with_null_and_failure(text, null, failing)] = None
            found[with_null_and_failure(text, failing, null)] = None
        if count is not None and len(found) >= count:
            break
    return list(found)
