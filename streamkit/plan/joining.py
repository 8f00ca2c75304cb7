"""What joins share: the columns they compare, the types they compare them in, and the columns they give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from streamkit.errors import Location, TopologyError
from streamkit.plan.keys import check_columns, make_schema
from streamkit.plan.location import by_language
from streamkit.plan.operator import Names, listed
from streamkit.plan.steps import Step, with_operator
from streamkit.schema import Schema, SchemaColumn

ColumnSources = tuple[tuple[str, str], ...]  # pairs of (result name, source), source being left.NAME or right.NAME
SIDES = ("left", "right")
PRESERVED_SIDES = {
    "inner": (),
    "left": ("left",),
    "outer": ("left", "right"),
}  # those whose rows are kept without one of the other side
WIDENINGS = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))


class JoinNode(Protocol):
    """What the rules on joins ask of the node."""

    @property
    def how(self) -> str: ...

    @property
    def on(self) -> tuple[tuple[str, str], ...] | None: ...

    @property
    def suffix(self) -> str | None: ...

    @property
    def at(self) -> Location | None: ...


def join_columns(join: JoinNode, left: Schema, left_key: tuple[str, ...], right_key: tuple[str, ...]) -> tuple[str, ...]:
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
    join: JoinNode,
    left: Schema,
    on: Sequence[str],
    right: Schema,
    right_key: Sequence[str],
    sides: tuple[str, str] = ("stream", "table"),
) -> tuple[str, ...]:
    """The types in which a join compares its columns; TopologyError unless one widens to the other."""
    return tuple(_common_type(join, left[a], right[b], sides) for a, b in zip(on, right_key, strict=True))


def joined_names(join: JoinNode, left: Schema, right: Schema, right_key: Sequence[str], side: str = "table") -> ColumnSources:
    """What a join gives: the columns of the left side, then those of the right side without its key."""
    taken = {name.lower() for name in left.names}
    values = [name for name in right.names if name not in right_key]
    clashes = [name for name in values if name.lower() in taken]
    if clashes and join.suffix is None:
        raise TopologyError(
            f"both sides of the join have the column {clashes[0]!r}; expected suffix='_…' for the {side}'s columns, "
            f"or {side.rsplit(maxsplit=1)[-1]}.rename({clashes[0]}='…') before",
            join.at,
        )
    names = {name: f"{name}{join.suffix}" if name in clashes else name for name in values}
    return (*((name, f"left.{name}") for name in left.names), *((names[name], f"right.{name}") for name in values))


def joined_schema(
    sources: ColumnSources, left: Schema, right: Schema, optional: Iterable[str], at: Location | None, key: Iterable[str] = ()
) -> Schema:
    """The columns of a join's result; those of an `optional` side may be null, the key may not."""
    sides, missing = {"left": left, "right": right}, set(optional)
    joined = []
    for name, source in sources:
        side, _, column = source.partition(".")
        found = sides[side][column]
        joined.append(SchemaColumn(name, found.type, found.nullable or (side in missing and name not in key)))
    return make_schema(joined, at)


def read_of(side: str, columns: ColumnSources, needed: Names) -> Names:
    """The columns of one side that a join needs to give these columns."""
    return frozenset(source.partition(".")[2] for name, source in columns if name in needed and source.startswith(f"{side}."))


def narrowed_join(step: Step, columns: ColumnSources, needed: Names) -> Step:
    """A join that gives only those of its columns that somebody reads."""
    kept = tuple(pair for pair in columns if pair[0] in needed)
    return with_operator(step, step.schema.select(name for name, _ in kept), columns=kept)


def sources_text(columns: ColumnSources) -> str:
    """What a join gives, in a line."""
    return listed(name if source == f"left.{name}" else f"{name} = {source}" for name, source in columns)


def _common_type(join: JoinNode, left: SchemaColumn, right: SchemaColumn, sides: tuple[str, str]) -> str:
    if left.type == right.type:
        return left.type
    for family in WIDENINGS:
        if left.type in family and right.type in family:
            return max(left.type, right.type, key=family.index)
    in_python = f"the same type: cast one, as in with_columns({left.name}=F.col('{left.name}').cast('{right.type}'))"
    raise TopologyError(
        f"the join column {left.name!r} of the {sides[0]} is {left.type}, and {right.name!r} of the {sides[1]} is {right.type}; "
        f"expected {by_language(join.at, in_python, f'CAST({left.name} AS {right.type})')}",
        join.at,
    )


def _proposal(left: Schema, left_key: tuple[str, ...], right_key: tuple[str, ...]) -> str:
    if all(name in left for name in right_key):
        return repr(right_key[0] if len(right_key) == 1 else list(right_key))
    return "{" + ", ".join(f"'…': {name!r}" for name in right_key) + "}"
