"""What the tests of all connectors share: quick looks, and a broker and a schema registry for the whole run."""

from __future__ import annotations

import os

import pytest

from tests.kit.scheduling import system_of
from tests.kit.servers.apicurio import start_registry
from tests.kit.servers.kafka import Broker, start_broker

BROKER = pytest.StashKey[Broker]()

SECONDS = {
    "postgres.source.LOOK_SECONDS": 0.05,
    "runtime.source_task.IDENTITY_SECONDS": 0.05,
    "runtime.source_task.POLL_SECONDS": 0.02,
    "runtime.source_task.SPLITS_SECONDS": 0.1,
    "runtime.sink_task.IDLE_SECONDS": 0.01,
    "runtime.worker.LOOK_SECONDS": 0.05,
    "runtime.worker.ONCE_SECONDS": 0.005,
}


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch):
    """Tasks and workers look often at what may have changed, so that tests wait little."""
    for name, seconds in SECONDS.items():
        monkeypatch.setattr(f"streamkit.connectors.{name}", seconds)
    monkeypatch.setattr("streamkit.connectors.runtime.back_off.BackOff.__init__.__defaults__", (0.02, 60.0))  # first, limit


@pytest.fixture(scope="session")
def broker(request):
    """A broker of Kafka for all tests that use it."""
    found = start_broker()
    if found is None:
        pytest.skip("no Kafka here: Java, Maven or its artifacts are missing")
    request.config.stash[BROKER] = found
    yield found
    found.stop()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """A worker has all tests of foreign systems first; behind them the broker ends, since it takes some of a core though nobody asks it."""
    is_last = nextitem is not None and system_of(item) is not None and system_of(nextitem) is None
    if is_last and "PYTEST_XDIST_WORKER" in os.environ and BROKER in item.config.stash:
        item.config.stash[BROKER].stop()


@pytest.fixture(scope="session")
def registry():
    """A schema registry for the whole run."""
    found = start_registry()
    if found is None:
        pytest.skip("no schema registry here: Java, Maven or its artifact is missing")
    yield found
    found.stop()
