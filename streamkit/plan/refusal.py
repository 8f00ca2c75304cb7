"""Topics that do not fit a topology: a start stops at the first, a preview of it goes on and collects them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from streamkit.errors import StreamKitError


class RefusedTopic(NamedTuple):
    """A topic that does not fit as an input, or as an output, and the error that says why."""

    topic: str
    is_input: bool
    error: StreamKitError


Refuse: TypeAlias = Callable[[RefusedTopic], object]


def stop_at(refused: RefusedTopic) -> None:
    """Raise the error of a topic that does not fit."""
    raise refused.error
