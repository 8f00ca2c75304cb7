"""
REGEXP_EXTRACT and the like: regular expressions of Java.

A constant one that Arrow's RE2 or Python's `re` reads as Java does is given to Spark's functions of the same meaning. What they refuse, and patterns
that are a column, are computed text by text. A constant that is no regular expression is an error of the statement, one of a row fails there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa

from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, always, always_nullable, operation
from streamkit.expressions.ksql.function import failing_as, formula
from streamkit.expressions.ksql.java_patterns import java_pattern
from streamkit.expressions.ksql.one_by_one import one_by_one
from streamkit.expressions.texts.patterns import java_replacement, regular_expression
from streamkit.expressions.texts.regular_expressions import in_order
from streamkit.plan.expression import TypedExpression

_MAY_FIND_NOTHING = re.compile(
    r"\\[bBAzZG]|(?<!\[)\^|\$|\(\?[=!<]"
)  # matches without characters: borders, ends, and what is looked at alone
_TEXTS = pa.list_(pa.string())


@lru_cache(maxsize=256)
def matcher_of(pattern: str) -> Any:
    """What finds the matches of Java's regular expression; ValueError if it is none."""
    return regular_expression(pattern).python if _is_known(pattern) else java_pattern(pattern)


@lru_cache(maxsize=256)
def _is_known(pattern: str) -> bool:
    """Whether the functions of Spark read the pattern as Java does."""
    try:
        regular_expression(pattern)
    except ValueError:
        return False
    return True


def _is_for_spark(pattern: TypedExpression) -> bool:
    """Whether a pattern is a constant for the functions of Spark; RuleError for a constant that is none of Java's."""
    if pattern.name != "literal" or pattern.value is None:
        return False
    try:
        matcher_of(str(pattern.value))
    except ValueError as error:
        raise RuleError(str(error)) from None
    return _is_known(str(pattern.value))


def _has_every_group(pattern: TypedExpression, number: TypedExpression) -> bool:
    """Whether there is a group of this constant number, and each has a part in each match: nothing is a choice, no group may be left out."""
    groups = matcher_of(str(pattern.value)).groups
    if number.name != "literal" or number.value is None or not 0 <= int(number.value) <= groups:
        return False
    texts = [token.text for token in regular_expression(str(pattern.value)).tokens]
    return "|" not in texts and not any(left == ")" and right[0] in "?*{" for left, right in pairwise(texts))


def _by_text(call: Invocation, name: str, type: str, *arguments: TypedExpression) -> TypedExpression:
    return call.build(TypedExpression(name, type, arguments))


def _matches(found: Any, value: str) -> Iterator[re.Match[str]]:
    """All matches; ValueError if the library gives up, as it does where nothing is repeated within a choice of many ways."""
    try:
        yield from in_order(found, value)
    except MemoryError:
        raise ValueError("the regular expression needs more memory than there is") from None


@formula("regexp_replace", "string, string, string -> string")
def _regexp_replace(call: Invocation) -> TypedExpression:
    """The text with each match of a regular expression replaced by the third text."""
    pattern = call.typed(1)
    return (
        call.of("regexp_replace", *call.values)
        if _is_for_spark(pattern)
        else _by_text(call, "ksql_replaced", "string", *call.values)
    )


@operation("ksql_replaced", fails=always, nullable=always_nullable)
def _replaced(_: TypedExpression, *values: Datum) -> Datum:
    return one_by_one(_replaced_in, pa.string(), *values)


def _replaced_in(value: str, pattern: str, replacement: str) -> str:
    found = matcher_of(pattern)
    matches = list(_matches(found, value))
    if not matches:
        return value  # Java looks at the replacement with the first match
    parts = java_replacement(replacement, found.groups, tuple(found.groupindex.items()))
    written, place = [], 0
    for match in matches:
        written += [value[place : match.start()], *((match[part] or "") if isinstance(part, int) else part for part in parts)]
        place = match.end()
    return "".join([*written, value[place:]])


@formula("regexp_extract", "string, string -> string", "string, string, int -> string")
def _regexp_extract(call: Invocation) -> TypedExpression:
    """What the regular expression, the first text, matches in the second one, or a group of it; null if it does not match."""
    pattern, value, *group = call.values
    number = group[0] if group else literal(0, "int")
    if not _is_for_spark(pattern) or (group and not _has_every_group(pattern, number)):
        return _by_text(call, "ksql_extracted", "string", pattern, value, number)
    return call.of("when", call.of("rlike", value, pattern), call.of("regexp_extract", value, pattern, number))


@operation("ksql_extracted", fails=always, nullable=always_nullable)
def _extracted(_: TypedExpression, *values: Datum) -> Datum:
    return one_by_one(_extracted_from, pa.string(), *values)


def _extracted_from(pattern: str, value: str, group: int) -> str | None:
    found = matcher_of(pattern)
    match = None if group > found.groups else next(_matches(found, value), None)
    return None if match is None else _group_of(match, group)


def _group_of(match: re.Match[str], group: int) -> str | None:
    """A group of a match, null if it has no part in it; ValueError for a number below 0."""
    if group < 0:
        raise ValueError(f"there is no group {group}; expected a number from 0 on")
    return match[group]


@formula("regexp_extract_all", "string, string -> array<string>", "string, string, int -> array<string>")
def _regexp_extract_all(call: Invocation) -> TypedExpression:
    """All that the regular expression, the first text, matches in the second one, or a group of each match."""
    pattern, value, *group = call.values
    number = group[0] if group else literal(0, "int")
    if not _is_for_spark(pattern) or (group and not _has_every_group(pattern, number)):
        return _by_text(call, "ksql_all_extracted", "array<string>", pattern, value, number)
    return call.of("regexp_extract_all", value, pattern, number)


@operation("ksql_all_extracted", fails=always, nullable=always_nullable)
def _all_extracted(_: TypedExpression, *values: Datum) -> Datum:
    return one_by_one(_all_from, _TEXTS, *values)


def _all_from(pattern: str, value: str, group: int) -> list[str | None] | None:
    found = matcher_of(pattern)
    return None if group > found.groups else [_group_of(match, group) for match in _matches(found, value)]


@formula("regexp_split_to_array", "string, string -> array<string>")
def _regexp_split(call: Invocation) -> TypedExpression:
    """The parts between the matches of a regular expression; without empty ones at the end if it matches the empty text."""
    value, pattern = call.values
    return (
        call.of("split", value, pattern)
        if _is_for_spark(pattern)
        and not matcher_of(str(pattern.value)).fullmatch("")
        and not _MAY_FIND_NOTHING.search(str(pattern.value))
        else _by_text(call, "ksql_parted", "array<string>", value, pattern)
    )


@operation("ksql_parted", fails=always, nullable=always_nullable)
def _parted(_: TypedExpression, *values: Datum) -> Datum:
    return one_by_one(_parts_of, _TEXTS, *values)


def _parts_of(value: str, pattern: str) -> list[str]:
    """Of a pattern that is the empty text, too, as Java parts texts: an empty match at the very start parts nothing."""
    if not pattern:
        return list(value) or [""]
    found = matcher_of(pattern)
    if not found.fullmatch(""):
        return _parts_by_guava(value, found)
    parts, place = [], 0
    for match in _matches(found, value):
        if match.end():
            parts.append(value[place : match.start()])
            place = match.end()
    parts.append(value[place:])
    if len(parts) > 1:
        while parts and not parts[-1]:
            parts.pop()
    return parts


def _parts_by_guava(value: str, found: Any) -> list[str]:
    """As Guava's Splitter parts texts: an empty match where a part begins parts nothing, and behind one at the end there is no part."""
    parts, place = [], 0
    for match in _matches(found, value):
        if match.end() == place:
            continue
        parts.append(value[place : match.start()])
        place = match.end()
    ends_in_nothing = bool(value) and place == len(value) and any(match.start() == len(value) for match in _matches(found, value))
    return parts if ends_in_nothing else [*parts, value[place:]]


failing_as("ksql_replaced", "regexp_replace")
failing_as("ksql_extracted", "regexp_extract")
failing_as("ksql_all_extracted", "regexp_extract_all")
failing_as("ksql_parted", "regexp_split_to_array")
