"""How long a poll of changes waits for more of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

SILENCE_SECONDS = 0.01  # after which a server that has sent all is not expected to have more soon
BEHIND_SECONDS = 1.0  # how long a poll takes from a server that has more to send


@dataclass
class Patience:
    """
    The patience of one poll, asked whenever nothing is there to be taken.

    A poll waits up to `timeout_seconds` for its first change, and for the end of a transaction. A change that it had to wait for goes at
    once. Where changes were there when the poll began, they come faster than polls do: so it waits for more, that a commit of the
    log may have many small transactions. It waits up to `linger_seconds` where the server has sent all, and not beyond a silence; where
    the server has not caught up, up to `BEHIND_SECONDS`, and not beyond a silence of `linger_seconds`.
    """

    timeout_seconds: float
    linger_seconds: float
    now_seconds: Callable[[], float] = time.monotonic
    _began_seconds: float = field(init=False)
    _gathers_since_seconds: float | None = field(init=False, default=None)
    _has_waited: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._began_seconds = self.now_seconds()

    def wait_seconds(self, *, has_changes: bool, is_within_transaction: bool, has_server_sent_all: bool) -> float:
        """How long to wait for the next message; 0 or less if the poll ends here."""
        now = self.now_seconds()
        if not has_changes:
            self._has_waited |= not is_within_transaction
            return self._began_seconds + self.timeout_seconds - now
        if self._has_waited or not self.linger_seconds:
            return self._began_seconds + self.timeout_seconds - now if is_within_transaction else 0.0
        if self._gathers_since_seconds is None:
            self._gathers_since_seconds = now
        if is_within_transaction:
            return self._gathers_since_seconds + BEHIND_SECONDS - now
        if has_server_sent_all:
            return min(SILENCE_SECONDS, self._gathers_since_seconds + self.linger_seconds - now)
        return min(self.linger_seconds, self._gathers_since_seconds + BEHIND_SECONDS - now)
