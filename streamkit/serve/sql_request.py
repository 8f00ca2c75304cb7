"""A request with statements of SQL: its text, settings and variables, and whether this server executes such statements for who asks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamkit.errors import TopologyError
from streamkit.formats.json_numbers import refuse_constant
from streamkit.serve.refusals import RefusedError, bad_request, refusal_of, unreadable_json
from streamkit.serve.resource import Asked
from streamkit.sql.reader.script import read_script
from streamkit.sql.script.settings import REGISTRY
from streamkit.sql.session import SqlSession
from streamkit.sql.tree.statements import (
    AlterSource,
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    ControlQuery,
    CreateAs,
    CreateSource,
    CreateType,
    Define,
    DeleteRows,
    Describe,
    DropSource,
    DropType,
    Explain,
    InsertQuery,
    InsertValues,
    Print,
    RunScript,
    SelectStatement,
    Set,
    Show,
    Statement,
)

READING = (Show, Describe, Explain, SelectStatement, Print, Set, Define, AssertTopic, AssertSchema, AssertSource)
CHANGING = (
    CreateSource, CreateAs, InsertQuery, InsertValues, DeleteRows, AlterSource, CreateType, DropType, DropSource, ControlQuery
)  # fmt: skip
OF_TESTS = (AssertValues,)  # which no session executes, and says so
TEXTS = ("ksql", "sql")
SETTINGS = ("streamsProperties", "properties")
VARIABLES = "sessionVariables"
SHOWN_LENGTH = 80
SEQUENCE_NUMBER = "commandSequenceNumber"  # without meaning, as each change is made when it is answered
REQUEST_PROPERTIES = "requestProperties"  # between servers of ksqlDB


@dataclass(frozen=True)
class SqlRequest:
    """Statements that are sent, with the settings and variables that they shall have."""

    text: str
    settings: Mapping[str, str]
    variables: Mapping[str, str]

    @classmethod
    def of_ksql(cls, asked: Asked) -> SqlRequest:
        """What the body of ksqlDB's REST API says."""
        assert asked.body is not None, "a POST has a body"
        found = json_object(asked.body.content)
        check_fields(found, (*TEXTS, *SETTINGS, VARIABLES, REQUEST_PROPERTIES, SEQUENCE_NUMBER))
        number = found.get(SEQUENCE_NUMBER)
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise bad_request(f"found {SEQUENCE_NUMBER}: {json.dumps(number)[:100]}; expected a whole number")
        read_texts(found, REQUEST_PROPERTIES)
        texts = [found[name] for name in TEXTS if name in found]
        if len(texts) != 1 or not isinstance(texts[0], str):
            raise bad_request('expected {"ksql": "SELECT …;"}, or the same under "sql"')
        given = {**read_texts(found, SETTINGS[1]), **read_texts(found, SETTINGS[0])}
        return cls(texts[0], asked.live.sql.settings(given), read_texts(found, VARIABLES))

    def statements(self, asked: Asked, session: SqlSession, *, only_asks: bool = False) -> list[Statement]:
        """The statements, which this server may execute for who asks; RefusedError says which it does not, nor who `only_asks`."""
        settings = session.settings
        found = read_script(self.text, settings.script.meaning.name, settings.variables)
        _check_settings(asked, self.settings)
        for statement in found:
            if only_asks and not isinstance(statement, READING):
                raise RefusedError(
                    403, "OnlyAsks", f"this statement changes something: {self.shown(statement)}", "execute it without only_asks"
                )
            self._check(asked, statement)
        return found

    def written(self, statement: Statement) -> str:
        """The text of a statement."""
        return self.text[statement.span.start : statement.span.end].strip()

    def shown(self, statement: Statement) -> str:
        """The beginning of its text, on one line."""
        text = " ".join(self.written(statement).split())
        return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]} …"

    def _check(self, asked: Asked, statement: Statement) -> None:
        """RefusedError for a statement that a server does not execute, or not for who may change nothing."""
        if isinstance(statement, RunScript) or not isinstance(statement, READING + CHANGING + OF_TESTS):
            raise RefusedError(
                403, "Forbidden", "this server executes no statement that reads its files or starts programs, such as this one: "
                f"{self.shown(statement)}", "execute it with streamkit sql, beside the log",
            )  # fmt: skip
        if isinstance(statement, CHANGING):
            asked.check_change()
        if isinstance(statement, Set):
            _check_settings(asked, {statement.name.lower(): statement.value or ""})
        if isinstance(statement, AssertTopic | AssertSchema) and (statement.timeout_ms or 0) > asked.limits.wait_seconds * 1_000:
            raise bad_request(
                f"found a TIMEOUT of {(statement.timeout_ms or 0) / 1_000:g} seconds; expected at most {asked.limits.wait_seconds:g}",
                "send the statement again until it holds",
            )

    def refusal(self, error: Exception) -> RefusedError:
        """What is said of an error of the statements."""
        refused = refusal_of(error)
        if isinstance(error, TopologyError):
            refused.facts.setdefault("statementText", self.text)
        return refused


def json_object(content: bytes | str, what: str = "the body") -> dict[str, Any]:
    """The JSON object that a body is, or a line of it."""
    try:
        found = json.loads(content, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise unreadable_json(error, what) from None
    if not isinstance(found, dict):
        raise bad_request(f"{what} is {json.dumps(found)[:100]}; expected a JSON object")
    return found


def check_fields(found: Mapping[str, Any], known: Sequence[str]) -> None:
    """RefusedError for a field that is not known."""
    for name in found:
        if name not in known:
            raise bad_request(f"the field {name!r} is not known; expected some of: {', '.join(known)}")


def read_texts(found: Mapping[str, Any], field: str) -> dict[str, str]:
    """The texts of a field by name, none if it is left out; numbers and truth values are texts as JSON has them."""
    given = found[field] if found.get(field) is not None else {}
    if not isinstance(given, dict) or any(isinstance(one, dict | list) for one in given.values()):
        raise bad_request(f"found {field}: {json.dumps(given)[:100]}; expected an object of texts")
    return {name: one if isinstance(one, str) else json.dumps(one) for name, one in given.items() if one is not None}


def _check_settings(asked: Asked, settings: Mapping[str, str]) -> None:
    """RefusedError for a registry that the server should ask on behalf of one who may change nothing."""
    if settings.get(REGISTRY):
        asked.check_change()
