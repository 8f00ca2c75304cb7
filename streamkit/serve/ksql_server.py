"""What the server is, as ksqlDB's REST API says it: version, health, and who runs which query."""

from __future__ import annotations

import difflib
import re
import time
from typing import Any

from streamkit.connectors.files.record_lines import json_text
from streamkit.serve.forms import FORM, JSON
from streamkit.serve.ksql_entities import KsqlEntities
from streamkit.serve.ksql_errors import ksql_error
from streamkit.serve.ksql_rest import V1
from streamkit.serve.refusals import RefusedError, bad_request
from streamkit.serve.resource import Asked, Resource
from streamkit.serve.sql_request import json_object
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.session_settings import OF_A_FILE, TOLD
from streamkit.sql.reader.script import read_script
from streamkit.sql.script.settings import means_nothing

SERVICE_ID = "streamkit_"
CREATED = "create"


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


def is_valid_property(asked: Asked) -> bool:
    """That a request may set something of a name, also if it does nothing here; RefusedError for a name that there is not."""
    name = asked.path["name"]
    for own in asked.live.sql.settings({name: ""}):
        if own in OF_A_FILE or not (own in TOLD or means_nothing(own)):
            near = difflib.get_close_matches(own, TOLD, 1)
            raise bad_request(
                f"there is no setting {name[:200]!r}{f'; did you mean {near[0]}?' if near else ''}", "SHOW PROPERTIES has all"
            )
    return True


def terminate(asked: Asked) -> list[dict[str, Any]]:
    """
    What ending everything gave, an object a statement: all queries, then all streams and tables.

    Topics that queries filled are deleted where an expression of `deleteTopicList` matches the whole name.
    """
    assert asked.body is not None, "a POST has a body"
    expressions = json_object(asked.body.content.strip() or b"{}").get("deleteTopicList") or []
    try:
        patterns = [re.compile(one) for one in expressions]
    except (TypeError, re.error) as error:
        raise bad_request(
            f"found deleteTopicList: {json_text(expressions)[:100]}; expected a list of regular expressions: {error}"
        ) from None
    with asked.live.sql.session(asked.live.sql.settings({}), {}) as session:
        texts = ["TERMINATE ALL;"]
        for one in asked.log.catalog.sql.objects().sources:
            is_deleted = one.query is not None and any(pattern.fullmatch(one.topic) for pattern in patterns)
            texts.append(f"DROP {one.kind} IF EXISTS `{one.name.replace('`', '``')}`{' DELETE TOPIC' * is_deleted};")
        text = " ".join(texts)
        statements = read_script(text, session.settings.script.meaning.name)
        found = KsqlEntities(asked.log, session).of(statements, session.execute(text))
        asked.live.sql.note_commands(one["commandId"] for one in found)
        return found


def command_status(asked: Asked) -> dict[str, Any]:
    """
    That a statement was executed, whose commandId /ksql has given: each is, when it is answered.

    What another server executed is only known while it is there.
    """
    kind, name, action = (asked.path[part] for part in ("kind", "name", "action"))
    id, objects = f"{kind}/{name}/{action}", asked.log.catalog.sql.objects()
    there = {f"{one.kind}/`{one.name}`/{CREATED}" for one in objects.sources} | {
        f"type/`{one.name}`/{CREATED}" for one in objects.types
    }
    if not (id in there or asked.live.sql.has_command(id)):
        raise RefusedError(
            404,
            "NotFound",
            f"there is no command {id[:200]} of this server, and nothing that it created",
            "/ksql gives commandIds",
        )
    return {"status": "SUCCESS", "message": "The statement was executed."}


RESOURCES = (
    Resource(
        "/ksql/terminate", "Ends all queries, and forgets all streams and tables, as ksqlDB ends a cluster.", terminate, list[dict[str, Any]],
        forms=(V1, JSON), method="POST", body_forms=dict.fromkeys((JSON, V1, FORM), "deleteTopicList, a list of regular expressions"),
        error_facts=ksql_error,
    ),
    Resource(
        "/is_valid_property/{name}", "Whether a request may set something of this name, as ksqlDB says it.", is_valid_property, bool,
        error_facts=ksql_error,
    ),
    Resource("/info", "What the server is, as ksqlDB says it.", ksql_info, dict[str, Any]),
    Resource("/healthcheck", "Whether the log can be read, as ksqlDB says it.", ksql_health, dict[str, Any], error_facts=ksql_error),
    Resource("/clusterStatus", "The server and the queries of the log, as ksqlDB says it.", cluster_status, dict[str, Any]),
    Resource(
        "/status/{kind}/{name}/{action}", "Whether a statement was executed, by the commandId that /ksql gave.", command_status, dict[str, Any],
        error_facts=ksql_error,
    ),
)  # fmt: skip
