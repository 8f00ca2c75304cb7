"""Connectors: data of foreign systems into topics, and out of them. docs/connectors.md says how, and how to write one."""

from __future__ import annotations

from streamkit.connectors.connector import Connector
from streamkit.connectors.runtime.worker import Worker, run
from streamkit.connectors.setting import REQUIRED, Setting
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Polled, Source
from streamkit.log.consume.consumer import TopicPartition

__all__ = ["REQUIRED", "Connector", "Polled", "Setting", "Sink", "Source", "TopicPartition", "Worker", "run"]
