"""The description of a topic: its declaration, its settings, and how much it holds."""

from __future__ import annotations

from typing import Any

from streamkit.log.catalog import manifest, topics
from streamkit.log.database.database import Transaction
from streamkit.log.topic.settings import SETTINGS
from streamkit.schema import Schema


def describe(transaction: Transaction, name: str) -> dict[str, Any]:
    """What a topic is and how much it holds: offsets, rows and bytes by partition and in all, every setting with its value."""
    found = topics.get(transaction, name)
    names = ("partition", "start_offset", "end_offset", "rows", "bytes")
    partitions = [dict(zip(names, row, strict=True)) for row in manifest.partition_sizes(transaction, found.id)]
    return {
        "name": found.name,
        "id": found.id,
        "schema": str(found.schema),
        "version": found.version,
        "schemas": [
            {"version": past.version, "schema": str(Schema.from_ddl(past.schema)), "created_ms": past.created_ms}
            for past in topics.schema_versions(transaction, found.id)
        ],
        "format": found.format and found.format.name,
        "format_schema": found.format and found.format.schema,
        "format_settings": dict(found.format.settings) if found.format else {},
        "key": list(found.key),
        "timestamp": found.timestamp,
        "partition_by": list(found.partition_by),
        "internal": found.internal,
        "partitions": partitions,
        "rows": sum(partition["rows"] for partition in partitions),
        "bytes": sum(partition["bytes"] for partition in partitions),
        "config": {setting: found.setting(setting) for setting in SETTINGS},
    }
