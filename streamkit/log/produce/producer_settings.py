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

    `linger_ms` None: rows go out by `flush`, by a full batch, by waiting for a receipt, and at the end of the `with` block;
    a number: also by themselves, that long after the first of them was sent. `batch_size` is in bytes: so much makes a batch
    full, and it goes out at once (Kafka counts by partition, a commit spans all of them). `buffer_memory` is in bytes: so much
    may wait and be on its way; a send beyond it blocks for `max_block_ms`, then raises BufferFullError. A single batch that is
    larger than `buffer_memory` is taken when nothing else waits.
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
