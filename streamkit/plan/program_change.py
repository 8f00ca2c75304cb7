"""What one program has other than another, or a start would make other than it is, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

SAME, ADDED, GONE, CHANGED, REFUSED = "same", "added", "gone", "changed", "refused"
INPUTS, OUTPUTS, STORES, TASKS, STEPS = "inputs", "outputs", "stores", "tasks", "steps"
SUBJECTS = (INPUTS, OUTPUTS, STORES, TASKS, STEPS)


@dataclass(frozen=True)
class ProgramChange:
    """
    What becomes of one input, output, store or step, or of the tasks.

    `fate` is one of the words above, `text` says more; `before` is the text of what was there and has changed.
    """

    subject: str
    name: str
    fate: str
    text: str = ""
    before: str = ""

    def to_json(self) -> dict[str, str]:
        """The change as plain values, to be listed under its subject."""
        return {name: value for name, value in asdict(self).items() if name != "subject"}


def changes_of(changes: Iterable[ProgramChange], subject: str) -> list[ProgramChange]:
    """The changes of one subject."""
    return [change for change in changes if change.subject == subject]
