"""One producer for all requests that write: a producer for each would stay in the catalog for two days."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, final

from streamkit.errors import FencedError, StreamKitError
from streamkit.log.log import Log
from streamkit.log.produce.producer import Producer

Result = TypeVar("Result")


@final
class Writer:
    """Writes for one request after the other, each in a transaction."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._producer: Producer | None = None
        self._lock = threading.Lock()

    def write(self, work: Callable[[Producer], Result]) -> Result:
        """What `work` gives, once all that it has sent is durable; nothing of it is written if it raises."""
        with self._lock:
            is_new = self._producer is None
            try:
                return self._written(work)
            except FencedError:
                if is_new:
                    raise
            return self._written(work)  # one that was silent for a day has been retired

    def _written(self, work: Callable[[Producer], Result]) -> Result:
        if self._producer is None:
            self._producer = self._log.producer()
        try:
            with self._producer.transaction():
                return work(self._producer)
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(StreamKitError, OSError):  # what failed is told already
                producer.close()

    def close(self) -> None:
        """Write no more; a request that writes is not waited for."""
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()
