"""The rows of a put that PostgreSQL refuses, found by halves within savepoints: what it took stays there for the rows behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streamkit.errors import SchemaError

SAVEPOINT = "streamkit_piece"
_MISSING = re.compile(r"\([^()]+\)=\((.*?)\).*\(SQLSTATE 23503\)$")  # the key that a foreign key names, in whatever language


@dataclass
class PieceWriter:
    """
    Writes rows piece by piece within a transaction that is open, and finds those that cannot be written.

    `write` raises SchemaError with `rows`, or an error of which `complaint` gives the text; None says that no row is to blame
    for it, and it is raised. Of rows with the same `key` the last one counts; without a key each stands for itself. Rows may name
    others by the columns `named_by`, as a child names its parent.
    """

    cursor: Any
    rows: pa.Table
    key: Sequence[str]
    write: Callable[[pa.Table], None]
    complaint: Callable[[Exception], str | None]
    named_by: Sequence[str] = ()
    _refused: dict[int, str] = field(default_factory=dict)
    _are_named: bool = False  # whether the last attempt said of each row that it is to blame, not of all together

    def refused(self) -> dict[int, str]:
        """
        Why each row is refused, by its number; the others are written when this returns.

        A row may need one that is behind it, as a child needs its parent: so those that are refused are tried again as long as
        some of them are taken, and then those together that name each other.
        """
        waiting: list[int] = list(range(self.rows.num_rows))
        while True:
            self._refused = {}
            self._try(waiting)
            left = self._not_replaced(self._refused)
            if len(left) == len(waiting):
                left = self._not_taken_together(left)
            if not left or len(left) == len(waiting):
                return dict(sorted(left.items()))
            waiting = sorted(left)

    def _not_taken_together(self, refused: dict[int, str]) -> dict[int, str]:
        """Write each refused row together with the refused rows that it needs; return the rows that the server refuses even so."""
        if not any(map(_MISSING.search, refused.values())):
            return refused
        columns = [self.rows[name].take(pa.array(list(refused), pa.int64())).to_pylist() for name in self.named_by]
        named = {", ".join(map(str, key)): number for number, key in zip(refused, zip(*columns, strict=True), strict=False)}
        left = dict(refused)
        for number, said in refused.items():
            group, taken = [number], number not in left
            while not taken and (missing := _MISSING.search(said)) is not None:
                parent = named.get(missing[1])
                if parent is None or parent in group or parent not in left:
                    break
                group = sorted([*group, parent])
                reasons = self._attempt(group)
                taken = not reasons
                said = next(iter(reasons.values()), "")
            if taken:
                left = {one: reason for one, reason in left.items() if one not in group}
        return left

    def _try(self, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        reasons = self._attempt(numbers)
        if not reasons:
            return
        if len(numbers) == 1 or self._are_named or set(reasons) != set(numbers):
            self._refused |= reasons
            self._try([number for number in numbers if number not in reasons])
            return
        half = len(numbers) // 2
        self._try(numbers[:half])
        self._try(numbers[half:])

    def _attempt(self, numbers: Sequence[int]) -> dict[int, str]:
        """Write these rows; if that fails none of them, and the reason of each that is to blame: of all if nobody knows which."""
        self.cursor.execute(f"SAVEPOINT {SAVEPOINT}")
        try:
            self.write(_chosen(self.rows, numbers))
        except Exception as error:
            found = self._reasons(error, numbers)
            self._are_named = isinstance(error, SchemaError)
            if not found:
                raise
            self.cursor.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
            return found
        self.cursor.execute(f"RELEASE SAVEPOINT {SAVEPOINT}")
        return {}

    def _reasons(self, error: Exception, numbers: Sequence[int]) -> dict[int, str]:
        if isinstance(error, SchemaError):
            reasons = error.reasons or (str(error),) * len(error.rows)
            return {numbers[row]: reason for row, reason in zip(error.rows, reasons, strict=True)}
        said = self.complaint(error)
        return {} if said is None else dict.fromkeys(numbers, said)

    def _not_replaced(self, refused: dict[int, str]) -> dict[int, str]:
        """Without the rows that a later one of their key replaces."""
        if not refused or not self.key:
            return refused
        keys = [repr(key) for key in zip(*(self.rows[name].to_pylist() for name in self.key), strict=True)]
        last = {keys[number]: number for number in range(len(keys)) if number not in refused}
        return {number: reason for number, reason in refused.items() if last.get(keys[number], -1) < number}


def _chosen(rows: pa.Table, numbers: Iterable[int]) -> pa.Table:
    chosen = list(numbers)
    if chosen[-1] - chosen[0] + 1 == len(chosen):
        return rows.slice(chosen[0], len(chosen))
    return rows.take(pa.array(chosen, pa.int64()))
