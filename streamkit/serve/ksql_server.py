"""What the server is, as ksqlDB's REST API says it: version, health, and who runs which query."""

from __future__ import annotations

import time
from typing import Any

from streamkit.serve.ksql_errors import ksql_error
from streamkit.serve.refusals import RefusedError
from streamkit.serve.resource import Asked, Resource
from streamkit.sql.execution.definitions import Definitions

SERVICE_ID = "streamkit_"
GONE = ("drop", "terminate")


def ksql_info(asked: Asked) -> dict[str, Any]:
    """The version of StreamKit, and the log, which ksqlDB's clients ask for."""
    import streamkit

    found = {"version": streamkit.__version__, "kafkaClusterId": asked.log.location, "ksqlServiceId": SERVICE_ID}
    return {"KsqlServerInfo": {**found, "serverStatus": "RUNNING"}}


def ksql_health(asked: Asked) -> dict[str, Any]:
    """Whether the catalog and the log can be read."""
    asked.log.catalog.sql.objects()
    asked.log.catalog.topics.every()
    return {
        "isHealthy": True,
        "details": {"metastore": {"isHealthy": True}, "kafka": {"isHealthy": True}},
        "serverState": "READY",
    }


def cluster_status(asked: Asked) -> dict[str, Any]:
    """The one server that there is, with the queries of the log and what each reads."""
    definitions = Definitions.of(asked.log, asked.log.catalog.sql.objects())
    queries = {}
    for query in definitions.queries.values():
        topics = [found.topic for name in query.sources if (found := definitions.source(name)) is not None]
        partitions = [
            {"topic": topic.name, "partition": number}
            for topic in filter(None, map(definitions.find_topic, topics))
            for number in range(topic.partitions)
        ]
        queries[query.id] = {"activeStores": [], "activePartitions": partitions, "standByStores": [], "standByPartitions": []}
    host = {
        "hostAlive": True,
        "lastStatusUpdateMs": int(time.time() * 1000),
        "activeStandbyPerQuery": queries,
        "hostStoreLags": {},
    }
    return {"clusterStatus": {"streamkit": host}}


def command_status(asked: Asked) -> dict[str, Any]:
    """That a statement was executed, whose commandId /ksql has given: each is, when it is answered."""
    kind, name, action = (asked.path[part] for part in ("kind", "name", "action"))
    definitions = Definitions.of(asked.log, asked.log.catalog.sql.objects())
    if not (kind in GONE or action in GONE or definitions.declared(name.strip("`")) is not None):
        raise RefusedError(404, "NotFound", f"there is no command {kind}/{name[:200]}/{action}", "/ksql gives commandIds")
    return {"status": "SUCCESS", "message": "The statement was executed."}


RESOURCES = (
    Resource("/info", "What the server is, as ksqlDB says it.", ksql_info, dict[str, Any]),
    Resource("/healthcheck", "Whether the log can be read, as ksqlDB says it.", ksql_health, dict[str, Any], error_facts=ksql_error),
    Resource("/clusterStatus", "The server and the queries of the log, as ksqlDB says it.", cluster_status, dict[str, Any]),
    Resource(
        "/status/{kind}/{name}/{action}", "Whether a statement was executed, by the commandId that /ksql gave.", command_status, dict[str, Any],
        error_facts=ksql_error,
    ),
)  # fmt: skip
