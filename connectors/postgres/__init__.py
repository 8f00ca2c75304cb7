"""Tables of PostgreSQL as targets and as sources."""

from __future__ import annotations

from streamkit.connectors.postgres.sink import PostgresSink
from streamkit.connectors.postgres.source import PostgresSource

__all__ = ["PostgresSink", "PostgresSource"]
