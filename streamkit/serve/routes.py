"""The table of all paths: a new file of resources gets its line here."""

from __future__ import annotations

from streamkit.serve import applications, dead_letters, graph, groups, health, log_facts, records, stores, topics
from streamkit.serve.resource import Resource

RESOURCES: tuple[Resource, ...] = (
    *applications.RESOURCES,
    *graph.RESOURCES,
    *stores.RESOURCES,
    *topics.RESOURCES,
    *records.RESOURCES,
    *groups.RESOURCES,
    *dead_letters.RESOURCES,
    *log_facts.RESOURCES,
    *health.RESOURCES,
)
