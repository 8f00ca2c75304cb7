"""What statements gave, as ksqlDB's REST API says it: an object of a kind for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streamkit.connectors.files.far_times import printed_rows
from streamkit.log.catalog.sql_queries import StoredQuery
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.log import Log
from streamkit.serve.ksql_types import field_objects, schema_object
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.result import StatementResult
from streamkit.sql.execution.showing import hidden_columns
from streamkit.sql.session import SqlSession
from streamkit.sql.tree.span import Name
from streamkit.sql.tree.statements import (
    STREAM,
    AlterSource,
    AssertSchema,
    AssertTopic,
    ControlQuery,
    CreateAs,
    CreateSource,
    CreateType,
    Define,
    Describe,
    DropSource,
    DropType,
    Explain,
    InsertQuery,
    InsertValues,
    Set,
    Show,
    Statement,
)

WITHOUT_ENTITY = (Set, Define, InsertValues)
NATIVE = "NATIVE"
FAILURE = ": failure"  # ends the fact that says why a query has failed


@dataclass(frozen=True)
class KsqlEntities:
    """Makes the objects from the results of a session's statements, and from what the catalog has behind them."""

    log: Log
    session: SqlSession

    def of(self, statements: Iterable[Statement], results: Iterable[StatementResult]) -> list[dict[str, Any]]:
        """An object for each statement, but for those that set something or insert rows."""
        found = [
            {
                **self._entity(statement, result),
                "statementText": f"{result.text};",
                "warnings": [{"message": result.note}] if result.note else [],
            }
            for statement, result in zip(statements, results, strict=True)
            if not isinstance(statement, WITHOUT_ENTITY)
        ]
        return [{"@type": one.pop("@type"), **one} for one in found]

    @property
    def _definitions(self) -> Definitions:
        return Definitions.of(self.log, self.log.catalog.sql.objects())

    def _entity(self, statement: Statement, result: StatementResult) -> dict[str, Any]:
        match statement:
            case Show():
                return self._shown(statement, result)
            case Describe(subject="source", name=Name()):
                return self._described(statement, result)
            case Explain():
                return self._explained(statement, result)
            case AssertTopic(name, exists):
                return {"@type": "assert_topic", "topicName": name.text, "exists": exists}
            case AssertSchema(subject, schema_id, exists):
                return {"@type": "assert_schema", "subject": subject and subject.text, "id": schema_id, "exists": exists}
        return _table(result) if result.table is not None else self._done(statement, result)

    def _done(self, statement: Statement, result: StatementResult) -> dict[str, Any]:
        """That a statement was executed: it was, when it is answered."""
        status: dict[str, Any] = {"status": "SUCCESS", "message": result.message}
        if result.query_id is not None:
            status["queryId"] = result.query_id
        number = self.log.catalog.sql.objects().change
        return {
            "@type": "currentStatus", "commandId": command_id(statement, result), "commandStatus": status, "commandSequenceNumber": number
        }  # fmt: skip

    def _shown(self, statement: Show, result: StatementResult) -> dict[str, Any]:
        rows = [] if result.table is None else result.table.to_pylist()
        match statement.subject:
            case "streams" | "tables" as kind:
                return {"@type": kind, kind: [self._source(str(row[kind[:-1]])) for row in rows]}
            case "queries" if statement.is_extended:
                return {"@type": "queryDescriptions", "queryDescriptions": [self._query_description(row) for row in rows]}
            case "queries":
                return {"@type": "queries", "queries": [self._query(row) for row in rows]}
            case "topics" | "all topics":
                topics = [{"name": row["topic"], "replicaInfo": [1] * int(row["partitions"])} for row in rows]
                return {"@type": "kafka_topics", "topics": topics}
            case "properties":
                found = [{"name": row["property"], "scope": "KSQL", "value": row["value"]} for row in rows]
                return {"@type": "properties", "properties": found, "overwrittenProperties": [], "defaultProperties": []}
            case "functions":
                kinds = {"function": "SCALAR", "aggregate": "AGGREGATE", "table function": "TABLE"}
                functions = [
                    {"name": row["function"].upper(), "type": kinds.get(row["kind"], row["kind"].upper())} for row in rows
                ]
                return {"@type": "function_names", "functions": functions}
            case "types":
                return {"@type": "type_list", "types": {row["type"]: schema_object(row["stands for"]) for row in rows}}
            case "variables":
                return {"@type": "variables", "variables": [{"name": row["variable"], "value": row["value"]} for row in rows]}
        return self._of_connectors(statement, rows)

    def _of_connectors(self, statement: Show, rows: list[dict[str, Any]]) -> dict[str, Any]:
        if statement.subject == "connector plugins":
            plugins = [{"className": row["class"], "type": row["kind"], "version": ""} for row in rows]
            return {"@type": "connector_plugins_list", "connectorPlugins": plugins}
        found = [
            {"name": row["connector"], "type": row["kind"], "className": row["class"], "state": row["state"]} for row in rows
        ]
        return {"@type": "connector_list", "connectors": found}

    def _source(self, name: str) -> dict[str, Any]:
        stored = self._definitions.source(name)
        if stored is None:  # it was dropped by a later statement
            return {"name": name}
        key, value = formats_of(stored)
        return {
            "type": stored.kind.upper(), "name": stored.name, "topic": stored.topic, "keyFormat": key, "valueFormat": value, "format": value,
            "isWindowed": has_windows(stored),
        }  # fmt: skip

    def _query(self, row: Mapping[str, Any]) -> dict[str, Any]:
        sink = self._definitions.source(str(row["fills"]))
        return {
            "queryErrors": self._errors(row), "queryString": row["statement"], "sinks": [row["fills"]], "sinkKafkaTopics": [] if sink is None else [sink.topic],
            "id": row["query"], "statusCount": {row["state"]: 1}, "queryType": "PERSISTENT", "state": row["state"],
        }  # fmt: skip

    def _errors(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What ended the last run of a query, in full; a list, as ksqlDB has it."""
        query = self._definitions.query(str(row["query"]))
        return [{"errorMessage": query.failure, "type": "UNKNOWN"}] if query is not None and query.failure else []

    def _query_description(self, row: Mapping[str, Any], plan: str = "") -> dict[str, Any]:
        query = self._definitions.query(str(row["query"]))
        sink = self._definitions.source(str(row["fills"]))
        return {
            "id": row["query"], "statementText": row["statement"], "windowType": None if sink is None else _window_type(sink),
            "fields": [] if sink is None else field_objects(_columns(sink)),
            "sources": [] if query is None else list(query.sources), "sinks": [row["fills"]], "topology": plan, "executionPlan": plan,
            "queryType": "PERSISTENT", "state": row["state"], "queryErrors": self._errors(row), "overriddenProperties": {},
        }  # fmt: skip

    def _queries(self, found: Iterable[StoredQuery]) -> list[dict[str, Any]]:
        wanted = {one.id for one in found}
        return [self._query(row) for row in self.session.queries().to_pylist() if row["query"] in wanted]

    def _described(self, statement: Describe, result: StatementResult) -> dict[str, Any]:
        definitions = self._definitions
        stored = result.source  # as it was then: it may have been dropped since
        assert stored is not None, "a stream or table was described"
        key, value = formats_of(stored)
        found: dict[str, Any] = {
            "name": stored.name, "windowType": _window_type(stored),
            "readQueries": self._queries(definitions.readers(stored.name)), "writeQueries": self._queries(definitions.writers(stored.name)),
            "fields": field_objects(_columns(stored)), "type": stored.kind.upper(),
            "key": ", ".join(one for one in stored.key if one not in hidden_columns(stored)),
            "timestamp": stored.timestamp or "", "statistics": "", "errorStats": "",
            "extended": statement.is_extended, "keyFormat": key, "valueFormat": value, "format": value, "topic": stored.topic, "partitions": 0,
            "replication": 1, "statement": stored.text,
        }  # fmt: skip
        topic = definitions.find_topic(stored.topic)
        if topic is not None and statement.is_extended and result.table is not None:
            facts = [(str(row["fact"]), f"{row['fact']}: {row['value']}") for row in result.table.to_pylist()]
            counts = [
                text
                for fact, text in facts
                if fact in ("rows", "records", "bytes") or (": " in fact and not fact.endswith(FAILURE))
            ]
            failures = [text for fact, text in facts if fact.endswith(FAILURE)]
            found |= {"partitions": topic.partitions, "statistics": "\n".join(counts), "errorStats": "\n".join(failures)}
        return {"@type": "sourceDescription", "sourceDescription": found}

    def _explained(self, statement: Explain, result: StatementResult) -> dict[str, Any]:
        lines = [] if result.table is None else [str(row["plan"]) for row in result.table.to_pylist()]
        plan = "\n".join(lines)
        query = self._definitions.query(statement.subject.text) if isinstance(statement.subject, Name) else None
        rows = [] if query is None else [row for row in self.session.queries().to_pylist() if row["query"] == query.id]
        found: dict[str, Any] = self._query_description(rows[0], plan) if rows else {
            "id": "", "statementText": result.text, "windowType": None, "fields": [], "sources": [], "sinks": [], "topology": plan,
            "executionPlan": plan, "queryType": "PUSH", "queryErrors": [], "overriddenProperties": {},
        }  # fmt: skip
        return {"@type": "queryDescription", "queryDescription": found, "overriddenProperties": {}}


def command_id(statement: Statement, result: StatementResult) -> str:
    """What ksqlDB calls a statement that it has executed, such as stream/`CLICKS`/create."""
    match statement:
        case CreateSource(kind, name) | CreateAs(kind, name):
            return f"{kind}/`{name.text}`/create"
        case DropSource(kind, name):
            return f"{kind}/`{name.text}`/drop"
        case AlterSource(kind, name):
            return f"{kind}/`{name.text}`/alter"
        case CreateType(name):
            return f"type/`{name.text}`/create"
        case DropType(name):
            return f"type/`{name.text}`/drop"
        case InsertQuery(name):
            return f"{STREAM}/`{name.text}`/create"
        case ControlQuery(action):
            return f"{action}/{result.query_id or 'ALL'}/execute"
    return "statement/execute"


def formats_of(stored: StoredSource) -> tuple[str, str]:
    """The formats of keys and values; columns of a log are of none of ksqlDB's."""
    both = stored.formats.get("FORMAT")
    value = str(stored.formats.get("VALUE_FORMAT", both or NATIVE)).upper()
    return str(stored.formats.get("KEY_FORMAT", both or (NATIVE if value == NATIVE else "KAFKA"))).upper(), value


def has_windows(stored: StoredSource) -> bool:
    """Whether windows are in its key."""
    return stored.windows is not None or "WINDOW_TYPE" in stored.formats


def _columns(stored: StoredSource) -> list[tuple[str, str, str]]:
    """The columns that statements name, each with its type, and whether it is in the key."""
    hidden = hidden_columns(stored)
    return [
        (str(one["name"]), str(one["type"]), "KEY" if one["name"] in stored.key else "")
        for one in stored.columns
        if one["name"] not in hidden
    ]


def _window_type(stored: StoredSource) -> str | None:
    """The kind of the windows in the key, in ksqlDB's word; the windows of a query have a length, which their keys do not tell."""
    if stored.windows is None:
        return str(stored.formats["WINDOW_TYPE"]).upper() if "WINDOW_TYPE" in stored.formats else None
    if stored.windows["kind"] == "session":
        return "SESSION"
    return "TUMBLING" if stored.windows["advance_ms"] == stored.windows["size_ms"] else "HOPPING"


def _table(result: StatementResult) -> dict[str, Any]:
    """A result that ksqlDB has no object for: its columns, and its rows as objects."""
    assert result.table is not None, "it has rows"
    return {"@type": "table", "columns": result.table.column_names, "rows": printed_rows(result.table)}
