"""The key that a join of the ksql dialect gives its rows, which the columns that it compared are for queries and further joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import Call, Expression, Reference
from streamkit.sql.lowering.joining import FULL, INNER, LEFT, RIGHT
from streamkit.sql.lowering.scope import Scope, fresh_name

KEY = "key\N{GREEK SMALL LETTER LAMDA}"  # begins names of columns that no query can write
Pair = tuple[Expression, Expression]  # what a condition says is equal, of the left and of the right side


@dataclass(frozen=True)
class JoinedKey:
    """
    The key of rows that a join gives, in ksqlDB's sense: `columns` are those that it has for it beside the columns of both sides.

    Both columns of an equality are the key, also that of a side without a row. That of a FULL JOIN, or of a join on expressions, is one that
    the join makes up; that of tables which are joined by another column than the key of one of them is the key of the other one.
    """

    scope: Scope
    columns: tuple[tuple[str, Expression], ...] = ()


def joined_key(scope: Scope, pairs: Sequence[Pair], kind: str, keys: Sequence[Sequence[str] | None] | None) -> JoinedKey:
    """
    The scope of a join with its key.

    `scope` is that of both sides, with the key of the left one. `keys` are those of two tables, as far as they are known; None of streams.
    """
    bounds = {one.column for one in scope.columns or () if one.is_bound}
    keys = None if keys is None else [None if one is None else [name for name in one if name not in bounds] for one in keys]
    if not pairs:
        return JoinedKey(replace(scope, key=None, made_up_key=False))
    if keys is not None and None not in keys:
        covers = [_columns(one) == {*(key or ())} for one, key in zip(zip(*pairs, strict=True), keys, strict=True)]
        if covers == [False, False]:  # which no query that goes on compares
            return JoinedKey(replace(scope, key=None, made_up_key=False))
        if covers != [True, True]:  # a foreign key
            kept = keys[0 if covers[1] else 1]
            return JoinedKey(
                replace(scope, key=tuple(kept or ()), made_up_key=scope.made_up_key and covers[1] and kind in (INNER, LEFT))
            )
    value: Callable[[Expression, Expression], Expression] = {
        FULL: lambda one, other: Call("coalesce", (one, other)),
        RIGHT: lambda _, other: other,
    }.get(kind, lambda one, _: one)
    taken, made, key, columns = [*scope.names], list[tuple[str, Expression]](), list[str](), list(scope.columns or ())
    for one, other in pairs:
        both = value(one, other)
        name = _column(both)
        if name is None:
            name = fresh_name(KEY, taken)
            taken.append(name)
            made.append((name, both))
        key.append(name)
        equal = {found for found in (_column(one), _column(other)) if found is not None}
        columns = [replace(each, copied=name) if each.column in equal or each.copied in equal else each for each in columns]
    columns = [replace(one, copied="") if one.copied not in key or one.copied == one.column else one for one in columns]
    is_made_up = kind == FULL or not any(isinstance(one, Reference) for pair in pairs for one in pair)
    return JoinedKey(replace(scope, columns=tuple(columns), key=tuple(key), made_up_key=is_made_up), tuple(made))


def _columns(parts: Sequence[Expression]) -> set[str | None]:
    return {_column(one) for one in parts}


def _column(part: Expression) -> str | None:
    """The column that an expression is; None for a field of one, and for anything else."""
    parts = parts_of(part.name) if isinstance(part, Reference) else ()
    return parts[0] if len(parts) == 1 else None
