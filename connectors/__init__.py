"""Connectors: data of foreign systems into topics, and out of them. docs/connectors.md says how, and how to write one."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamkit.connectors.connector import Connector
    from streamkit.connectors.runtime.worker import Worker, run
    from streamkit.connectors.setting import REQUIRED, Setting
    from streamkit.connectors.sink import Sink
    from streamkit.connectors.source import Polled, Source
    from streamkit.log.consume.consumer import TopicPartition

_HOMES = {  # loaded on first use, because every command reads a file below this folder
    "REQUIRED": "streamkit.connectors.setting",
    "Connector": "streamkit.connectors.connector",
    "Polled": "streamkit.connectors.source",
    "Setting": "streamkit.connectors.setting",
    "Sink": "streamkit.connectors.sink",
    "Source": "streamkit.connectors.source",
    "TopicPartition": "streamkit.log.consume.consumer",
    "Worker": "streamkit.connectors.runtime.worker",
    "run": "streamkit.connectors.runtime.worker",
}
__all__ = ["REQUIRED", "Connector", "Polled", "Setting", "Sink", "Source", "TopicPartition", "Worker", "run"]


def __getattr__(name: str) -> Any:
    """Load a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(_HOMES[name]), name)
    return value
