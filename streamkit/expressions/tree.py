"""Catalyst's trees as Python values: the JSON of a plan; each node also has the JVM's own, for what JSON leaves out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from streamkit.data_type import normalise_type
from streamkit.errors import SchemaError

_JSON_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


@dataclass(frozen=True)
class Node:
    """One node of an analysed expression; `java` is its counterpart in the JVM."""

    name: str
    fields: dict[str, Any]
    children: tuple[Node, ...] = ()
    parent: list[Node] = field(default_factory=list, repr=False, compare=False)
    place: int = 0
    root: Any = field(default=None, repr=False, compare=False)

    @cached_property
    def java(self) -> Any:
        """The node in the JVM, found by its way from the root."""
        return self.root if not self.parent else self.parent[0].java.children().apply(self.place)

    @cached_property
    def type(self) -> str:
        """The Spark type of the value, as Spark writes it (`int`, `array<string>`)."""
        known = self.fields.get("dataType")
        return simple_type(known) if isinstance(known, str) else str(self.java.dataType().simpleString())

    @property
    def eval_mode(self) -> str:
        """ANSI, TRY or LEGACY; the JSON has null for it."""
        return str(self.java.evalMode().toString())


def simple_type(name: str) -> str:
    """The Spark type behind a type's name in JSON."""
    return _JSON_TYPES.get(name, name)


def is_flat(type: str) -> bool:
    """Whether a column can hold values of the type."""
    try:
        return normalise_type(type) == type
    except SchemaError:
        return False


def read_plan(plan: Any) -> tuple[list[str], list[Node]]:
    """The classes of an analysed plan's operators, top first, and the named expressions of the top one."""
    operators = json.loads(plan.toJSON())
    top = operators[0]
    names = [_class_name(operator) for operator in operators]
    listed = top.get("projectList") or top.get("aggregateExpressions") or []
    java = plan.expressions()
    return names, [_read_tree(list(nodes), java.apply(place)) for place, nodes in enumerate(listed)]


def _class_name(node: dict[str, Any]) -> str:
    return str(node["class"]).rsplit(".", 1)[-1]


def _read_tree(nodes: list[dict[str, Any]], root: Any) -> Node:
    """A tree from its nodes in pre-order."""
    remaining = iter(nodes)

    def read(place: int) -> Node:
        fields = next(remaining)
        children = tuple(read(number) for number in range(fields["num-children"]))
        node = Node(_class_name(fields), fields, children, place=place, root=root)
        for child in children:
            child.parent.append(node)
        return node

    return read(0)
