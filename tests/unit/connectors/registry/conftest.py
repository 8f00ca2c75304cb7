"""What the tests of SQL behind a registry share: a log, sessions with Apicurio's registry, and a client that asks it."""

from __future__ import annotations

import itertools

import pytest

import streamkit as sk
from streamkit.formats import registry as registry_client

NUMBERS = itertools.count()


@pytest.fixture
def topic():
    """A topic whose subjects no other test uses."""
    return f"sql-{next(NUMBERS)}"


@pytest.fixture
def client(registry):
    """A client that asks the registry for its subjects and schemas."""
    return registry_client.Registry({"schema.registry.url": registry.url, "schema.registry.retries": "0"})


@pytest.fixture
def log():
    with sk.open_log(":memory:") as opened:
        yield opened


@pytest.fixture
def session(registry, log):
    """Makes sessions with the registry."""

    def made(dialect="ksql", url=registry.url):
        settings = {"streamkit.sql.dialect": dialect, "schema.registry.url": url}
        return sk.SqlSession(log, engine="local", settings=settings)

    return made


@pytest.fixture
def sql(session):
    with session() as found:
        yield found
