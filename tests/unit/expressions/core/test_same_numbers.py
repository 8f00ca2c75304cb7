"""Shared zeros and ones: as many as were asked for, whoever else asks."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from streamkit.expressions.core.same_numbers import SameNumbers


def test_tasks_in_threads_get_as_many_as_they_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task gets all its numbers, though another one that needs fewer puts a shorter array into place meanwhile."""
    numbers, has_begun, may_end = SameNumbers(1), threading.Event(), threading.Event()
    full = np.full

    class Long(np.ndarray[Any, Any]):
        """Lets the other task finish once this array is made."""

        def setflags(self, *arguments: Any, **named: Any) -> None:
            may_end.set()
            other.join()
            super().setflags(*arguments, **named)

    def slow(rows: int, *arguments: Any) -> Any:
        if rows == 3:
            has_begun.set()
            may_end.wait()
            return full(rows, *arguments)
        return full(rows, *arguments).view(Long)

    monkeypatch.setattr("streamkit.expressions.core.same_numbers.np.full", slow)
    other = threading.Thread(target=numbers.of, args=(3,))
    other.start()
    has_begun.wait()
    assert numbers.of(5).tolist() == [1] * 5
    assert not other.is_alive()
