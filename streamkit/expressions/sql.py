"""
Spark SQL as text: sqlglot's Spark dialect reads it, and each kind of its nodes that means here what it means in Spark becomes an expression.

Functions keep the names that the text has: sqlglot's own ideas of them are switched off. What is not in the table is refused by name.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from streamkit.data_type import normalise_type
from streamkit.errors import Location, SchemaError, TopologyError, UnsupportedExpressionError
from streamkit.plan.expression import Alias, Call, Cast, Expression, Lambda, Literal, Reference

_Parser: Any = Spark.Parser


class _Dialect(Spark):
    class Parser(_Parser):  # type: ignore[misc]
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}  # so that array(1, 2)[0] is an element
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {  # those whose arguments are no plain list
            name: parse
            for name, parse in _Parser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY")
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": _Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}


class _RefusedError(ValueError):
    """The text has something that cannot be used."""


def parse_sql(text: str, at: Location | None = None) -> Expression:
    """The expression that the text is; TopologyError if it is no Spark SQL, UnsupportedExpressionError if it cannot be used here."""
    if not isinstance(text, str) or not text.strip():
        raise TopologyError(f"an SQL expression must be a text that is not empty; found {text!r}", at)
    try:
        return _parsed(text)
    except SqlglotError as error:
        raise TopologyError(f"syntax error: {_first_line(error)}, in {text}", at) from None
    except _RefusedError as error:
        raise UnsupportedExpressionError(f"{error}, in {text}", at) from None
    except SchemaError as error:
        raise TopologyError(f"{error}, in {text}", at) from None


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Expression:
    trees = _Dialect().parse(text)
    if len(trees) != 1:
        raise _RefusedError(f"found {len(trees)} expressions; expected one")
    return _read(trees[0], frozenset())


def _first_line(error: SqlglotError) -> str:
    return str(error).splitlines()[0].rstrip(" .")


def _read(node: Any, variables: frozenset[str]) -> Expression:
    read = _READERS.get(type(node))
    if read is None:
        raise _RefusedError(f"{type(node).__name__} cannot be used")
    return read(node, lambda inner, more=frozenset(): _read(inner, variables | more))


_Read = Callable[..., Expression]


def _binary(function: str) -> Callable[[Any, _Read], Expression]:
    return lambda node, read: Call(function, (read(node.this), read(node.expression)))


def _unary(function: str) -> Callable[[Any, _Read], Expression]:
    return lambda node, read: Call(function, (read(node.this),))


def _column(node: exp.Column, read: _Read) -> Expression:
    parts = [
        part for part in (node.args.get("catalog"), node.args.get("db"), node.args.get("table"), node.this) if part is not None
    ]
    if any(not isinstance(part, exp.Identifier) for part in parts):
        raise _RefusedError("* cannot be used")
    return Reference(".".join(part.this for part in parts))


def _literal(node: exp.Literal, read: _Read) -> Expression:
    text = node.this
    if node.is_string:
        return Literal(text)
    if "e" in text.lower():
        return Literal(float(text))
    return Literal(decimal.Decimal(text)) if "." in text else _whole(int(text))


def _whole(value: int) -> Expression:
    return Literal(value) if -(2**63) <= value < 2**63 else Literal(decimal.Decimal(value))


def _cast(node: exp.Cast, read: _Read) -> Expression:
    type = normalise_type(node.args["to"].sql(dialect="spark"))
    value = read(node.this)
    if node.args.get("safe"):
        return Call("try_cast", (value, Literal(type)))
    if isinstance(value, Literal) and isinstance(value.value, (int, float, decimal.Decimal)) and type == "double":
        return Literal(float(value.value))
    return Cast(value, type)


def _call(node: exp.Anonymous, read: _Read) -> Expression:
    name = node.this.lower() if isinstance(node.this, str) else node.this.name.lower()
    arguments = tuple(
        Literal(1) if name == "count" and isinstance(argument, exp.Star) else read(argument) for argument in node.expressions
    )
    return Call(name, arguments)


def _lambda(node: exp.Lambda, read: _Read) -> Expression:
    names = tuple(parameter.name for parameter in node.expressions)
    return Lambda(names, read(node.this, frozenset(names)))


def _case(node: exp.Case, read: _Read) -> Expression:
    arguments: list[Expression] = []
    for branch in node.args["ifs"]:
        condition = read(branch.this)
        arguments.append(Call("eq", (read(node.this), condition)) if node.this else condition)
        arguments.append(read(branch.args["true"]))
    if default := node.args.get("default"):
        arguments.append(read(default))
    return Call("when", tuple(arguments))


def _in(node: exp.In, read: _Read) -> Expression:
    if node.args.get("query") or node.args.get("unnest"):
        raise _RefusedError("an expression sees the row only, not a subquery; join with a table instead")
    return Call("in", (read(node.this), *map(read, node.expressions)))


def _is(node: exp.Is, read: _Read) -> Expression:
    value, wanted = read(node.this), node.expression
    if isinstance(wanted, exp.Null):
        return Call("isnull", (value,))
    if isinstance(wanted, exp.Boolean):
        return Call("eq_null_safe", (value, Literal(bool(wanted.this))))
    raise _RefusedError(f"IS {wanted.sql()} cannot be used")


def _not(node: exp.Not, read: _Read) -> Expression:
    inner = read(node.this)
    is_null = isinstance(node.this, exp.Is) and isinstance(inner, Call) and inner.function == "isnull"
    return Call("isnotnull", inner.arguments) if is_null and isinstance(inner, Call) else Call("not", (inner,))


def _like(function: str) -> Callable[[Any, _Read], Expression]:
    def read_like(node: Any, read: _Read) -> Expression:
        if isinstance(node.expression, (exp.Any, exp.All, exp.Tuple)):
            raise _RefusedError("LIKE ANY and LIKE ALL cannot be used")
        call = Call(function, (read(node.this), read(node.expression)))
        return Call("not", (call,)) if node.args.get("negate") else call

    return read_like


def _escape(node: exp.Escape, read: _Read) -> Expression:
    like = read(node.this)
    negated = isinstance(like, Call) and like.function == "not"
    inner = like.arguments[0] if negated and isinstance(like, Call) else like
    assert isinstance(inner, Call)
    escaped = Call(inner.function, (*inner.arguments, read(node.expression)))
    return Call("not", (escaped,)) if negated else escaped


def _concatenation(node: exp.Concat, read: _Read) -> Expression:
    """Texts side by side are one."""
    parts = [read(part) for part in node.expressions]
    if not all(isinstance(part, Literal) and isinstance(part.value, str) for part in parts):
        raise _RefusedError("texts side by side must be constants")
    return Literal("".join(str(part.value) for part in parts if isinstance(part, Literal)))


def _extract(node: exp.Extract, read: _Read) -> Expression:
    return Call("extract", (Literal(node.this.name), read(node.expression)))


def _trim(node: exp.Trim, read: _Read) -> Expression:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    characters = node.args.get("expression")
    return Call(name, (read(node.this), *([read(characters)] if characters else [])))


def _substring(node: exp.Substring, read: _Read) -> Expression:
    rest = [part for part in (node.args.get("start"), node.args.get("length")) if part is not None]
    return Call("substring", (read(node.this), *map(read, rest)))


def _position(node: exp.StrPosition, read: _Read) -> Expression:
    start = node.args.get("position")
    return Call("locate", (read(node.args["substr"]), read(node.this), *([read(start)] if start else [])))


def _overlay(node: exp.Overlay, read: _Read) -> Expression:
    length = node.args.get("for_")
    return Call(
        "overlay", (read(node.this), read(node.expression), read(node.args["from_"]), *([read(length)] if length else []))
    )


def _interval(node: exp.Interval, read: _Read) -> Expression:
    unit = node.args.get("unit")
    if unit is None or not isinstance(node.this, exp.Literal):
        raise _RefusedError("an interval must be a constant with a unit, such as INTERVAL 1 DAY")
    return Call("interval", (Literal(str(node.this.this)), Literal(unit.sql().upper())))


def _bracket(node: exp.Bracket, read: _Read) -> Expression:
    if len(node.expressions) != 1:
        raise _RefusedError("[] takes one index or key")
    return Call("get_item", (read(node.this), read(node.expressions[0])))


def _dot(node: exp.Dot, read: _Read) -> Expression:
    if not isinstance(node.expression, exp.Identifier):
        raise _RefusedError(f"{node.sql()} cannot be used")
    return Call("get_field", (read(node.this), Literal(node.expression.this)))


def _row_only(node: Any, read: _Read) -> Expression:
    raise _RefusedError("an expression sees the row only; join with a table instead")


def _window(node: Any, read: _Read) -> Expression:
    raise _RefusedError("it has a window over other rows (OVER); use windowed_by() on groups")


def _distinct(node: Any, read: _Read) -> Expression:
    raise _RefusedError("an aggregate must not be DISTINCT or have a FILTER; expected it plain (a filter: count_if, or when)")


_READERS: dict[type, Callable[[Any, _Read], Expression]] = {
    exp.Column: _column,
    exp.Identifier: lambda node, read: Reference(node.this),
    exp.Literal: _literal,
    exp.RawString: lambda node, read: Literal(node.this),
    exp.HexString: lambda node, read: Literal(bytes.fromhex(node.this)),
    exp.Null: lambda node, read: Literal(None),
    exp.Boolean: lambda node, read: Literal(bool(node.this)),
    exp.Paren: lambda node, read: read(node.this),
    exp.Alias: lambda node, read: Alias(read(node.this), node.alias),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Anonymous: _call,
    exp.Lambda: _lambda,
    exp.Case: _case,
    exp.If: lambda node, read: Call("if", tuple(read(node.args[part]) for part in ("this", "true", "false"))),
    exp.In: _in,
    exp.Is: _is,
    exp.Between: lambda node, read: Call("between", (read(node.this), read(node.args["low"]), read(node.args["high"]))),
    exp.Like: _like("like"),
    exp.ILike: _like("ilike"),
    exp.RegexpLike: _like("rlike"),
    exp.Escape: _escape,
    exp.Concat: _concatenation,
    exp.DPipe: _binary("concat"),
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.StrPosition: _position,
    exp.Overlay: _overlay,
    exp.Interval: _interval,
    exp.Bracket: _bracket,
    exp.Dot: _dot,
    exp.And: _binary("and"),
    exp.Or: _binary("or"),
    exp.Not: _not,
    exp.EQ: _binary("eq"),
    exp.NEQ: _binary("ne"),
    exp.NullSafeEQ: _binary("eq_null_safe"),
    exp.NullSafeNEQ: lambda node, read: Call("not", (Call("eq_null_safe", (read(node.this), read(node.expression))),)),
    exp.LT: _binary("lt"),
    exp.LTE: _binary("le"),
    exp.GT: _binary("gt"),
    exp.GTE: _binary("ge"),
    exp.Add: _binary("add"),
    exp.Sub: _binary("subtract"),
    exp.Mul: _binary("multiply"),
    exp.Div: _binary("divide"),
    exp.Mod: _binary("remainder"),
    exp.IntDiv: _binary("div"),
    exp.BitwiseAnd: _binary("bitwise_and"),
    exp.BitwiseOr: _binary("bitwise_or"),
    exp.BitwiseXor: _binary("bitwise_xor"),
    exp.BitwiseNot: _unary("bitwise_not"),
    exp.BitwiseLeftShift: _binary("shiftleft"),
    exp.BitwiseRightShift: _binary("shiftright"),
    exp.Neg: _unary("negate"),
    exp.Subquery: _row_only,
    exp.Select: _row_only,
    exp.Exists: _row_only,
    exp.Window: _window,
    exp.Distinct: _distinct,
    exp.Filter: _distinct,
}
