"""A schema registry for the whole run."""

from __future__ import annotations

import pytest

from tests.connectors.servers.apicurio import start_registry


@pytest.fixture(scope="session")
def registry():
    found = start_registry()
    if found is None:
        pytest.skip("no schema registry here: Java, Maven or its artifact is missing")
    yield found
    found.stop()
