"""A pin: rows that retention leaves alone as long as somebody reads them."""

from __future__ import annotations

from types import TracebackType
from typing import final

from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.pins import Starts
from streamkit.log.database.heartbeats import Heartbeats
from streamkit.log.database.pulse import Pulse
from streamkit.names import fresh_token, pin_heartbeat


@final
class Pin:
    """
    Keeps what partitions hold from `starts` (offsets by topic id and partition, None for all that is left) on, until it is
    released or its process dies. `offsets` are those that it keeps from.

    A dead process's pin lapses a minute later.
    """

    def __init__(self, catalog: Catalog, heartbeats: Heartbeats, starts: Starts) -> None:
        self._catalog = catalog
        self._token = fresh_token()
        self._pulse = Pulse(heartbeats, pin_heartbeat(self._token))  # before the row: one without a heartbeat would lapse
        try:
            self.offsets = catalog.pins.insert(self._token, starts)
        except BaseException:
            self._pulse.close()
            raise

    def __enter__(self) -> Pin:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def release(self) -> None:
        """Release the pin; a second call does nothing."""
        self._pulse.close()
        self._catalog.pins.remove([self._token])
