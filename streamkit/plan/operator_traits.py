"""
What a kind of operator is, as a value: the same for all operators of a class, whatever their fields.

Passes and engine read it of `Operator.traits`, and ask the operator itself for what depends on its fields.
"""

from __future__ import annotations

from dataclasses import dataclass

EACH_ALONE, EACH_ONCE, IN_ORDER = "each_alone", "each_once", "in_order"
PASSED, OF_FIRST_INPUT, READ, DROPPED = "passed", "of_first_input", "read", "dropped"


@dataclass(frozen=True)
class OperatorTraits:
    """What a kind of operator is; by default one that runs anywhere, keeps nothing and takes rows as they come."""

    stage_min: int = 0
    """The first stage in which it can run: 0 are the readers."""

    looks_up: tuple[int, ...] = ()
    """The places of its inputs that are tables which must be kept in its own stage."""

    first_gives_rows: bool = False
    """Whether rows of its first input alone cause rows of its own; those of the others are only looked up."""

    headers: str = PASSED
    """
    When it needs the headers of records: `PASSED` if those of its own rows are needed, `OF_FIRST_INPUT` then of the first input alone,
    `READ` always, `DROPPED` never.
    """

    leaves_out: str = ""
    """
    How a row that makes it fail is found, so that it can be left out: by trying some rows without others (`EACH_ALONE`), by one call for
    each row, whose effects count (`EACH_ONCE`), or in their order, because state depends on the rows before (`IN_ORDER`). Empty if no row
    can be left out.
    """

    mixes_inputs: bool = False
    """Whether its rows are those of all its inputs, and it does not matter which of them was named first."""

    ends_place: bool = False
    """Whether its rows need no place in the canonical order."""

    moves_rows: bool = False
    """Whether it does nothing to rows but hand them to other tasks."""

    narrows_input: bool = False
    """Whether columns that nobody reads are left out in front of it."""

    waits_for_record: bool = False
    """Whether its rows go on once the record that caused them is through with all else."""

    reads_replaced: bool = True
    """Whether it reads the stored rows that it replaces, so that it costs nothing to count them."""

    is_view: bool = False
    """Whether a table which it gives changes with those it takes."""

    is_looked_up: bool = False
    """Whether it is a table, which runs in the stage of the joins that look it up."""

    store_fields: tuple[str, ...] = ()
    """Its fields with the names of a table's stores."""

    follows_rows: bool = False
    """Whether what its stores hold follows from the rows of its first input, whenever these came, as a table from the newest of each key."""

    passes_rows: bool = False
    """Whether its own rows are those of its first input, although it keeps stores."""

    holds_back: bool = False
    """Whether its rows are those of its first input, later, and no store tells which of them it has given."""

    takes_rows_away: bool = False
    """Whether rows leave the groups of its store again."""

    keeps_results: bool = False
    """Whether its first store has the newest result of each key."""

    keeps_lists: bool = False
    """Whether its stores keep rows of one key and time as lists."""

    closes_windows: bool = False
    """Whether its windows close by a grace, which may be another at a start: rows are late for what was closed, with a record or without."""

    def gives_rows_of(self, place: int) -> bool:
        """Whether rows of its input number `place` cause rows of its own."""
        return place == 0 or not self.first_gives_rows

    def needs_headers(self, place: int, are_needed: bool) -> bool:
        """Whether the headers of the records of its input number `place` are needed, given whether those of its own rows are."""
        return self.headers == READ or (
            are_needed and (self.headers == PASSED or (self.headers == OF_FIRST_INPUT and place == 0))
        )
