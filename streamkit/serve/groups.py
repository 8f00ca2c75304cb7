"""Consumer groups: who reads together, and how far they have come."""

from __future__ import annotations

from typing import Any

from streamkit.description.groups import group_json
from streamkit.serve.refusals import absent
from streamkit.serve.resource import Asked, Resource


def groups(asked: Asked) -> list[dict[str, Any]]:
    """All of them."""
    return [group_json(asked.log.groups.describe(name)) for name in asked.log.groups.names()]


def group(asked: Asked) -> dict[str, Any]:
    with absent("see /api/v1/groups"):
        return group_json(asked.log.groups.describe(asked.path["group"]))


RESOURCES = (
    Resource("/api/v1/groups", "The consumer groups, as streamkit groups list --json.", groups, list[dict[str, Any]]),
    Resource("/api/v1/groups/{group}", "A consumer group, as streamkit groups describe --json.", group, dict[str, Any]),
)
