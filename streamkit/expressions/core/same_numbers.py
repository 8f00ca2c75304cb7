"""One number, any number of times, in shared memory: what is 0 or 1 for every row costs neither writing nor reading."""

from __future__ import annotations

import numpy as np

from streamkit.arrays import Integers


class SameNumbers:
    """Views of one array that has the same number everywhere."""

    def __init__(self, number: int) -> None:
        self._numbers = np.zeros(0, np.int64)
        self._number = number

    def of(self, rows: int) -> Integers:
        """The number that many times; it must not be written to."""
        numbers = self._numbers  # another thread may put a shorter array into its place meanwhile
        if len(numbers) < rows:
            numbers = np.full(rows, self._number, np.int64)
            numbers.setflags(write=False)
            self._numbers = numbers
        return numbers[:rows]

    def share(self, values: Integers) -> bool:
        """Whether the values are such a view, which is seen without reading them."""
        return np.may_share_memory(values, self._numbers)


zeros, ones = SameNumbers(0), SameNumbers(1)
