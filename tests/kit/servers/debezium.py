"""Debezium's connector of a PostgreSQL of the tests."""

from __future__ import annotations


def postgres_connector(port: int, prefix: str) -> dict[str, str]:
    """The settings that name the server on that port, and begin the names of its topics."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "streamkit",
        "database.password": "unused",
        "database.dbname": "postgres",
        "topic.prefix": prefix,
    }
