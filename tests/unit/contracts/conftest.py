"""A database with the catalog's tables, of every kind."""

from __future__ import annotations

import pytest

from streamkit.log.catalog import tables


@pytest.fixture
def database(place):
    found = place.open()
    tables.prepare(found)
    yield found
    found.close()


@pytest.fixture
def other(place, database):
    """A second connection to the same place."""
    found = place.open()
    yield found
    found.close()
