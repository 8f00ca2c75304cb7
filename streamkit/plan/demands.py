"""
What the steps above a step demand of it, as a value: found from the top down, in one walk before any step is lowered.

Each kind of node says in one method, `Node.demands_below`, what it demands of its children, and what of the demands on itself it passes on.
What a step is whoever takes its rows stands in `streamkit.plan.traits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamkit.plan.node import Node

EMIT_MODES = ("latest", "every", "final")
WITH_OLD_VALUES = "old_and_new"  # every change as two rows: its old value, then the new one
LATE = "late"  # the rows that no session took
MODES = (*EMIT_MODES, WITH_OLD_VALUES, LATE)


@dataclass(frozen=True)
class Demands:
    """What is demanded of a step; nothing, as long as no field says something else."""

    modes: frozenset[str] = frozenset()
    """The emissions that somebody takes of the table: some of `MODES`. They reach its maker, through the stateless steps between."""

    old_values: bool = False
    """Whether somebody needs to know the old value of each change of the table; of a join, then, those of both sides must be known."""

    ports: frozenset[str] = frozenset()
    """The outputs of a processor, beside its main one, that somebody takes."""

    null_keys: bool = False
    """Whether a step above gives results for records whose key is null: a repartition keeps such records then."""

    partners: frozenset[Node] = field(default=frozenset(), repr=False)
    """The tables that the table is joined with, and the joins of streams that look up its windows."""

    is_looked_up: bool = False
    """Whether a step keeps the table's rows beside itself, to look them up or to hold them back."""

    def __or__(self, other: Demands) -> Demands:
        """Both demands together."""
        return Demands(*(getattr(self, one.name) | getattr(other, one.name) for one in fields(Demands)))

    @property
    def modes_in_order(self) -> tuple[str, ...]:
        """The emissions as a program lists them."""
        return tuple(mode for mode in MODES if mode in self.modes)


def emission(mode: str, **others: Any) -> Demands:
    """The demand for an emission of a table, and for whatever else; who takes changes with old values needs to know these."""
    return Demands(frozenset({mode}), **{"old_values": mode == WITH_OLD_VALUES, **others})


def demands_of_nodes(nodes: Sequence[Node]) -> Mapping[Node, Demands]:
    """What is demanded of each of these nodes; they are given as `walk` gives them, inputs before those that take them."""
    found = dict.fromkeys(nodes, Demands())
    for node in reversed(nodes):
        for child, demands in node.demands_below(found[node]):
            found[child] |= demands
    return found
