"""Tables of Delta Lake in and out."""

from __future__ import annotations

from streamkit.connectors.delta.sink import DeltaSink
from streamkit.connectors.delta.source import DeltaSource

__all__ = ["DeltaSink", "DeltaSource"]
