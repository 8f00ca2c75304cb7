"""A database of its own for each test."""

from __future__ import annotations

import psycopg
import pytest


def drop(connection, name):
    """Drop a database with its replication slots."""
    connection.execute(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s AND active", (name,)
    )
    while connection.execute("SELECT 1 FROM pg_replication_slots WHERE database = %s AND active", (name,)).fetchone():
        pass
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", (name,))
    connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def url(postgres):
    """Where the database is."""
    base = f"postgresql://streamkit@/{{}}?host={postgres.folder}"
    with psycopg.connect(base.format("postgres"), autocommit=True) as connection:
        drop(connection, "target")
        connection.execute("CREATE DATABASE target")
    return base.format("target")
