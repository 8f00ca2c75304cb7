"""What a log holds and how it moves."""

from __future__ import annotations

import dataclasses
from typing import Any

from streamkit.description.storage import storage_described
from streamkit.log.statistics import LogStatistics, statistics_of
from streamkit.serve.answers import TextAnswer
from streamkit.serve.metrics import CONTENT_TYPE, metrics_text
from streamkit.serve.resource import Asked, Parameter, Resource


def facts(asked: Asked) -> dict[str, Any]:
    """Sizes, rates and lags, as `streamkit stats --json` has them."""
    found = statistics_of(asked.log, asked["topic"])
    topics = tuple(one for one in found.topics if asked["all"] or asked["topic"] or not one.internal)
    return dataclasses.asdict(dataclasses.replace(found, topics=topics))


def storage(asked: Asked) -> dict[str, Any]:
    return storage_described(asked.log)


def check(asked: Asked) -> dict[str, Any]:
    """What a look at the catalog and at the files beside it finds; reading every byte would take too long for an answer."""
    return asked.log.fsck().to_json()


def metrics(asked: Asked) -> TextAnswer:
    return TextAnswer(metrics_text(asked.log), CONTENT_TYPE)


RESOURCES = (
    Resource(
        "/api/v1/log",
        "Sizes and rates of topics, and how far readers lag, as streamkit stats --json.",
        facts,
        LogStatistics,
        (
            Parameter("topic", str, "this topic and who reads it"),
            Parameter("all", bool, "the topics of applications' own too", False),
        ),
    ),
    Resource("/api/v1/log/storage", "The storage roots, as streamkit storage list --json.", storage, dict[str, Any]),
    Resource("/api/v1/log/check", "Whether the log is whole, as streamkit fsck --json.", check, dict[str, Any]),
    Resource("/metrics", "The figures of the log for Prometheus.", metrics, str, forms=("text/plain",)),
)
