"""The rules on columns and keys: which names exist, which types expressions have, and that a table keeps its key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from streamkit.data_type import key_complaint
from streamkit.errors import Location, SchemaError, TopologyError
from streamkit.names import HEADERS, TIMESTAMP
from streamkit.plan.analysis import Analyzer
from streamkit.plan.expression import Expression, Reference, TypedExpression
from streamkit.plan.location import by_language
from streamkit.plan.node import Node
from streamkit.plan.steps import column_of
from streamkit.schema import Schema, SchemaColumn, check_apart_in_any_case, check_user_schema

NamedColumns = tuple[tuple[str, TypedExpression], ...]


def check_table_key(node: Node, columns: NamedColumns, key: tuple[str, ...]) -> None:
    """TopologyError if a step changes the key of a table."""
    changed = changed_key(columns, key)
    if changed:
        raise TopologyError(
            f"{node.kind} changes the key column {changed[0]!r} of a table, and a table's rows are known by their key {list(key)}; "
            "expected another name for the new column",
            node.at,
        )


def check_key_types(key: Iterable[str], schema: Schema, at: Location | None) -> None:
    """TopologyError if a key has a column whose values no key can have."""
    for name in key:
        complaint = key_complaint(name, schema[name].type)
        if complaint is not None:
            raise TopologyError(f"{complaint}; the key here is {', '.join(key)}", at)


def changed_key(columns: NamedColumns, key: tuple[str, ...]) -> tuple[str, ...]:
    """The key columns that a step computes."""
    return tuple(name for name, expression in columns if name in key and (expression.name, expression.value) != ("column", name))


def typed(columns: Iterable[tuple[str, Expression]], schema: Schema, analyzer: Analyzer, at: Location | None) -> NamedColumns:
    """Named expressions with their types; columns as they are need no analysis."""
    named = tuple(columns)
    computed = [(name, expression) for name, expression in named if not _is_plain(expression, schema)]
    analysed = dict(analyzer.project(schema, computed, at)) if computed else {}
    plain = {name: column_of(schema, expression.name) for name, expression in named if _is_plain(expression, schema)}  # type: ignore[attr-defined]
    return tuple((name, analysed[name] if name in analysed else plain[name]) for name, _ in named)


def check_columns(names: Iterable[str], schema: Schema, at: Location | None, what: str = "") -> None:
    """TopologyError if a name is not a column; the message names the first such, and lists the columns there are."""
    for name in names:
        if name not in schema:
            close = difflib.get_close_matches(name, schema.names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TopologyError(f"there is no column {name!r}{what}; there are: {', '.join(schema.names)}{hint}", at)


def make_schema(columns: Sequence[SchemaColumn], at: Location | None) -> Schema:
    """The schema of a step's rows; TopologyError if two columns have the same name, or one has a name that is reserved."""
    for column in columns:
        if column.name.lower() in (TIMESTAMP, HEADERS):
            example = by_language(at, f"select(at=F.col({column.name!r}))", "… AS at")
            raise TopologyError(
                f"a column cannot be called {column.name!r}, which each record has beside its columns; expected another name, as in {example}",
                at,
            )
    try:
        schema = check_user_schema(Schema(tuple(columns)))
        return schema if at is not None and at.keeps_case else check_apart_in_any_case(schema)
    except SchemaError as error:
        raise TopologyError(str(error), at) from None


def _is_plain(expression: Expression, schema: Schema) -> bool:
    return isinstance(expression, Reference) and expression.name in schema
