"""Which rows of two sides have the same key and times that are near: found by binary search, expanded by repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamkit.arrays import Integers

NUMBER_MAX = 2**62


@dataclass(frozen=True, eq=False)
class Axis:
    """
    Places of (key, time) on one line of numbers: keys one after another, times in order within each.

    `moments` are the distinct times, where the times themselves would not fit into 64 bits beside the keys.
    """

    first_ms: int
    stride: int
    moments: Integers | None = None

    @classmethod
    def of(cls, codes: int, times: Sequence[Integers]) -> Axis:
        """An axis for so many keys and these times."""
        first = min((int(some.min()) for some in times if len(some)), default=0)
        last = max((int(some.max()) for some in times if len(some)), default=0)
        if (codes + 1) * (last - first + 3) < NUMBER_MAX:
            return cls(first, last - first + 3)
        moments = np.unique(np.concatenate(times))
        return cls(0, len(moments) + 2, moments)

    def places(self, codes: Integers, times: Integers) -> Integers:
        """Where rows are."""
        return codes * self.stride + 1 + self._positions(times)

    def before(self, codes: Integers, times: Integers) -> Integers:
        """The first place of a row of the key whose time is not before."""
        return codes * self.stride + 1 + self._positions(times)

    def behind(self, codes: Integers, times: Integers) -> Integers:
        """The last place of a row of the key whose time is not after."""
        return codes * self.stride + self._positions(times + 1)

    def _positions(self, times: Integers) -> Integers:
        if self.moments is not None:
            return np.searchsorted(self.moments, times, side="left")
        found: Integers = np.clip(times - self.first_ms, 0, self.stride - 2)
        return found


@dataclass(frozen=True, eq=False)
class Line:
    """Rows of one side in the order of key and time; rows at one place stay as they stand."""

    places: Integers
    rows: Integers

    @classmethod
    def of(cls, axis: Axis, codes: Integers, times: Integers) -> Line:
        places = axis.places(codes, times)
        if (places[1:] >= places[:-1]).all():
            return cls(places, np.arange(len(places)))
        rows = np.argsort(places, kind="stable")
        return cls(places[rows], rows)

    def first(self, rows: int) -> Line:
        """The line without those rows whose numbers are so many or more."""
        if rows == len(self.rows):
            return self
        kept = self.rows < rows
        return Line(self.places[kept], self.rows[kept])

    @property
    def ranks(self) -> Integers:
        """For each row its position on the line."""
        ranks = np.empty(len(self.rows), np.int64)
        ranks[self.rows] = np.arange(len(self.rows))
        return ranks

    def between(self, first: Integers, last: Integers) -> tuple[Integers, Integers]:
        """For stretches of the line: the number of the stretch and the row, for each row within."""
        start = np.searchsorted(self.places, first, side="left")
        counts = np.maximum(np.searchsorted(self.places, last, side="right") - start, 0)
        stretches = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(stretches)) - np.repeat(np.cumsum(counts) - counts, counts)
        return stretches, self.rows[np.repeat(start, counts) + within]
