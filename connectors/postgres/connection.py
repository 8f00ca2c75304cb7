"""Connections to PostgreSQL as a source: texts in one spelling, and which errors pass."""

from __future__ import annotations

import importlib
from typing import Any

from streamkit.connectors.connector import needed

PASSING = ("08", "40", "53", "55", "57")  # classes of SQLSTATE: connection, serialization, resources, in use, shutdown
SPELLING = (  # of values as texts, whatever the database prefers
    "SET client_encoding = 'UTF8'",
    "SET DateStyle = 'ISO'",
    "SET IntervalStyle = 'iso_8601'",
    "SET TimeZone = 'UTC'",
    "SET extra_float_digits = 3",
    "SET bytea_output = 'hex'",
    "SET statement_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",
)


def library() -> Any:
    """The module psycopg."""
    try:
        return importlib.import_module("psycopg")
    except ModuleNotFoundError:
        raise needed("psycopg", "postgres") from None


def connect(url: str, **settings: Any) -> Any:
    """A connection in which values are spelled as `source_type` reads them."""
    connection = library().connect(url, autocommit=True, **settings)
    for statement in SPELLING:
        connection.execute(statement)
    return connection


def passes(error: Exception) -> bool:
    """Whether an error of the library may go away by itself."""
    psycopg = library()
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate[:2] in PASSING
