"""The rules on keys: which columns a step leaves, what becomes of the key, and what may be joined with what."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from functools import singledispatch

from streamkit.errors import Location, SchemaError, TopologyError
from streamkit.plan import nodes
from streamkit.plan.analysis import Analyzer
from streamkit.plan.expression import Expression, Reference, TypedExpression
from streamkit.plan.steps import column_of
from streamkit.schema import Column, Schema, check_user_schema

NamedColumns = tuple[tuple[str, TypedExpression], ...]
WIDENINGS = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))


@singledispatch
def result_columns(node: nodes.Node, schema: Schema, key: tuple[str, ...], analyzer: Analyzer) -> NamedColumns:
    """The columns a stateless step leaves of rows of `schema`; key columns are always among them."""
    raise TypeError(f"{type(node).__name__} has no columns of its own")


@result_columns.register
def _(node: nodes.Select, schema: Schema, key: tuple[str, ...], analyzer: Analyzer) -> NamedColumns:
    chosen = dict(_expanded(node.columns, schema))
    kept = {name: Reference(name) for name in key if name not in chosen}
    return typed({**kept, **chosen}.items(), schema, analyzer, node.at)


@result_columns.register
def _(node: nodes.WithColumns, schema: Schema, key: tuple[str, ...], analyzer: Analyzer) -> NamedColumns:
    return typed({**{name: Reference(name) for name in schema.names}, **dict(node.columns)}.items(), schema, analyzer, node.at)


@result_columns.register
def _(node: nodes.Rename, schema: Schema, key: tuple[str, ...], analyzer: Analyzer) -> NamedColumns:
    names = dict(node.names)
    check_columns(names, schema, node.at)
    return tuple((names.get(name, name), column_of(schema, name)) for name in schema.names)


@result_columns.register
def _(node: nodes.Drop, schema: Schema, key: tuple[str, ...], analyzer: Analyzer) -> NamedColumns:
    check_columns(node.columns, schema, node.at)
    return tuple((name, column_of(schema, name)) for name in schema.names if name not in node.columns or name in key)


def key_names(node: nodes.Node, key: tuple[str, ...]) -> tuple[str, ...]:
    """What the columns of a key are called behind a step."""
    names = dict(node.names) if isinstance(node, nodes.Rename) else {}
    return tuple(names.get(name, name) for name in key)


def changed_key(columns: NamedColumns, key: tuple[str, ...]) -> tuple[str, ...]:
    """The key columns that a step computes anew."""
    return tuple(name for name, expression in columns if name in key and (expression.name, expression.value) != ("column", name))


def check_table_key(node: nodes.Node, columns: NamedColumns, key: tuple[str, ...]) -> None:
    """TopologyError if a step changes the key of a table; other names for its columns are no change."""
    changed = () if isinstance(node, nodes.Rename) else changed_key(columns, key)
    if changed:
        raise TopologyError(
            f"{node.kind} changes the key column {changed[0]!r} of a table, and a table's rows are known by their key {list(key)}; "
            "expected another name for the new column",
            node.at,
        )


def typed(columns: Iterable[tuple[str, Expression]], schema: Schema, analyzer: Analyzer, at: Location | None) -> NamedColumns:
    """Named expressions with their types; columns as they are need no analysis."""
    named = tuple(columns)
    computed = [(name, expression) for name, expression in named if not _is_plain(expression, schema)]
    analysed = dict(analyzer.project(schema, computed, at)) if computed else {}
    plain = {name: column_of(schema, expression.name) for name, expression in named if _is_plain(expression, schema)}  # type: ignore[attr-defined]
    return tuple((name, analysed[name] if name in analysed else plain[name]) for name, _ in named)


def check_columns(names: Iterable[str], schema: Schema, at: Location | None, what: str = "") -> None:
    """TopologyError for the first name that is no column; the message lists those there are."""
    for name in names:
        if name not in schema:
            close = difflib.get_close_matches(name, schema.names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TopologyError(f"there is no column {name!r}{what}; there are: {', '.join(schema.names)}{hint}", at)


def make_schema(columns: Sequence[Column], at: Location | None) -> Schema:
    """The schema of a step's rows; TopologyError where two columns have the same name, or one has a name of StreamKit's own."""
    try:
        return check_user_schema(Schema(tuple(columns)))
    except SchemaError as error:
        raise TopologyError(str(error), at) from None


def join_columns(join: nodes.Join, left: Schema, left_key: tuple[str, ...], right_key: tuple[str, ...]) -> tuple[str, ...]:
    """The stream's columns of a join, in the order of the table's key; TopologyError unless `on` covers that key."""
    if join.on is None:
        if len(left_key) != len(right_key):
            raise TopologyError(
                f"the stream's key {list(left_key)} and the table's key {list(right_key)} cannot be joined; expected on=, "
                "such as {stream column: table column}",
                join.at,
            )
        return left_key
    pairs = {right: left_name for left_name, right in join.on}
    if set(pairs) != set(right_key):
        raise TopologyError(
            f"a stream is joined with a table by the table's key {list(right_key)}, not by {list(pairs)}; "
            f"expected on={_proposal(left, left_key, right_key)}",
            join.at,
        )
    check_columns(pairs.values(), left, join.at, " in the stream")
    return tuple(pairs[name] for name in right_key)


def common_key_types(
    join: nodes.Join, left: Schema, on: tuple[str, ...], right: Schema, right_key: tuple[str, ...]
) -> tuple[str, ...]:
    """The types in which a join compares its columns; TopologyError unless the one widens to the other."""
    return tuple(_common_type(join, left[a], right[b]) for a, b in zip(on, right_key, strict=True))


def joined_names(join: nodes.Join, left: Schema, right: Schema, right_key: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Pairs of (result name, source) of a join: the stream's columns, then the table's without its key."""
    taken = {name.lower() for name in left.names}
    values = [name for name in right.names if name not in right_key]
    clashes = [name for name in values if name.lower() in taken]
    if clashes and join.suffix is None:
        raise TopologyError(
            f"both sides of the join have the column {clashes[0]!r}; expected suffix='_…' for the table's columns, "
            f"or table.rename({clashes[0]}='…') before",
            join.at,
        )
    names = {name: f"{name}{join.suffix}" if name in clashes else name for name in values}
    return (*((name, f"left.{name}") for name in left.names), *((names[name], f"right.{name}") for name in values))


def _expanded(columns: Iterable[tuple[str, Expression]], schema: Schema) -> list[tuple[str, Expression]]:
    expanded: list[tuple[str, Expression]] = []
    for name, expression in columns:
        expanded += [(each, Reference(each)) for each in schema.names] if expression == Reference("*") else [(name, expression)]
    return expanded


def _is_plain(expression: Expression, schema: Schema) -> bool:
    return isinstance(expression, Reference) and expression.name in schema


def _common_type(join: nodes.Join, left: Column, right: Column) -> str:
    if left.type == right.type:
        return left.type
    for family in WIDENINGS:
        if left.type in family and right.type in family:
            return max(left.type, right.type, key=family.index)
    raise TopologyError(
        f"the join column {left.name!r} of the stream is {left.type}, and {right.name!r} of the table is {right.type}; "
        f"expected the same type: cast one, as in with_columns({left.name}=F.col('{left.name}').cast('{right.type}'))",
        join.at,
    )


def _proposal(left: Schema, left_key: tuple[str, ...], right_key: tuple[str, ...]) -> str:
    if all(name in left for name in right_key):
        return repr(right_key[0] if len(right_key) == 1 else list(right_key))
    return "{" + ", ".join(f"'…': {name!r}" for name in right_key) + "}"
