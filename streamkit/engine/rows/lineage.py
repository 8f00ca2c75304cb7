"""
How states come from each other, and their values.

Where windows grow, merge, or begin as copies of others, the state after a row is that of one window before it, or of several
merged, and the row. Each such state is a node; its own part is a row, or a stored state. Nodes that follow each other one by
one are a chain. A chain may begin with states of other chains: those which a row merged, or the one that it began as a copy of.
So which states there are is found out without their values, and the values are made chain by chain, on Arrow: first those that
begin with nothing, then those that begin with these, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.expressions.aggregates import fold, running
from streamkit.plan.expression import TypedAggregate

NONE = -1  # no chain, no node


@dataclass(frozen=True, eq=False)
class RowLineage:
    """
    Nodes, numbered in the order in which they arise, and their chains.

    `own` has the row of state that is each node's own part; several nodes may share one. `chains` has the chain of each node
    (-1: the node has no state). `levels` has, by chain, how many chains must be known first. The chain `head_chains[i]` begins with
    the state of the node `head_nodes[i]`; if there are several, in this order.
    """

    own: Integers
    chains: Integers
    levels: Integers
    head_chains: Integers
    head_nodes: Integers

    def states(self, aggregates: Sequence[TypedAggregate], rows: Sequence[pa.Array]) -> list[pa.Array]:
        """The state columns of each node, given the rows of state; undefined for a node without a chain."""
        # Level by level, since a chain begins with states of lower levels only. `columns` has all states so far, one behind the other,
        # and `found` says where in them that of a node stands: NONE until its level is done.
        found, columns = np.full(len(self.own), NONE, np.int64), [column.slice(0, 0) for column in rows]
        has_chain = np.flatnonzero(self.chains >= 0)
        level_of_node = self.levels[self.chains[has_chain]]
        level_of_head = self.levels[self.head_chains]
        for level in range(int(self.levels.max()) + 1 if len(self.levels) else 0):
            nodes, heads = has_chain[level_of_node == level], level_of_head == level
            first = pa.array(found[self.head_nodes[heads]])
            own = pa.array(self.own[nodes])
            # What is added up: for each chain of the level the states it begins with, then the own parts of its nodes in their order.
            parts = [pa.concat_arrays([done.take(first), row.take(own)]) for done, row in zip(columns, rows, strict=True)]
            codes = np.concatenate([self.head_chains[heads], self.chains[nodes]])
            after = running(codes, [], aggregates, parts)
            skip = int(heads.sum())  # what follows a head is no node's state; those behind them are, in the order of `nodes`
            found[nodes] = len(columns[0]) + np.arange(len(nodes)) if columns else 0
            columns = [
                pa.concat_arrays([done, new.slice(skip).cast(done.type)]) for done, new in zip(columns, after, strict=True)
            ]
        taken = pa.array(found, mask=found < 0)
        return [column.take(taken) for column in columns]

    def folded(self, aggregates: Sequence[TypedAggregate], rows: Sequence[pa.Array], tails: Integers) -> list[pa.Array]:
        """The state columns of the nodes `tails`, if each node's state goes on into one chain at most and each tail ends one."""
        # Since no state goes on into two chains, what a tail holds is the fold of all own parts of the chains that end up in its own.
        # So every part is added up once, in the order in which it stands in that state, and no state in between is made.
        root = self._roots()
        has_chain = np.flatnonzero(self.chains >= 0)
        begins_with_others = len(self.head_chains) > 0  # else the nodes of a chain stand in their order already
        nodes = has_chain[np.argsort(self._places(has_chain), kind="stable")] if begins_with_others else has_chain
        wanted = np.full(len(self.levels), NONE, np.int64)  # by chain: the number of the tail that ends it, if one does
        wanted[self.chains[tails]] = np.arange(len(tails))
        groups = wanted[root[self.chains[nodes]]]
        kept = groups >= 0
        own = pa.array(self.own[nodes[kept]])
        (found,), columns = fold([pa.array(groups[kept])], [], aggregates, [row.take(own) for row in rows])
        order = np.argsort(found.to_numpy(), kind="stable")  # `fold` gives groups as it meets them
        return columns if (order == np.arange(len(order))).all() else [column.take(pa.array(order)) for column in columns]

    def _places(self, nodes: Integers) -> Integers:
        """
        Where each node's own part stands in the state that its chain ends up in: behind those of the chains that its own begins with.

        A chain's state is laid out as its heads, one after the other, and then its own parts. So `size` is how many parts a chain has with
        all that it begins with, found from the lowest level up; `start` is where its layout begins within that of its root, found from
        the highest level down.
        """
        chains, inner = self.chains[nodes], self.chains[self.head_nodes]
        own = np.bincount(chains, minlength=len(self.levels))
        size, start, level_of_head = own.copy(), np.zeros_like(own), self.levels[self.head_chains]
        levels = np.unique(level_of_head)
        for level in levels:  # when a level's turn comes, the sizes of all chains that it begins with are whole
            at = level_of_head == level
            np.add.at(size, self.head_chains[at], size[inner[at]])
        for level in levels[::-1]:
            at = np.flatnonzero(level_of_head == level)
            at = at[np.argsort(self.head_chains[at], kind="stable")]  # heads of one chain stand together, in their order
            begins = np.diff(self.head_chains[at], prepend=NONE) != 0
            before = np.cumsum(size[inner[at]]) - size[inner[at]]  # parts of all heads in front, of whatever chain
            since = before[
                np.maximum.accumulate(np.where(begins, np.arange(len(at)), 0))
            ]  # those in front of the chain's first head
            start[inner[at]] = start[self.head_chains[at]] + before - since
        # Among the own parts of a chain, which stand at the end of its layout, a node has the rank in which it arose.
        order = np.argsort(chains, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order)) - np.searchsorted(chains[order], chains[order])
        return start[chains] + size[chains] - own[chains] + rank

    def _roots(self) -> Integers:
        """For each chain the one that it ends up in, by way of those which begin with its last state."""
        following = np.arange(len(self.levels))
        following[self.chains[self.head_nodes]] = self.head_chains
        # Each turn doubles how far a chain has been followed; a root follows itself.
        while ((further := following[following]) != following).any():
            following = further
        return following
