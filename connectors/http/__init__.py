"""HTTP: a receiver of records, and a webhook for each record."""

from __future__ import annotations

from streamkit.connectors.http.sink import HttpSink
from streamkit.connectors.http.source import HttpSource

__all__ = ["HttpSink", "HttpSource"]
