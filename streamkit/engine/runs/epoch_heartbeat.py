"""
The heartbeat of an epoch tells when it was planned.

Until the epoch is committed, its tasks may read files that have left the manifest since. The trash keeps these so long.
"""

from __future__ import annotations

from contextlib import suppress

from streamkit.engine.epoch.epoch import Application
from streamkit.errors import StreamKitError
from streamkit.log.database.heartbeats import Heartbeats
from streamkit.names import epoch_heartbeat


def beat_epoch(heartbeats: Heartbeats, application: Application) -> None:
    """Record that an epoch is about to be planned; an error of the heartbeat does not fail the epoch."""
    with suppress(StreamKitError):
        heartbeats.beat(epoch_heartbeat(application.id, application.generation))


def forget_epoch(heartbeats: Heartbeats, application: Application) -> None:
    """Remove the heartbeat, since no epoch is under way."""
    with suppress(StreamKitError):
        heartbeats.forget(epoch_heartbeat(application.id, application.generation))
