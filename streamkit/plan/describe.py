"""A topology as a tree of text, from its sources to its sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import singledispatch

from streamkit.plan import nodes
from streamkit.plan.expression import Expression, Reference
from streamkit.plan.expression_text import expression_text
from streamkit.plan.tree import children, walk


def describe(name: str, roots: Iterable[nodes.Node]) -> str:
    """
    The topology as text: every source with what becomes of it below it, as far as the ends of streams and the stores.

    A join stands below its stream; below its table there is a reference to it.
    """
    every = list(walk(roots))
    consumers = {node: [other for other in every if node in children(other)] for node in every}
    lines = [f"topology {name}"]
    for node in every:
        if isinstance(node, nodes.Source):
            lines += _branch(node, None, consumers, "", "")
    if not every:
        lines.append("(nothing yet: no stream or table goes to a topic or a named store)")
    return "\n".join(lines)


@singledispatch
def node_text(node: nodes.Node) -> str:
    """What a node does, in one line."""
    return node.kind


@node_text.register
def _(node: nodes.Source) -> str:
    store = getattr(node, "store", None)
    return f"{node.kind.replace('_', ' ')} {node.topic}" + (f", store {store}" if store else "")


@node_text.register
def _(node: nodes.Filter) -> str:
    return f"filter {expression_text(node.predicate)}"


@node_text.register
def _(node: nodes.Select) -> str:
    return f"select {named_text(node.columns)}"


@node_text.register
def _(node: nodes.WithColumns) -> str:
    return f"with columns {named_text(node.columns)}"


@node_text.register
def _(node: nodes.Rename) -> str:
    return "rename " + ", ".join(f"{old} to {new}" for old, new in node.names)


@node_text.register
def _(node: nodes.Drop) -> str:
    return f"drop {', '.join(node.columns)}"


@node_text.register
def _(node: nodes.Join) -> str:
    on = ", ".join(left if left == right else f"{left} = {right}" for left, right in node.on) if node.on else "key"
    return f"{node.how} join {_short_text(node.right)} on {on}"


@node_text.register
def _(node: nodes.Aggregate) -> str:
    key = named_text(node.key) if node.key else "key"
    window = f", {node.window}" if node.window else ""
    store = f" → store {node.store}" if node.store else ""
    return f"group by {key}{window}: {named_text(node.aggregates)}{store}"


@node_text.register
def _(node: nodes.Emit) -> str:
    return f"emit {node.mode}"


@node_text.register
def _(node: nodes.To) -> str:
    return f"to {node.topic}"


def named_text(columns: Iterable[tuple[str, Expression]]) -> str:
    """Named expressions in one line; columns as they are by their name alone."""
    return ", ".join(
        name if expression == Reference(name) else f"{name} = {expression_text(expression)}" for name, expression in columns
    )


def _short_text(node: nodes.Node) -> str:
    origin = nodes.table_origin(node)
    return f"{origin.kind.replace('_', ' ')} {origin.topic}" if isinstance(origin, nodes.Source) else origin.kind


def _branch(
    node: nodes.Node, parent: nodes.Node | None, consumers: dict[nodes.Node, list[nodes.Node]], indent: str, mark: str
) -> Iterator[str]:
    named = f"  [{node.name}]" if node.name else ""
    if isinstance(node, nodes.Join) and parent != node.left:
        yield f"{indent}{mark}↦ {node_text(node)}{named}"
        return
    yield f"{indent}{mark}{node_text(node)}{named}"
    below = indent + {"": "", "├─ ": "│  ", "└─ ": "   "}[mark]
    followers = consumers[node]
    for place, follower in enumerate(followers):
        yield from _branch(follower, node, consumers, below, "└─ " if place == len(followers) - 1 else "├─ ")
