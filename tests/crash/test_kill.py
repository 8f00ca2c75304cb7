"""Driver, JVM and workers killed at random moments: `make torture` does it fifty times."""

from __future__ import annotations

import time

import pytest

from tests.crash.torture import torture

KILLS = 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_at_random_moments(tmp_path):
    """A run that was killed, and started again, leaves what one leaves that never was."""
    seed = int(time.time())
    print("seed", seed)

    assert torture(KILLS, seed, tmp_path, tell=print).kills.total() == KILLS
