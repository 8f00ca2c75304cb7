"""The table of all paths: a new file of resources gets its line here."""

from __future__ import annotations

from streamkit.serve import (
    about,
    applications,
    connectors,
    dead_letters,
    graph,
    groups,
    health,
    kafka_rest,
    log_facts,
    records,
    stores,
    topics,
    writing,
)
from streamkit.serve.resource import Resource

RESOURCES: tuple[Resource, ...] = (
    *applications.RESOURCES,
    *graph.RESOURCES,
    *stores.RESOURCES,
    *topics.RESOURCES,
    *records.RESOURCES,
    *writing.RESOURCES,
    *kafka_rest.RESOURCES,
    *groups.RESOURCES,
    *dead_letters.RESOURCES,
    *connectors.RESOURCES,
    *log_facts.RESOURCES,
    *health.RESOURCES,
    *about.RESOURCES,
)
