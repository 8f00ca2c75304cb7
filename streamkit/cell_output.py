"""The output of a notebook's cells: whether this process is a notebook's kernel, and a line in a cell's output that moves."""

from __future__ import annotations

import sys
from typing import Any


def is_notebook() -> bool:
    """Whether this process is a notebook's kernel, which shows objects and can replace what it has shown."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


class MovingLine:
    """A line of text in the output of the cell that runs; each `show` replaces the one before."""

    def __init__(self) -> None:
        self._shown: Any = None

    def show(self, text: str) -> None:
        """Show a text in the line's place."""
        from IPython.display import display

        line = _CellText(text)
        if self._shown is None:
            self._shown = display(line, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._shown.update(line)


class _CellText:
    """A text that a cell shows without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
