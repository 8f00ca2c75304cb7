"""
ksqlDB's functions by name: their signatures, what they do in a sentence, and their rules.

In trees they are called `ksql_<name>`, so that nobody takes them for Spark's. Many are a `formula` of functions that StreamKit has; the others
are a `kernel` with an operation of their own. Both are entered with their signatures (`signature`), and their docstring is what
`DESCRIBE FUNCTION` says of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from streamkit.expressions.core.elements import on_columns, validity
from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.operation import (
    OPERATIONS,
    Gives,
    Invocation,
    Judgement,
    Nullability,
    RuleError,
    always,
    always_nullable,
    function,
    never,
    never_null,
    operation,
)
from streamkit.expressions.core.spark_text import spark_text, unseen
from streamkit.expressions.ksql.overloads import as_called
from streamkit.expressions.ksql.signature import Signature, ksql_type, matched, nearest_type
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import NAMED_BY, OF_KSQL

Formula = Callable[[Invocation], TypedExpression]
BuildCall = Callable[[Invocation, str], TypedExpression]  # of a call whose arguments fit, and the type that its signature gives


@dataclass
class KsqlFunction:
    """
    A scalar function of ksqlDB: its name in lower case, the family that it stands in, its effect in a sentence, and its signatures, each with
    what it is made of.
    """

    name: str
    family: str
    effect: str
    signatures: list[Signature] = field(default_factory=list)
    builds: list[BuildCall] = field(default_factory=list)

    @property
    def texts(self) -> tuple[str, ...]:
        """The signatures as people read them."""
        return tuple(one.text(self.name) for one in self.signatures)

    def rule(self, call: Invocation) -> TypedExpression:
        """The typed expression of a call, by the signature that fits best; RuleError if none fits."""
        place, gives, fitting = matched(as_called(call, self.signatures), self.signatures)
        return _named_by(self.name, self.builds[place](fitting, gives), {id(one) for one in fitting.arguments})


KSQL_FUNCTIONS: dict[str, KsqlFunction] = {}  # by name, in lower case


def failing_as(operation: str, *functions: str) -> None:
    """Let failures of an operation be told as those of functions that are made of it, since that is what people wrote."""
    for name in functions:
        OPERATIONS[f"{operation}{NAMED_BY}{name}"] = OPERATIONS[operation]


@operation("ksql_needed", fails=always, strict=False, nullable=never_null)
@on_columns
def _needed(expression: TypedExpression, value: pa.Array) -> pa.Array:
    check_rows(~validity(value), f"{str(expression.value).upper()} does not take null")
    return value


def _needing(function: str, call: Invocation, needed: int) -> Invocation:
    """The call whose first arguments, so many, fail where they are null."""
    arguments = [
        one if one.name == "literal" and one.value is not None else TypedExpression("ksql_needed", one.type, (one,), function)
        for one in call.values[:needed]
    ]
    return replace(call, arguments=(*arguments, *call.values[needed:]))


def of_own_types(result: str) -> Gives:
    """The type of what is made of values; RuleError if ksqlDB lacks their type, so that the nearest one that it has takes its place."""

    def gives(values: Sequence[TypedExpression]) -> str:
        for one in values:
            if nearest_type(one.type) != one.type:
                raise RuleError(
                    f"there is no type {ksql_type(one.type)}; expected {ksql_type(nearest_type(one.type))}, by a CAST"
                )
        return result

    return gives


def _named_by(function: str, made: TypedExpression, arguments: Container[int]) -> TypedExpression:
    """What a call is made of, in which operations that fail as the function have its name; its arguments, given by `id`, stay as they are."""
    if id(made) in arguments:
        return made
    name = f"{made.name.partition(NAMED_BY)[0]}{NAMED_BY}{function}"
    inner = tuple(_named_by(function, one, arguments) for one in made.arguments)
    if name not in OPERATIONS and inner == made.arguments:
        return made
    return replace(made, name=name if name in OPERATIONS else made.name, arguments=inner)


def formula(name: str, *signatures: str, needed: int = 0) -> Callable[[Formula], Formula]:
    """
    Enter signatures of a function that is made of others; its rule is given a call whose arguments fit one of them.

    A row fails in which one of the first arguments, so many as are `needed`, is null, as in Java where a parameter is a number that cannot be null.
    """

    def enter(build: Formula) -> Formula:
        _enter(name, signatures, build, lambda call, _: build(_needing(name, call, needed) if needed else call))
        return build

    return enter


def kernel(
    name: str,
    *signatures: str,
    computed_by: str = "",
    gives: Gives | None = None,
    fails: Judgement = never,
    nullable: Nullability = always_nullable,
    **details: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    Enter signatures of a function with an operation of its own, whose details are those of `operation`.

    The operation has the name of the function, or another one if the function has several. The type of its result is that of the
    signature, or the type that `gives` computes from the arguments.
    """
    known_as = OF_KSQL + (computed_by or name)

    def build(call: Invocation, type: str) -> TypedExpression:
        type = gives(call.values) if callable(gives) else gives or type
        return TypedExpression(known_as, type, call.arguments)  # type: ignore[arg-type]

    def enter(compute: Callable[..., Any]) -> Callable[..., Any]:
        operation(known_as, fails=fails, nullable=nullable, **details)(compute)
        _enter(name, signatures, compute, build)
        return compute

    return enter


def _enter(name: str, signatures: Sequence[str], described: Callable[..., Any], build: BuildCall) -> None:
    if name not in KSQL_FUNCTIONS:
        effect = (described.__doc__ or "").strip().partition("\n")[0]
        known = KSQL_FUNCTIONS[name] = KsqlFunction(name, described.__module__.rpartition(".")[2], effect)
        function(OF_KSQL + name)(known.rule)
        spark_text(OF_KSQL + name)(unseen)
    for text in signatures:
        KSQL_FUNCTIONS[name].signatures.append(Signature.of(text))
        KSQL_FUNCTIONS[name].builds.append(build)


ELSEWHERE = {  # functions of Spark and of other SQL, by the name of what ksqlDB has for it
    "upper": "UCASE", "lower": "LCASE", "length": "LEN", "char_length": "LEN", "substr": "SUBSTRING", "nvl": "COALESCE", "isnull": "IS NULL",
    "if": "CASE WHEN", "iif": "CASE WHEN", "pow": "POWER", "ceiling": "CEIL", "rand": "", "first": "EARLIEST_BY_OFFSET",
    "last": "LATEST_BY_OFFSET", "first_value": "EARLIEST_BY_OFFSET", "last_value": "LATEST_BY_OFFSET", "approx_count_distinct": "COUNT_DISTINCT",
    "array_agg": "COLLECT_LIST", "string_agg": "ARRAY_JOIN, for a COLLECT_LIST", "group_concat": "ARRAY_JOIN, for a COLLECT_LIST",
    "listagg": "ARRAY_JOIN, for a COLLECT_LIST", "size": "ARRAY_LENGTH", "cardinality": "ARRAY_LENGTH", "to_json": "TO_JSON_STRING",
    "get_json_object": "EXTRACTJSONFIELD",
    "json_extract": "EXTRACTJSONFIELD", "date_format": "FORMAT_TIMESTAMP", "to_timestamp": "PARSE_TIMESTAMP", "to_date": "PARSE_DATE",
    **dict.fromkeys(("now", "current_timestamp", "localtimestamp", "getdate", "sysdate"), "ROWTIME, the time of the record"),
    "unnest": "EXPLODE, in SELECT", **dict.fromkeys(("tumble", "hop", "window"), "WINDOW TUMBLING (SIZE 1 HOUR) before WHERE and GROUP BY"),
}  # fmt: skip


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint at what ksqlDB has for a function of other SQL, or else at the names that are spelt alike; empty if none is."""
    if known_as := ELSEWHERE.get(name.lower()):
        return f"; it has {known_as}"
    close = difflib.get_close_matches(name.lower(), sorted({one.lower() for one in names}), 3)
    return f"; did you mean {', '.join(map(str.upper, close))}?" if close else ""
