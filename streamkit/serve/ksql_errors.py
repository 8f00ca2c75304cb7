"""Errors as ksqlDB's REST API has them, beside our own words."""

from __future__ import annotations

from typing import Any

from streamkit.serve.refusals import RefusedError

BAD_STATEMENT, QUERY_ENDPOINT = 40_001, 40_002
TO_QUERY = "QueryEndpoint"  # the statement is one for another path
_STATEMENT_ERRORS = ("Sql", "Topology", "UnsupportedExpression", "UnknownFunction", "Evaluation")


def ksql_error(refused: RefusedError) -> dict[str, Any]:
    """What ksqlDB's clients read of an error: its kind and its number, which begins with the status."""
    is_statement = refused.error in _STATEMENT_ERRORS or refused.error == TO_QUERY
    code = QUERY_ENDPOINT if refused.error == TO_QUERY else BAD_STATEMENT if is_statement else refused.status * 100
    found: dict[str, Any] = {"@type": "statement_error" if is_statement else "generic_error", "error_code": code}
    return {**found, "statementText": refused.facts.get("statementText", ""), "entities": []} if is_statement else found
