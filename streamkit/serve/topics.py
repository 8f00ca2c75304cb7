"""Topics of the log: what they are and how much they hold."""

from __future__ import annotations

from typing import Any

from streamkit.description.topics import topics_described
from streamkit.serve.resource import Asked, Parameter, Resource


def topics(asked: Asked) -> list[dict[str, Any]]:
    """Those of users, or all."""
    return list(topics_described(asked.log, asked.log.topics(internal=asked["all"])))


def topic(asked: Asked) -> dict[str, Any]:
    return asked.log.describe(asked.path["topic"])


RESOURCES = (
    Resource(
        "/api/v1/topics",
        "The topics, as streamkit topics list --json.",
        topics,
        list[dict[str, Any]],
        (Parameter("all", bool, "the topics of applications' own too, such as changelogs", False),),
    ),
    Resource("/api/v1/topics/{topic}", "A topic, as streamkit topics describe --json.", topic, dict[str, Any]),
)
