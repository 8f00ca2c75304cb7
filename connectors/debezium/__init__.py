"""Changes of tables that Debezium has read."""

from __future__ import annotations

from streamkit.connectors.debezium.source import DebeziumSource

__all__ = ["DebeziumSource"]
