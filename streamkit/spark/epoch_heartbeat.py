"""
The heartbeat of an epoch: since when its plan holds.

Until it is committed, its tasks may read files that have left the manifest since; the trash waits for that.
"""

from __future__ import annotations

from contextlib import suppress

from streamkit.engine.epoch import Application
from streamkit.errors import StreamKitError
from streamkit.log.database.heartbeats import Heartbeats
from streamkit.names import epoch_heartbeat


def beat_epoch(heartbeats: Heartbeats, application: Application) -> None:
    """Say that an epoch is about to be planned; no epoch fails for it."""
    with suppress(StreamKitError):
        heartbeats.beat(epoch_heartbeat(application.id, application.generation))


def forget_epoch(heartbeats: Heartbeats, application: Application) -> None:
    """Say that no epoch is under way."""
    with suppress(StreamKitError):
        heartbeats.forget(epoch_heartbeat(application.id, application.generation))
