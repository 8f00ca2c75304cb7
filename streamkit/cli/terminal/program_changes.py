"""What has become of a program's inputs, outputs, stores and steps, on a terminal: a line each, with its sign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamkit.cli.terminal.rendering import counted

_SIGNS = {"same": "=", "added": "+", "gone": "-", "changed": "~", "refused": "!"}
_REASONS = "refusals"  # a list that is none of changes


def subject_lines(shown: Mapping[str, Any]) -> Iterator[str]:
    """The lines of each subject that has changes, an empty line before each; other values are passed over."""
    for subject, changes in shown.items():
        if isinstance(changes, list | tuple) and changes and subject != _REASONS:
            yield from ("", subject, *_change_lines(subject, changes))


def _change_lines(subject: str, changes: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """A line each; steps that stay are only counted, for there are many."""
    listed = [change for change in changes if subject != "steps" or change["fate"] != "same"]
    width = max((len(change["name"]) for change in listed), default=0)
    for change in listed:
        start, now = f"  {_SIGNS[change['fate']]} {change['name']:<{width}}  ", change["text"]
        yield from (
            [f"{start}- {change['before']}", f"{' ' * len(start)}+ {now}"] if change["before"] else [f"{start}{now}".rstrip()]
        )
    if len(listed) < len(changes):
        yield f"  = {counted(len(changes) - len(listed), 'step')} as before"
