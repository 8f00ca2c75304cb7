"""A broker for the whole run."""

from __future__ import annotations

import pytest

from tests.connectors.servers.kafka import start_broker


@pytest.fixture(scope="session")
def broker():
    found = start_broker()
    if found is None:
        pytest.skip("no Kafka here: Java, Maven or its artifacts are missing")
    yield found
    found.stop()
