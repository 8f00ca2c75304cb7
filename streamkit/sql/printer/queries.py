"""Queries as text."""

from __future__ import annotations

from streamkit.expressions.sql.dialect import Dialect
from streamkit.plan.expression import Literal
from streamkit.sql.printer.expressions import expression_in, operand_in
from streamkit.sql.printer.names import duration_text, name_of
from streamkit.sql.tree.query import (
    FieldsStar,
    FromItem,
    JoinClause,
    Order,
    Query,
    SelectItem,
    SourceName,
    Star,
    WindowClause,
)
from streamkit.sql.tree.span import Name, Written


def query_in(query: Query, dialect: Dialect) -> str:
    """The text of a query."""
    clauses = [f"SELECT {'DISTINCT ' * query.is_distinct}{', '.join(_item(item, dialect) for item in query.items)}"]
    if query.source is not None:
        clauses.append(f"FROM {_relation(query.source, dialect)}")
    clauses += [_join(join, dialect) for join in query.joins]
    if query.window is not None:
        clauses.append(_window(query.window, dialect))
    if query.where is not None:
        clauses.append(f"WHERE {written_in(query.where, dialect)}")
    if query.group_by is not None:
        clauses.append(f"GROUP BY {_listed(query.group_by, dialect)}")
    if query.partition_by is not None:
        clauses.append(f"PARTITION BY {_listed(query.partition_by, dialect) or 'NULL'}")
    if query.having is not None:
        clauses.append(f"HAVING {written_in(query.having, dialect)}")
    if query.order_by:
        clauses.append(f"ORDER BY {', '.join(_order(order, dialect) for order in query.order_by)}")
    if query.emit:
        clauses.append(f"EMIT {query.emit.upper()}")
    if query.limit is not None:
        clauses.append(f"LIMIT {query.limit}")
    if query.as_of is not None:
        clauses.append(f"AS OF {_moment(query.as_of, dialect)}")
    return " ".join(clauses)


def written_in(written: Written, dialect: Dialect) -> str:
    """The text of an expression of a clause."""
    return expression_in(written.expression, dialect)


def _listed(expressions: tuple[Written, ...], dialect: Dialect) -> str:
    return ", ".join(written_in(one, dialect) for one in expressions)


def _item(item: SelectItem, dialect: Dialect) -> str:
    if isinstance(item, Star):
        return "*" if item.qualifier is None else f"{name_of(item.qualifier, dialect)}.*"
    if isinstance(item, FieldsStar):
        if dialect.has_arrows:
            return f"{operand_in(item.written.expression, dialect)}->*"
        return f"({written_in(item.written, dialect)}).*"
    return f"{written_in(item.written, dialect)}{_alias(item.alias, dialect)}"


def _alias(alias: Name | None, dialect: Dialect) -> str:
    return "" if alias is None else f" AS {name_of(alias, dialect)}"


def _relation(relation: FromItem, dialect: Dialect) -> str:
    text = name_of(relation.name, dialect) if isinstance(relation, SourceName) else f"({query_in(relation.query, dialect)})"
    return f"{text}{_alias(relation.alias, dialect)}"


def _join(join: JoinClause, dialect: Dialect) -> str:
    kind = "" if join.kind == "inner" else f"{join.kind.upper()} "
    return f"{kind}JOIN {_relation(join.right, dialect)}{_within(join)} ON {written_in(join.on, dialect)}"


def _within(join: JoinClause) -> str:
    if join.within is None:
        return ""
    before, after = duration_text(join.within.before_ms), duration_text(join.within.after_ms)
    grace = "" if join.within.grace_ms is None else f" GRACE PERIOD {duration_text(join.within.grace_ms)}"
    return f" WITHIN {before if before == after else f'({before}, {after})'}{grace}"


def _window(window: WindowClause, dialect: Dialect) -> str:
    sizes = [f"{'' if window.kind == 'session' else 'SIZE '}{duration_text(window.size_ms)}"]
    for words, millis in (
        ("ADVANCE BY", window.advance_ms),
        ("RETENTION", window.retention_ms),
        ("GRACE PERIOD", window.grace_ms),
    ):
        if millis is not None:
            sizes.append(f"{words} {duration_text(millis)}")
    name = "" if window.name is None else f"{name_of(window.name, dialect)} "
    return f"WINDOW {name}{window.kind.upper()} ({', '.join(sizes)})"


def _order(order: Order, dialect: Dialect) -> str:
    nulls = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[order.nulls_first]
    return f"{written_in(order.written, dialect)}{' DESC' * order.is_descending}{nulls}"


def _moment(moment: Written, dialect: Dialect) -> str:
    """The moment of AS OF: a text as it is, anything else in parentheses, so that OF is no name."""
    text = written_in(moment, dialect)
    return text if isinstance(moment.expression, Literal) and isinstance(moment.expression.value, str) else f"({text})"
