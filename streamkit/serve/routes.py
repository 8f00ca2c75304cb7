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
    ksql_inserts,
    ksql_rest,
    ksql_server,
    log_facts,
    records,
    sql_statements,
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
    *sql_statements.RESOURCES,
    *ksql_rest.RESOURCES,
    *ksql_inserts.RESOURCES,
    *ksql_server.RESOURCES,
    *groups.RESOURCES,
    *dead_letters.RESOURCES,
    *connectors.RESOURCES,
    *log_facts.RESOURCES,
    *health.RESOURCES,
    *about.RESOURCES,
)
