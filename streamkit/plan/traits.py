"""
What a step of a topology is, as a value: found from the bottom up, from what the steps below are and from its own fields.

Each kind of node says it in one method, `Node.traits_over`: what it takes over from below, and what it changes. What those above demand of
a step stands in `streamkit.plan.demands`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamkit.plan.delay import NO_DELAY, Delay, longest

if TYPE_CHECKING:
    from streamkit.plan.node import Node
    from streamkit.plan.python_function import PythonFunction
    from streamkit.plan.windows import WindowKind

STREAM = "stream"
TABLE = "table"
GLOBAL_TABLE = "global_table"


@dataclass(frozen=True)
class Traits:
    """What a step is; what stands behind `delay` matters of tables alone."""

    relation: str
    """What the step gives: stream, table or global_table."""

    maker: Node = field(repr=False)
    """The node below stateless steps that makes the rows: of a table a source, an aggregate, or a join of tables."""

    feeding: frozenset[Node] = field(default=frozenset(), repr=False)
    """The sources that move the step's stream time: their records are or cause its rows. Tables that are looked up do not."""

    partitions: int | None = None
    """How many partitions a new topic of the rows has unless its declaration says; None for as many as the widest input."""

    may_lead: bool = False
    """Whether rows may be newer than stream time: a processor says so, or an input bounds jumps of stream time."""

    depends_on_cut: bool = False
    """Whether which rows the step gives depends on how the input is cut into epochs."""

    gives_newest: bool = False
    """Whether the rows are the newest results of an epoch, or come of such."""

    timed_by: PythonFunction | None = field(default=None, repr=False)
    """The user's code that may give the rows other times than their records have; None if there is none, or none that can be judged."""

    has_old_values: bool = False
    """Whether the rows are changes with their old values beside them, deletions too."""

    is_sink: bool = False
    """Whether rows end here."""

    delay: Delay = NO_DELAY
    """How far rows may stand behind stream time."""

    is_filtered: bool = False
    """Whether a filter stands between the maker and here, which makes deletions of what it drops."""

    knows_old_values: bool = False
    """Whether the maker keeps its rows anyway, and so knows the old value of each change."""

    changes_once: bool = False
    """Whether each key has one change."""

    newest_are_last: bool = False
    """Whether the newest rows of an epoch are the last of each key among the changes."""

    history_ms: int | None = None
    """How long a table that keeps history knows which rows it had before; None if it keeps none."""

    window: WindowKind | None = None
    """The windows that the keys have; None if they have none, or it is not known which."""

    reads_windows: bool = False
    """Whether these windows come from a topic: each then has the bounds that its row says, whatever their length."""

    final_delay: Delay | None = None
    """How far final results stand behind stream time; None if the table has none."""

    joined_tables: tuple[Node, ...] = field(default=(), repr=False)
    """The tables whose rows the maker joins with each other, each kept for the changes of the others."""

    keeps_store: bool = False
    """Whether the step itself keeps a store, whoever looks its rows up."""

    are_records: bool = False
    """Whether each row is a record of a topic as it was read, whatever its columns are now: it has a partition and an offset there."""

    offsets_order_keys: bool = False
    """Whether the records of each key lie in one partition of one topic, so that their offsets say in which order they came."""

    has_own_key: bool = False
    """Whether a step gave each row its key, so that one of nulls alone is a key of nulls, and not that of a record without a key."""


def traits_of_stream(below: Sequence[Traits], own: Node) -> Traits:
    """The traits of a step that gives a stream, whose records are or come of those of the steps below."""
    return Traits(
        STREAM,
        own,
        feeding=frozenset().union(*(one.feeding for one in below)),
        partitions=max((one.partitions for one in below if one.partitions is not None), default=None),
        may_lead=any(one.may_lead for one in below),
        depends_on_cut=any(one.depends_on_cut for one in below),
        gives_newest=any(one.gives_newest for one in below),
        delay=longest(one.delay for one in below),
    )


def makers_joined(tables: Iterable[Node]) -> frozenset[Node]:
    """The makers of tables, and of a join those of both sides."""
    found: set[Node] = set()
    pending = [table.traits.maker for table in tables]
    while pending:
        maker = pending.pop()
        if maker not in found:
            found.add(maker)
            pending += [table.traits.maker for table in maker.traits.joined_tables]
    return frozenset(found)
