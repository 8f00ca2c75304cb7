"""How a producer gathers rows into commits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamkit.errors import ConfigError

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class ProducerSettings:
    """
    Kafka's settings of a producer, with Kafka's meaning where a commit takes the place of a request.

    If `linger_ms` is None, rows are committed by `flush`, by a full batch, by waiting for a receipt, and at the end of the `with` block;
    if it is a number, also that many milliseconds after the first of them was sent. A batch with `batch_size` bytes is full, and is
    committed at once (Kafka counts for each partition; a commit includes all of them). At most `buffer_memory` bytes may wait or be in a
    commit; a send beyond that waits for `max_block_ms`, then raises BufferFullError. A single batch that is larger than `buffer_memory` is
    accepted if no other rows wait.
    """

    linger_ms: float | None = None
    batch_size: int = 64 * MEBIBYTE
    buffer_memory: int = 128 * MEBIBYTE
    max_block_ms: float = 60_000

    def __post_init__(self) -> None:
        for name in ("linger_ms", "batch_size", "buffer_memory", "max_block_ms"):
            _check(name, getattr(self, name), least=0 if name.endswith("_ms") else 1)
        if self.batch_size > self.buffer_memory:
            raise ConfigError(
                f"batch_size={self.batch_size} is more than buffer_memory={self.buffer_memory}: a batch would never be full; "
                "expected at most that"
            )


def _check(name: str, value: float | None, least: int) -> None:
    if value is None and name == "linger_ms":
        return
    kinds = (int, float) if name.endswith("_ms") else (int,)
    if value is None or type(value) not in kinds or not least <= value < math.inf:
        raise ConfigError(f"{name}={value!r}; expected a finite number of at least {least}")
