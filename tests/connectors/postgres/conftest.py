"""A database that is empty when a test begins."""

from __future__ import annotations

import psycopg
import pytest

SYSTEM = "starts_with(nspname, 'pg_') OR nspname = 'information_schema'"


def empty(connection, name):
    """Let go of all that a database has, with its replication slots and its own settings."""
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()", (name,)
    )
    while connection.execute("SELECT 1 FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()", (name,)).fetchone():
        pass
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", (name,))
    connection.execute(f"ALTER DATABASE {name} RESET ALL")
    schemas = connection.execute(f"SELECT quote_ident(nspname) FROM pg_namespace WHERE NOT ({SYSTEM})").fetchall()
    publications = connection.execute("SELECT quote_ident(pubname) FROM pg_publication").fetchall()
    for kind, found in (("SCHEMA", schemas), ("PUBLICATION", publications)):
        if found:
            connection.execute(f"DROP {kind} {', '.join(one for (one,) in found)} CASCADE")
    connection.execute("CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC")


@pytest.fixture(scope="session")
def target(postgres):
    """Where the database is that each test has for itself in its turn."""
    base = f"postgresql://streamkit@/{{}}?host={postgres.folder}"
    with psycopg.connect(base.format("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE target")
    return base.format("target")


@pytest.fixture
def url(target):
    """Where the database is, which is empty."""
    with psycopg.connect(target, autocommit=True) as connection:
        empty(connection, "target")
    return target
