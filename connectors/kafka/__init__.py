"""Topics of Kafka in and out."""

from __future__ import annotations

from streamkit.connectors.kafka.sink import KafkaSink
from streamkit.connectors.kafka.source import KafkaSource

__all__ = ["KafkaSink", "KafkaSource"]
