"""The watches that are at work in this process: few, and none of a cell that has run again since."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Protocol

WATCHES_MAX = 20


class Closable(Protocol):
    """Something that can be closed."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class Execution:
    """One run of a cell; None for what the notebook does not tell."""

    cell: str | None
    request: str | None

    def follows(self, other: Execution) -> bool:
        """Whether this is a later run of the same cell."""
        return self.cell is not None and self.cell == other.cell and self.request != other.request


_open: list[tuple[Execution, Closable]] = []


def keep_open(watch: Closable, execution: Execution) -> None:
    """
    Note that a watch has begun in a run of a cell.

    Watches that earlier runs of the cell have begun are closed, since nobody sees them any more; so is the oldest one if there are too many.
    """
    overtaken = [one for earlier, one in _open if execution.follows(earlier)]
    _open.append((execution, watch))
    overtaken += [one for _, one in _open[:-WATCHES_MAX] if one not in overtaken]
    for one in overtaken:
        one.close()


def forget(watch: Closable) -> None:
    """Note that a watch has ended."""
    _open[:] = [(execution, one) for execution, one in _open if one is not watch]


def current_execution() -> Execution:
    """The run of a cell that goes on in this thread."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return Execution(parent.get("metadata", {}).get("cellId"), parent.get("header", {}).get("msg_id"))
