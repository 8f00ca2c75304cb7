"""Topics as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from streamkit.errors import TopicNotFoundError
from streamkit.log.log import Log


def topics_described(log: Log, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The topics as plain values; one that was deleted meanwhile is left out."""
    for name in names:
        with suppress(TopicNotFoundError):
            yield log.describe(name)
