"""What the tests of all connectors share."""

from __future__ import annotations

import pytest

SECONDS = {
    "runtime.source_task.POLL_SECONDS": 0.05,
    "runtime.source_task.SPLITS_SECONDS": 0.1,
    "runtime.worker.LOOK_SECONDS": 0.1,
}


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch):
    """Tasks and workers look often at what may have changed, so that tests wait little."""
    for name, seconds in SECONDS.items():
        monkeypatch.setattr(f"streamkit.connectors.{name}", seconds)
