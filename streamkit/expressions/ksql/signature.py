"""
What ksqlDB's functions take and give, and which of several signatures a call means.

A signature is a text, `array<T>, T -> boolean`: types by the names of StreamKit, and these patterns:

- one capital letter is a type variable: it stands for one type in all places;
- `decimal` is a decimal of any digits, `any` a value of any type;
- `string*` may be there any number of times, at least once;
- `(T -> U)` is a lambda, whose parameters have the types before the arrow.

Numbers widen as ksqlDB has it: INT to BIGINT to DECIMAL to DOUBLE. Nothing else is converted, but null is of every type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from streamkit.data_type import (
    array_of,
    decimal_of,
    element_of,
    entry_of,
    field_name,
    fields_of,
    is_nested,
    map_of,
    split_at_commas,
    struct_of,
)
from streamkit.expressions.core.operation import Invocation, RuleError
from streamkit.plan.expression import Lambda, TypedExpression
from streamkit.plan.expression_text import OF_KSQL

NUMBERS = ("int", "bigint", "decimal", "double")  # from narrow to wide
WORDS = {"int": "INTEGER", "binary": "BYTES"}  # types that ksqlDB calls otherwise
DIGITS = {"int": 10, "bigint": 19}  # of decimals that hold these integers
DIGITS_MAX = 38  # of a decimal
NEAREST = {
    "tinyint": "int",
    "smallint": "int",
    "float": "double",
    "timestamp_ntz": "timestamp",
}  # what ksqlDB has for other types
CAST = "ksql_cast"
_TIME = re.compile(r"\btime\b(?=[,>]|$)")
Bindings = dict[str, str]


@dataclass(frozen=True)
class Signature:
    """The types of a function's arguments and of its result; `varies`: the last argument may be repeated."""

    parameters: tuple[str, ...]
    gives: str
    varies: bool = False

    @classmethod
    def of(cls, text: str) -> Signature:
        """The signature that a text is."""
        takes, gives = _halves(text)
        parameters = [part.strip() for part in _split(takes)] if takes.strip() else []
        varies = bool(parameters) and parameters[-1].endswith("*")
        return cls(tuple(part.rstrip("*") for part in parameters), gives.strip(), varies)

    def text(self, name: str) -> str:
        """The signature as people read it: `SUBSTRING(STRING, INTEGER)`."""
        parts = [pattern_text(part) for part in self.parameters]
        return f"{name.upper()}({', '.join(parts)}{', …' if self.varies else ''})"

    def expected(self, count: int) -> tuple[str, ...] | None:
        """The pattern of each of so many arguments; None if it does not take so many."""
        if count == len(self.parameters):
            return self.parameters
        if not self.varies or count < len(self.parameters):
            return None
        return (*self.parameters, *self.parameters[-1:] * (count - len(self.parameters)))


def _halves(text: str) -> tuple[str, str]:
    """What stands before and behind the last arrow outside parentheses."""
    takes, _, gives = text.rpartition("->")
    return takes, gives


def _split(text: str) -> list[str]:
    return split_at_commas(text.replace("->", "\x00")) if "(" in text else split_at_commas(text)


def pattern_text(pattern: str) -> str:
    """A type or pattern in ksqlDB's words."""
    if pattern.startswith("("):
        takes, _, gives = pattern.strip("()").replace("\x00", "->").rpartition("->")
        names = [part.strip() for part in takes.split(",")]
        return f"{names[0] if len(names) == 1 else '({})'.format(', '.join(names))} => {pattern_text(gives.strip())}"
    return ksql_type(pattern)


@lru_cache(maxsize=1024)
def ksql_type(type: str) -> str:
    """A type in ksqlDB's words, as a statement writes it: `ARRAY<INTEGER>`; the name of a field has backticks unless it is in capitals."""
    if element := element_of(type):
        return f"ARRAY<{ksql_type(element)}>"
    if entry := entry_of(type):
        return f"MAP<{ksql_type(entry[0])}, {ksql_type(entry[1])}>"
    if type.startswith("struct<"):
        fields = [(field_name(name), name == name.upper(), ksql_type(inner)) for name, inner in fields_of(type) or ()]
        inside = (f"{name if is_plain or name[0] == '`' else f'`{name}`'} {inner}" for name, is_plain, inner in fields)
        return f"STRUCT<{', '.join(inside)}>"
    if decimal := decimal_of(type):
        return f"DECIMAL({decimal[0]}, {decimal[1]})"
    return WORDS.get(type, "NULL" if type == "void" else type.upper())


@lru_cache(maxsize=1024)
def without_times(type: str) -> str:
    """The type of a column that keeps such values: integers for times of the day, at any depth."""
    return _TIME.sub("int", type)


def has_times(type: str) -> bool:
    """Whether a type is a time of the day, or holds some."""
    return without_times(type) != type


@lru_cache(maxsize=1024)
def nearest_type(type: str) -> str:
    """The type of ksqlDB that holds all values of a type, at any depth; topics of others may have types that ksqlDB lacks."""
    if element := element_of(type):
        return array_of(nearest_type(element))
    if entry := entry_of(type):
        return map_of(nearest_type(entry[0]), nearest_type(entry[1]))
    if fields := fields_of(type):
        return struct_of((name, nearest_type(inner)) for name, inner in fields)
    return NEAREST.get(type, type)


def kind_of(type: str) -> str:
    """The type without digits."""
    return "decimal" if decimal_of(type) else type


def is_number(type: str) -> bool:
    """Whether it is one of ksqlDB's numbers."""
    return kind_of(type) in NUMBERS


def as_decimal(type: str) -> tuple[int, int]:
    """Precision and scale of the decimals that hold each value of an integer or decimal type."""
    return decimal_of(type) or (DIGITS[type], 0)


def wider(left: str, right: str) -> str | None:
    """The type that both numbers widen to, values that hold numbers too; a struct has the fields of both. None if there is none."""
    if right in (left, "void"):
        return left
    if left == "void":
        return right
    if is_number(left) and is_number(right):
        if "double" in (left, right):
            return "double"
        if decimal_of(left) or decimal_of(right):
            return wider_decimal(as_decimal(left), as_decimal(right))
        return "bigint"
    return _wider_nested(left, right)


def _wider_nested(left: str, right: str) -> str | None:
    if (one := element_of(left)) and (other := element_of(right)):
        inner = wider(one, other)
        return inner and array_of(inner)
    if (first := entry_of(left)) and (second := entry_of(right)):
        key, value = wider(first[0], second[0]), wider(first[1], second[1])
        return map_of(key, value) if key and value else None
    mine, theirs = dict(fields_of(left) or ()), dict(fields_of(right) or ())
    if not mine or not theirs:
        return None
    types = {name: wider(mine.get(name, "void"), theirs.get(name, "void")) for name in (*mine, *theirs)}
    return None if None in types.values() else struct_of((name, type or "") for name, type in types.items())


def needs_more_digits(types: Iterable[str]) -> bool:
    """Whether numbers have no common type that holds all values of each, since some are decimals and 38 digits are too few."""
    known = [type for type in types if type != "void"]
    if not all(map(is_number, known)) or "double" in known or not any(map(decimal_of, known)):
        return False
    sizes = [as_decimal(type) for type in known]
    return max(precision - scale for precision, scale in sizes) + max(scale for _, scale in sizes) > DIGITS_MAX


def wider_decimal(left: tuple[int, int], right: tuple[int, int]) -> str:
    """The decimal type that holds the values of both, as far as 38 digits reach."""
    scale = max(left[1], right[1])
    precision = max(left[0] - left[1], right[0] - right[1]) + scale
    return f"decimal({min(precision, DIGITS_MAX)},{max(scale - max(precision - DIGITS_MAX, 0), 0)})"


def matched(call: Invocation, signatures: Sequence[Signature]) -> tuple[int, str, Invocation]:
    """The number of the signature that fits a call best, the type it gives, and the call as it wants it; RuleError if none fits."""
    found: list[tuple[int, int, tuple[str, ...], Bindings]] = []
    for place, one in enumerate(signatures):
        expected = one.expected(len(call.arguments))
        if expected is None:
            continue
        bindings: Bindings = {}
        costs = [
            _unified(pattern, argument.type, bindings) if isinstance(argument, TypedExpression) else _lambda_cost(pattern)
            for pattern, argument in zip(expected, call.arguments)
        ]
        if None not in costs:
            found.append((sum(filter(None, costs)), place, expected, bindings))
    if not found:
        raise RuleError(refused(call, signatures))
    _, place, expected, bindings = min(found, key=lambda one: one[0])
    while True:  # what a lambda gives may widen a type that other arguments have
        before = dict(bindings)
        arguments = tuple(_bound(call, number, pattern, bindings) for number, pattern in enumerate(expected))
        if bindings == before:
            break
    return place, filled(signatures[place].gives, bindings), replace(call, arguments=arguments)


def refused(call: Invocation, signatures: Sequence[Signature]) -> str:
    """The message for a call that fits no signature: the types of its arguments, and the signatures of the function."""
    name = ksql_name(call.name)
    return f"{name} does not take {types_text(call)}; expected {' or '.join(one.text(name) for one in signatures)}"


def types_text(call: Invocation) -> str:
    """The types of the arguments of a call, as people read them."""
    return f"({', '.join('a lambda' if isinstance(one, Lambda) else ksql_type(one.type) for one in call.arguments)})"


def ksql_name(function: str) -> str:
    """The name of a function in ksqlDB, of that in a tree."""
    return function.removeprefix(OF_KSQL).upper()


def _lambda_cost(pattern: str) -> int | None:
    return 0 if pattern.startswith("(") else None


def _unified(pattern: str, type: str, bindings: Bindings) -> int | None:
    """The cost of converting a type to a pattern; binds the pattern's variables. None if the type does not fit."""
    if pattern.startswith("("):
        return None
    if len(pattern) == 1:
        known = bindings.get(pattern, "void")
        common = wider(known, type)
        if common is None:
            return None
        bindings[pattern] = common
        return 0 if known in ("void", common) and type in ("void", common) else 1
    if type == "void" or pattern == "any":
        return 0 if type == "void" else 20  # what is named goes before what may be anything
    if (element := element_of(pattern)) and (own := element_of(type)):
        return _unified(element, own, bindings)
    if (entry := entry_of(pattern)) and (mine := entry_of(type)):
        costs = [_unified(part, inner, bindings) for part, inner in zip(entry, mine)]
        return None if None in costs else sum(filter(None, costs))
    kind = kind_of(type)
    if pattern in (type, kind):
        return 0
    if pattern in NUMBERS and kind in NUMBERS and NUMBERS.index(pattern) > NUMBERS.index(kind):
        return NUMBERS.index(pattern) - NUMBERS.index(kind)
    return None


def filled(pattern: str, bindings: Bindings) -> str:
    """A pattern with the types that its variables are bound to."""
    if len(pattern) == 1:
        return bindings.get(pattern, "void")
    if element := element_of(pattern):
        return array_of(filled(element, bindings))
    if entry := entry_of(pattern):
        return map_of(filled(entry[0], bindings), filled(entry[1], bindings))
    return pattern


def _bound(call: Invocation, place: int, pattern: str, bindings: Bindings) -> TypedExpression:
    """An argument as the type that the pattern says; a lambda over elements of the types that are known by then."""
    argument = call.arguments[place]
    if isinstance(argument, Lambda):
        return _bound_lambda(call, argument, pattern, bindings)
    if pattern == "decimal":
        return argument if decimal_of(argument.type) else widened(call, argument, f"decimal({DIGITS.get(argument.type, 1)},0)")
    wanted = argument.type if pattern == "any" else filled(pattern, bindings)
    return widened(call, argument, wanted)


def _bound_lambda(call: Invocation, function: Lambda, pattern: str, bindings: Bindings) -> TypedExpression:
    takes, _, gives = pattern.strip("()").replace("\x00", "->").rpartition("->")
    types = [filled(part.strip(), bindings) for part in takes.split(",")]
    if len(function.parameters) != len(types):
        raise RuleError(
            f"the lambda of {ksql_name(call.name)} has {len(function.parameters)} parameters; expected {len(types)}: "
            f"{pattern_text(pattern)}"
        )
    bound = call.bind(function, types)
    known = bindings.get(gives.strip(), "void")
    if bound.type == "void" or known not in ("void", bound.type) or _unified(gives.strip(), bound.type, bindings) is None:
        raise RuleError(
            f"the lambda of {ksql_name(call.name)} gives {ksql_type(bound.type)}; expected {ksql_type(filled(gives.strip(), bindings))}"
        )
    body = widened(call, bound.arguments[0], filled(gives.strip(), bindings))
    return TypedExpression("lambda", body.type, (body,), bound.value)


def widened(call: Invocation, value: TypedExpression, type: str) -> TypedExpression:
    """A value as a type that it widens to."""
    if value.type == type:
        return value
    if (decimal_of(type) or is_nested(type)) and value.type != "void":
        return call.build(TypedExpression(CAST, type, (value,)))
    return call.cast(value, type)
