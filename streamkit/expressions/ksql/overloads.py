"""
Which overload of a function a call means in ksqlDB, and what ksqlDB refuses, since it is none or may be several.

ksqlDB looks for overloads that have the very types of the arguments, and only then for those that these are converted to: a number to a wider
one, a text to a time or to bytes. A type variable stands for one type, and nothing is converted to that. NULL goes with every type, so it leaves
open which overload is meant where several differ there alone.

The overloads are the nodes of a tree, whose edges are pairs of parameters from both ends of a call inwards. Where two nodes fit a call, the
better one counts: without a repeated parameter, then with more parameters, then with fewer type variables. Two that are alike are an error, also
if both are of one overload: its repeated parameter may be given as an array.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from streamkit.data_type import array_of, element_of, entry_of
from streamkit.expressions.core.operation import Argument, Invocation, RuleError
from streamkit.expressions.ksql.casts import converted
from streamkit.expressions.ksql.nested_failures import null_nested
from streamkit.expressions.ksql.signature import NUMBERS, Signature, kind_of, ksql_name, refused, types_text
from streamkit.plan.expression import Lambda, TypedExpression

_OF_NUMBERS = ("int", "bigint", "double")
_OF_TWO_NUMBERS = ("int, int", "bigint, bigint", "double, double")
_OF_COMPARABLES = tuple(
    f"{one}, {one}*" for one in ("int", "bigint", "decimal", "double", "string", "binary", "date", "time", "timestamp")
)
_BY_NAME: dict[str, tuple[str, ...]] = {  # what ksqlDB has several of, where one signature does for all here, or the other way round
    **dict.fromkeys(
        ("acos", "asin", "atan", "cbrt", "cos", "cosh", "cot", "degrees", "exp", "ln", "radians", "sign", "sin", "sinh", "sqrt", "tan", "tanh"),
        _OF_NUMBERS,
    ),
    "atan2": _OF_TWO_NUMBERS, "power": _OF_TWO_NUMBERS, "log": (*_OF_NUMBERS, *_OF_TWO_NUMBERS),
    "coalesce": ("T, T* -> T",), "greatest": _OF_COMPARABLES, "least": _OF_COMPARABLES,
    "concat_ws": ("string*", "binary*"), "json_array_contains": ("string, T",),
}  # fmt: skip
_FROM_TEXTS = ("date", "time", "timestamp", "binary")  # what texts are converted to
_VARIABLE = re.compile(r"\b[A-Z]\b")
ParameterPair = tuple[
    "tuple[str, bool]", "tuple[str, bool] | None"
]  # parameters from the left and the right, and whether each is one of any number


@dataclass
class _OverloadTree:
    """A place in the tree, and the overload whose parameters all lie on the way to it."""

    edges: dict[ParameterPair, _OverloadTree] = field(default_factory=dict)
    overload: Signature | None = None

    def end(self, overload: Signature) -> None:
        """The way of an overload ends here, unless that of a better one does."""
        if self.overload is None or _rank(overload) > _rank(self.overload):
            self.overload = overload

    def grow(self, parameters: Sequence[str], overload: Signature, *, is_endless: bool = False) -> None:
        """Add a way of these parameters, whose last one may follow ever again if it `is_endless`."""
        node = before = self
        count = len(parameters)
        for place in range((count + 1) // 2):
            other = count - 1 - place
            edge: ParameterPair = ((parameters[place], False), None if other == place else (parameters[other], False))
            before, node = node, node.edges.setdefault(edge, _OverloadTree())
        if is_endless:
            repeated = (parameters[-1], True)
            loop = before.edges.setdefault((repeated, repeated), _OverloadTree())
            loop.end(overload)
            loop.edges.setdefault((repeated, repeated), loop)
            loop.edges.setdefault((repeated, None), _OverloadTree()).end(overload)
        node.end(overload)

    def found(self, arguments: Sequence[Argument], *, converts: bool) -> list[Signature]:
        """The overloads of all nodes to which the arguments lead."""
        count = len(arguments)
        reached: list[tuple[_OverloadTree, dict[str, str]]] = [(self, {})]
        for place in range((count + 1) // 2):
            other = count - 1 - place
            before, reached = reached, []
            for node, types in before:
                for (left, right), following in node.edges.items():
                    bound = dict(types)
                    is_pair = right is not None
                    if is_pair != (other > place) or not _accepts(left[0], arguments[place], bound, converts=converts):
                        continue
                    if right is None or _accepts(right[0], arguments[other], bound, converts=converts):
                        reached.append((following, bound))
        return [node.overload for node, _ in reached if node.overload is not None]


def _rank(overload: Signature) -> tuple[bool, int, int, int]:
    """What an overload is compared by with another: the greater one is better."""
    variables = sum(bool(_variables(one)) for one in overload.parameters)
    return not overload.varies, len(overload.parameters), -variables, len(overload.parameters) - 1 if overload.varies else -1


@lru_cache(maxsize=512)
def _tree(overloads: tuple[Signature, ...]) -> _OverloadTree:
    """The tree of overloads. A repeated parameter is there as an array, never, and so often that both ends of a call may have it."""
    root = _OverloadTree()
    for overload in overloads:
        root.grow(overload.parameters, overload)
        if overload.varies:
            *others, repeated = overload.parameters
            root.grow((*others, array_of(repeated)), overload)
            root.grow(others, overload)
            most = (*others, *(repeated,) * (len(others) + 1))
            for count in range(len(others) + 1, len(most) + 1):
                root.grow(most[:count], overload, is_endless=count == len(most))
    return root


def _variables(pattern: str) -> set[str]:
    """The type variables of a pattern."""
    return set(_VARIABLE.findall(pattern))


def _accepts(pattern: str, argument: Argument, types: dict[str, str], *, converts: bool) -> bool:
    """Whether an argument may be given for a parameter; binds the type variables of the parameter."""
    if isinstance(argument, Lambda):
        return pattern.startswith("(")
    if pattern.startswith("("):
        return False
    return argument.type == "void" or _fits(pattern, argument.type, types, converts=converts and not _variables(pattern))


def _fits(pattern: str, type: str, types: dict[str, str], *, converts: bool) -> bool:
    if _VARIABLE.fullmatch(pattern):
        return types.setdefault(pattern, type) == type
    if (element := element_of(pattern)) and (own := element_of(type)):
        return _fits(element, own, types, converts=converts)
    if (entry := entry_of(pattern)) and (mine := entry_of(type)):
        return all(_fits(one, other, types, converts=converts) for one, other in zip(entry, mine))
    kind = kind_of(type)
    if pattern in ("any", kind):
        return True
    if not converts:
        return False
    if kind in NUMBERS and pattern in NUMBERS:
        return NUMBERS.index(kind) <= NUMBERS.index(pattern)
    return kind == "string" and pattern in _FROM_TEXTS


def as_called(call: Invocation, signatures: Sequence[Signature]) -> Invocation:
    """The call, in which texts are what its overload takes; RuleError if ksqlDB finds no overload, or several that are alike."""
    name = ksql_name(call.name)
    known = _BY_NAME.get(name.lower())
    overloads = tuple(signatures) if known is None else tuple(Signature.of(one if "->" in one else f"{one} ->") for one in known)
    found: list[Signature] = []
    for converts in (False, True):
        found = found or sorted(_tree(overloads).found(call.arguments, converts=converts), key=_rank)
    if not found:
        raise RuleError(refused(call, overloads))
    if len(found) > 1 and _rank(found[-1]) == _rank(found[-2]):
        several = " or ".join(dict.fromkeys(one.text(name) for one in found))
        raise RuleError(f"{name} of {types_text(call)} may be {several}; expected a CAST that says which")
    given = [one.type for one in call.arguments[: len(found[-1].parameters)] if isinstance(one, TypedExpression)]
    if "void" in given and (_variables(found[-1].gives) or len(given) < len(call.arguments)):
        raise RuleError(f"{name} of {types_text(call)} gives a type that nothing says; expected a CAST of NULL")
    return replace(call, arguments=tuple(_converted(call, one, place, found[-1]) for place, one in enumerate(call.arguments)))


def _converted(call: Invocation, argument: Argument, place: int, overload: Signature) -> Argument:
    """A text as the time or the bytes that a parameter takes. What ksqlDB converts is null where it fails, as any cast is."""
    pattern = overload.parameters[min(place, len(overload.parameters) - 1)]
    if isinstance(argument, Lambda) or _accepts(pattern, argument, {}, converts=False):
        return argument
    is_text = argument.type == "string" and pattern in _FROM_TEXTS
    return null_nested(converted(call, argument, pattern) if is_text else argument)
