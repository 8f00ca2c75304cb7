"""
Operations and functions: what a name computes, which arguments it takes, and what is known about it before it runs.

An *operation* is a name in a typed expression: how it is computed, when it can fail, when its result can be null.
A *function* is a name that people write; its rule makes a typed expression of a call. Most functions are one entry, an operation that is also
a function of the same name, with the handle that users call right before it (`recording`):

    def lpad(text: Column | str, length: Column | int, padding: Column | str) -> Column:
        return recorded("lpad", text, length, given_text(padding))

    @operation("lpad", takes="string, int, [string]", gives="string")
    def _lpad(expression, text, length, padding=None): ...

`takes` names the expected types as `coercion` knows them: `[…]` may be left out, `…*` may be there any number of times, and to `=…` nothing
is cast but null.
`gives` is the type of the result, or a function from the typed arguments to it. A function that is written in terms of other operations is a
rule alone: `@function("nvl")`. Several rules may share a name (`add` of numbers, of dates, of intervals): the first that does not return None wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from streamkit.expressions.core.coercion import cast_to, implicit_type
from streamkit.expressions.core.entries import Entries
from streamkit.plan.expression import ComputedConstant, Lambda, TypedExpression
from streamkit.plan.expression_size import PARTS_MAX

if TYPE_CHECKING:
    from streamkit.expressions.core.session_zone import SessionZone

Datum: TypeAlias = pa.Array | pa.Scalar  # a constant stays a scalar until the very end
Judgement = Callable[[TypedExpression], bool]
Refusal = Callable[[TypedExpression], str | None]
Nullability = Callable[[TypedExpression, Sequence[bool]], bool]
Gives = str | Callable[[Sequence[TypedExpression]], str]
Argument = TypedExpression | Lambda
CheckGrowth: TypeAlias = Callable[[Sequence[Datum], int], None]  # of the arguments in so many rows
InZone: TypeAlias = "Callable[[TypedExpression, SessionZone], TypedExpression]"


class RuleError(ValueError):
    """A call that means nothing: wrong arguments. The message says what was found and what is expected."""


class NoTranslationError(ValueError):
    """A call that Spark knows and StreamKit does not evaluate; the message is the reason."""


def never(_expression: TypedExpression) -> bool:
    return False


@dataclass(frozen=True)
class Operation:
    """
    One operation: `compute` takes the expression and its arguments' values, or the rows themselves if it is `lazy`.

    `fails` says whether a row can make it raise; then it must not be computed for rows that Spark would skip. `refuse` gives the
    reason why an expression of this name has no translation after all, or None. `strict`: null as soon as one argument is.
    `in_zone` is the same operation in a session whose zone is not UTC; None if it does not depend on the zone.
    `holds_null` says whether an array that it gives may have null elements.
    `grows` says how many bytes it makes at most of one byte of its arguments, or is a check of these, as `sizes` has them.
    `looks_in_order` are the places of arguments that Spark looks at one after the other, as long as none is null, although a null is
    not the end of it. `looks_at_all` says whether all arguments are looked at, whatever the others are.
    `nullable` says whether a result can be null, given which arguments can. `once`: the same call on the same rows is computed once.
    """

    compute: Callable[..., Datum]
    fails: Judgement
    refuse: Refusal
    strict: bool
    lazy: bool
    right_first: bool
    nullable: Nullability
    once: bool
    in_zone: InZone | None = None
    holds_null: bool = True
    grows: float | CheckGrowth = 1
    looks_in_order: tuple[int, ...] = ()
    looks_at_all: Judgement = never


@dataclass(frozen=True)
class Invocation:
    """
    A call as a rule sees it: the function's name as written and its typed arguments; lambdas wait until `bind` gives their types.

    `build` makes a typed expression that StreamKit can evaluate: computed now if it is constant, else refused with a reason.
    `zone` is the session's time zone.
    """

    name: str
    arguments: tuple[Argument, ...]
    build: Callable[[TypedExpression], TypedExpression]
    bind: Callable[[Lambda, Sequence[str]], TypedExpression]
    resolve: Callable[..., TypedExpression]
    zone: str = "UTC"

    def typed(self, place: int) -> TypedExpression:
        """The argument at a place; RuleError if it is a lambda."""
        argument = self.arguments[place]
        if isinstance(argument, Lambda):
            raise RuleError(f"{self.name}() takes a value as argument {place + 1}; found a lambda")
        return argument

    @property
    def values(self) -> tuple[TypedExpression, ...]:
        """All arguments; RuleError if one is a lambda."""
        return tuple(self.typed(place) for place in range(len(self.arguments)))

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(value.type for value in self.values)

    def cast(self, expression: TypedExpression, type: str) -> TypedExpression:
        """The expression as another type, checked as all that is built."""
        cast = cast_to(expression, type)
        if cast is expression:
            return cast
        built = self.build(cast)
        is_written = expression.name == "literal" and not isinstance(expression, ComputedConstant)
        return built.as_written() if is_written and isinstance(built, ComputedConstant) else built

    def of(self, function: str, *arguments: TypedExpression) -> TypedExpression:
        """A call of another function by its own rule."""
        return self.resolve(function, arguments)


Rule = Callable[[Invocation], "TypedExpression | None"]


OPERATIONS: dict[str, Operation] = Entries("streamkit.expressions.ksql.families")
SIGNATURES: dict[str, tuple[str, Gives]] = {}  # what functions with a fixed signature take and give
FUNCTIONS: dict[str, list[Rule]] = {}  # by the name that people write, in lower case


def always(_expression: TypedExpression) -> bool:
    return True


def _accept(_expression: TypedExpression) -> str | None:
    return None


def if_an_argument_is(_expression: TypedExpression, nullable: Sequence[bool]) -> bool:
    """Null can only come from an argument."""
    return any(nullable)


def always_nullable(_expression: TypedExpression, _nullable: Sequence[bool]) -> bool:
    return True


def never_null(_expression: TypedExpression, _nullable: Sequence[bool]) -> bool:
    return False


def operation(
    name: str,
    *,
    takes: str | None = None,
    gives: Gives | None = None,
    rule: Rule | None = None,
    functions: tuple[str, ...] = (),
    fails: Judgement = never,
    refuse: Refusal = _accept,
    nullable: Nullability = if_an_argument_is,
    strict: bool = True,
    lazy: bool = False,
    right_first: bool = False,
    once: bool = False,
    in_zone: InZone | None = None,
    holds_null: bool = True,
    grows: float | CheckGrowth = 1,
    looks_in_order: tuple[int, ...] = (),
    looks_at_all: Judgement = never,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    Enter the operation `name`, and a function of that name if it says what it `takes` and `gives`, or has a `rule`.

    `functions` are further names that people write for it.
    """

    def enter(compute: Callable[..., Any]) -> Callable[..., Any]:
        if name in OPERATIONS:
            raise ValueError(f"there is an operation {name!r} already")
        OPERATIONS[name] = Operation(
            compute,
            fails,
            refuse,
            strict and not lazy,
            lazy,
            right_first,
            nullable,
            once,
            in_zone,
            holds_null,
            grows,
            looks_in_order,
            looks_at_all,
        )
        if takes is not None and gives is not None:
            SIGNATURES.update(dict.fromkeys((name, *functions), (takes, gives)))
            function(name, *functions)(signature_rule(name, takes, gives))
        elif rule is not None:
            function(name, *functions)(rule)
        return compute

    return enter


def function(*names: str) -> Callable[[Rule], Rule]:
    """Enter a rule under the names that people write; a rule entered later is tried first, and returns None for what is not its own."""

    def enter(rule: Rule) -> Rule:
        for name in names:
            FUNCTIONS.setdefault(name.lower(), []).insert(0, rule)
        return rule

    return enter


def signature_rule(operation: str, takes: str, gives: Gives) -> Rule:
    """The rule of a function with a fixed signature: arguments are cast to what it takes."""

    def rule(call: Invocation) -> TypedExpression:
        arguments = fitted(call, takes)
        return TypedExpression(operation, gives if isinstance(gives, str) else gives(arguments), arguments)

    return rule


def fitted(call: Invocation, takes: str) -> tuple[TypedExpression, ...]:
    """The arguments of a call, each cast to the type that the signature expects; RuleError if their number or a type is wrong."""
    expected = _expected_types(takes, len(call.arguments))
    if expected is None:
        raise RuleError(f"{call.name}() takes {_counts(takes)}; found {len(call.arguments)}")
    return tuple(_fitted(call, place, type) for place, type in enumerate(expected))


def _fitted(call: Invocation, place: int, expected: str) -> TypedExpression:
    argument = call.typed(place)
    type = implicit_type(argument.type, expected)
    if type is None:
        wanted = expected.lstrip("=").replace("|", " or ")
        advice = "; cast it" if expected.startswith("=") else ""
        raise RuleError(f"{call.name}() takes {wanted} as argument {place + 1}; found {argument.type}{advice}")
    return call.cast(argument, type)


def check_count(call: Invocation, *counts: int) -> None:
    """RuleError if the number of arguments is none of the counts."""
    if len(call.arguments) not in counts:
        wanted = " or ".join(map(str, counts))
        raise RuleError(f"{call.name}() takes {wanted} argument{'' if counts == (1,) else 's'}; found {len(call.arguments)}")


def counted(call: Invocation, *counts: int) -> tuple[TypedExpression, ...]:
    """The arguments, if there are as many as one of the counts; RuleError if not."""
    check_count(call, *counts)
    return call.values


@lru_cache(maxsize=1024)
def _parameters(takes: str) -> tuple[tuple[str, str], ...]:
    """Expected types, each with its kind: one, optional or any."""
    found = []
    for part in filter(None, (part.strip() for part in takes.split(","))):
        kind = "optional" if part.startswith("[") else "any" if part.endswith("*") else "one"
        found.append((part.strip("[]*"), kind))
    return tuple(found)


@lru_cache(maxsize=4096)
def _expected_types(takes: str, count: int) -> tuple[str, ...] | None:
    """The expected type of each of `count` arguments; None if a call has more or fewer."""
    parameters = _parameters(takes)
    least = sum(kind == "one" for _, kind in parameters)
    if count < least:
        return None
    types: list[str] = []
    spare = count - least
    for type, kind in parameters:
        taken = 1 if kind == "one" else min(spare, 1) if kind == "optional" else spare
        spare -= 0 if kind == "one" else taken
        types += [type] * taken
    return tuple(types) if len(types) == count else None


def _counts(takes: str) -> str:
    """How many arguments a signature allows, in words."""
    kinds = [kind for _, kind in _parameters(takes)]
    least, most = kinds.count("one"), kinds.count("one") + kinds.count("optional")
    if "any" in kinds:
        return f"{least} or more arguments"
    return f"{least} argument{'' if least == 1 else 's'}" if least == most else f"{least} to {most} arguments"


def same_as(place: int) -> Callable[[Sequence[TypedExpression]], str]:
    """The type of the argument at this place."""
    return lambda arguments: arguments[place].type


@lru_cache(maxsize=2 * PARTS_MAX)
def can_fail(expression: TypedExpression) -> bool:
    """Whether some row could make the expression raise."""
    if expression.name in ("column", "literal"):
        return False
    if expression.name == "lambda":
        return can_fail(expression.arguments[0])
    return OPERATIONS[expression.name].fails(expression) or any(map(can_fail, expression.arguments))


@lru_cache(maxsize=2 * PARTS_MAX)
def columns_of(expression: TypedExpression) -> frozenset[str]:
    """The names of the columns that an expression reads."""
    if expression.name == "column":
        return frozenset((expression.value,))
    read = frozenset().union(*map(columns_of, expression.arguments))
    return read.difference(expression.value.split(",")) if expression.name == "lambda" else read


def needs_literals(*places: int) -> Refusal:
    """Refuse an expression whose arguments at these places are not constants."""

    def refuse(expression: TypedExpression) -> str | None:
        varying = [
            place + 1 for place in places if place < len(expression.arguments) and expression.arguments[place].name != "literal"
        ]
        return f"its argument {varying[0]} must be a constant" if varying else None

    return refuse
