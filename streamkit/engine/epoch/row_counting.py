"""
How many rows the stores of an application have: the totals that the catalog keeps, and how an epoch moves them on.

The totals are kept by the id of a store's changelog, so a store that is dropped and made again begins with none. A store whose rows were never
counted, or were written by a start, is counted once by the next epoch. Later epochs add their new rows and subtract
deleted ones. For that an operator must know whether it replaces a row. An operator that does not read the old row would have to, which costs
a table a fifth of its throughput, so a large store of such an operator is counted in a sample of its key groups.

Stores without a log are not counted: a task that finds no copy of one begins it empty, and nobody knows how many rows it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamkit.log.catalog.epochs import EpochRecord
from streamkit.plan.program import Program

STORE_ROWS = "store_rows"  # the total, by changelog id, of the rows in all key groups
SAMPLED_ROWS = "sampled_store_rows"  # the same of the key groups in the sample, and one more, which says that there is a sample
SAMPLE = 16  # one of so many key groups is in the sample
ALL_ROWS_MAX = 100_000  # a store with more rows is sampled, if its operator does not read the rows that it replaces
ALL_ROWS_AGAIN = ALL_ROWS_MAX // 4  # a store of about so few rows is sampled no longer


@dataclass(frozen=True)
class RowCounting:
    """
    How an epoch counts the rows of stores, by name.

    Stores of `sampled` are counted in the sample alone. Those of `begun` are counted again before the epoch's changes; their totals until
    now, of all rows and of the sample, no longer count.
    """

    sampled: tuple[str, ...] = ()
    begun: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def after(cls, totals: Mapping[str, Any], program: Program, changelog_ids: Mapping[str, int]) -> RowCounting:
        """How the epoch counts that goes on from these totals of the application."""
        sampled, begun = [], {}
        for name, changelog_id in changelog_ids.items():
            if name in program.unlogged:
                continue
            rows, in_sample = _totals(totals, changelog_id)
            is_sampled = in_sample > 0
            if rows is None:
                begun[name] = (0, in_sample)
                is_sampled = False
            elif is_sampled and (in_sample - 1) * SAMPLE < ALL_ROWS_AGAIN:
                begun[name] = (rows, in_sample)
                is_sampled = False
            elif not is_sampled and rows > ALL_ROWS_MAX and not program.keeper(name).traits.reads_replaced:
                begun[name] = (rows, in_sample)
                is_sampled = True
            if is_sampled:
                sampled.append(name)
        return cls(tuple(sampled), begun)


def rows_of_stores(totals: Mapping[str, Any], changelog_ids: Mapping[str, int]) -> dict[str, int]:
    """How many rows the counted ones of some stores have, by name; about so many, where they are sampled."""
    found = {}
    for name, changelog_id in changelog_ids.items():
        rows, in_sample = _totals(totals, changelog_id)
        if rows is not None:
            found[name] = (in_sample - 1) * SAMPLE if in_sample else rows
    return found


def rows_after_each(
    epochs: Sequence[EpochRecord], newest: int, totals: Mapping[str, Any], changelog_ids: Mapping[str, int]
) -> list[dict[str, int]]:
    """
    How many rows the stores had after each of some epochs, by name; `totals` are those of the application after the epoch `newest`.

    A store is left out where nobody knows its rows: before it was counted for the first time, and before a start that converted it.
    """
    found: list[dict[str, int]] = [{} for _ in epochs]
    at_newest = next((at for at, epoch in enumerate(epochs) if epoch.epoch == newest), None)
    if at_newest is None:
        return found
    known: Mapping[str, Any] = {metric: totals.get(metric) or {} for metric in (STORE_ROWS, SAMPLED_ROWS)}
    for at in range(at_newest, -1, -1):
        found[at] = rows_of_stores(known, changelog_ids)
        metrics = epochs[at].metrics
        if metrics.get(STORE_ROWS, known) is None:  # a start converted stores, and nobody has counted the rows before
            break
        known = {metric: _less(rows, metrics.get(metric) or {}) for metric, rows in known.items()}
        # a store without a row before this epoch may not have been counted then
        begun = {one for one in metrics.get(STORE_ROWS) or {} if not any(rows.get(one) for rows in known.values())}
        known[STORE_ROWS] = {one: count for one, count in known[STORE_ROWS].items() if one not in begun}
    return found


def _less(rows: Mapping[str, int], added: Mapping[str, int]) -> dict[str, int]:
    return {changelog_id: count - added.get(changelog_id, 0) for changelog_id, count in rows.items()}


def _totals(totals: Mapping[str, Any], changelog_id: int) -> tuple[int | None, int]:
    rows, in_sample = ((totals.get(metric) or {}).get(str(changelog_id)) for metric in (STORE_ROWS, SAMPLED_ROWS))
    return rows, in_sample or 0
