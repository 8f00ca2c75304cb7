"""Consumer groups: who reads together, and how far they have come."""

from __future__ import annotations

from typing import Any

from streamkit.description.groups import group_json
from streamkit.query.group_reset import reset_offsets
from streamkit.serve.refusals import absent
from streamkit.serve.resource import Asked, Parameter, Resource


def groups(asked: Asked) -> list[dict[str, Any]]:
    """All of them."""
    return [group_json(asked.log.groups.describe(name)) for name in asked.log.groups.names()]


def group(asked: Asked) -> dict[str, Any]:
    with absent("see /api/v1/groups"):
        return group_json(asked.log.groups.describe(asked.path["group"]))


def reset(asked: Asked) -> dict[str, Any]:
    """Where each partition was, and is now."""
    name, is_dry = asked.path["group"], asked["dry_run"]
    return {
        "group": name,
        "dry_run": is_dry,
        "partitions": reset_offsets(asked.log, name, asked["to"], asked["topics"], is_dry=is_dry),
    }


RESOURCES = (
    Resource("/api/v1/groups", "The consumer groups, as streamkit groups list --json.", groups, list[dict[str, Any]]),
    Resource("/api/v1/groups/{group}", "A consumer group, as streamkit groups describe --json.", group, dict[str, Any]),
    Resource(
        "/api/v1/groups/{group}/offsets",
        "Sets the committed offsets of a group without members, as streamkit groups reset.",
        reset,
        dict[str, Any],
        method="POST",
        fields=(
            Parameter("to", str, "earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z", is_required=True),
            Parameter("topics", str, "only these topics; else all that the group has committed", is_list=True),
            Parameter("dry_run", bool, "only say what would be committed", False),
        ),
    ),
)
