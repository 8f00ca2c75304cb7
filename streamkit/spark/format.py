"""How rows look on their way through Spark; light, because each of Spark's Python processes imports it first."""

from __future__ import annotations

FORMAT = "streamkit_epochs"
PACKED_DDL = "task int, edge int, payload binary"
