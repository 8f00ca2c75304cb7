"""CREATE CONNECTOR and DROP CONNECTOR: declarations of connectors, which workers of the log run, checked with the script and written with it."""

from __future__ import annotations

import re

from streamkit.errors import ConfigError, SchemaError
from streamkit.names import NAME_LENGTH_MAX, is_name, meant, name_flaw, quoted_name
from streamkit.sql.execution.script_state import Changed, ScriptState
from streamkit.sql.tree.span import TextSpan
from streamkit.sql.tree.statements import CreateConnector, DropConnector


def create_connector(state: ScriptState, statement: CreateConnector) -> Changed:
    """Declare a connector; TopologyError for a name that is taken, and for settings that it does not have."""
    from streamkit.connectors.connect_names import own_settings  # no other statement pays for these
    from streamkit.connectors.runtime.declared_connectors import (
        TOPIC,
        DeclaredConnector,
        declaration,
        declared_topic,
        is_alive,
        read_declared,
    )
    from streamkit.connectors.source import Source

    name, span = statement.name.text, statement.name.span if statement.name.span.end else statement.span
    _check_allowed(state, statement)
    if (known := _known(state, name)) is not None:
        if statement.if_not_exists:
            return Changed(f"There is a connector {known} already.")
        raise state.error(f"there is a connector {known} already; expected another name, or IF NOT EXISTS", span)
    if not is_name(name):
        raise state.error(
            f"{quoted_name(name)} cannot be the name of a connector: {name_flaw(name)}; expected at most {NAME_LENGTH_MAX} letters, digits, '.', "
            "'_' and '-'",
            span,
        )
    if name not in read_declared(state.log) and is_alive(state.log, name):  # one that this script has dropped still runs
        raise state.error(f"a worker runs a connector {name} of a file; expected another name, or the end of that worker", span)
    names = [setting for setting, _ in statement.settings]
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise state.error(f"the setting {twice!r} is there twice; expected it once", _place(statement, twice))
    settings = dict(statement.settings)
    own = settings.pop("name", name)
    if str(own).lower() != name.lower():
        raise state.error(
            f"the connector is called {name}, and its setting name is {own!r}; expected no setting name",
            _place(statement, "name"),
        )
    try:
        connector = DeclaredConnector(name, own_settings(settings))
        kind = "source" if issubclass(connector.check(), Source) else "sink"
    except (ConfigError, SchemaError) as error:
        told = str(error)
        named = next((one for one in names if re.search(rf"(?<![\w.]){re.escape(one)}(?![\w.])", told)), None)
        raise state.error(f"the connector {name} cannot be made: {told}", _place(statement, named)) from None
    if kind != statement.kind:
        raise state.error(
            f"{connector.settings['connector.class']} is a {kind}; expected CREATE {kind.upper()} CONNECTOR {name}",
            _place(statement, "connector.class"),
        )
    missing = _missing_topics(state, settings.get("topics", "")) if kind == "sink" else ""
    topic = state.definitions.find_topic(TOPIC)
    if topic is None:
        topic = declared_topic()
        state.definitions = state.definitions.with_topic(topic)
    state.rows.setdefault(TOPIC, []).extend(declaration(topic, connector, state.log.clock.now_ms()))
    state.connectors[name] = connector
    state.definitions = state.definitions.with_more()
    return Changed(f"The {kind} {name} is declared; streamkit sql serve and streamkit connect run run it.{missing}")


def _missing_topics(state: ScriptState, written: str) -> str:
    """What is to be known of topics that a sink reads and that are not there yet; what a placeholder stands for is known where it runs."""
    names = [one.strip() for one in written.split(",")]
    missing = [one for one in names if one and "${" not in one and state.definitions.find_topic(one) is None]
    there = state.definitions.topics()
    told = [
        f" There is no topic {one!r} yet{meant(one, there)}; the sink fails, and is tried again, until there is one."
        for one in missing
    ]
    return "".join(told)


def _place(statement: CreateConnector, setting: str | None) -> TextSpan:
    """Where a setting is written; the statement if that is not known."""
    places = [place for (name, _), place in zip(statement.settings, statement.places) if name == setting]
    return places[-1] if places else statement.span


def drop_connector(state: ScriptState, statement: DropConnector) -> Changed:
    """End a connector that a statement has declared; TopologyError if there is none, or a file declares it."""
    from streamkit.connectors.runtime.configurations import read_configurations
    from streamkit.connectors.runtime.declared_connectors import TOPIC, deletions
    from streamkit.log.rows.records import records_of
    from streamkit.names import DELETED

    _check_allowed(state, statement)
    name, span = statement.name.text, statement.name.span if statement.name.span.end else statement.span
    known = _known(state, name)
    if known is None:
        if statement.if_exists:
            return Changed(f"There is no connector {name}.")
        if name in read_configurations(state.log):
            raise state.error(
                f"no statement has made {name}: it is of a file; expected the end of the worker that runs the file", span
            )
        there = ", ".join(state.connectors) or "none"
        raise state.error(f"there is no connector {name!r}; there are {there}", span)
    topic = state.definitions.topic(TOPIC)
    gone = records_of(topic, [{"connector": known, DELETED: True}], state.log.clock.now_ms())
    state.rows.setdefault(TOPIC, []).extend(gone)
    for told, rows in deletions(state.log, known):
        state.rows.setdefault(told.name, []).extend(rows)
    del state.connectors[known]
    state.definitions = state.definitions.with_more()
    return Changed(f"The connector {known} is gone; what it has written stays, and so do its positions.")


def _known(state: ScriptState, name: str) -> str | None:
    """The name of a connector that a statement has declared, in any case if none is spelt so."""
    return name if name in state.connectors else next((one for one in state.connectors if one.lower() == name.lower()), None)


def _check_allowed(state: ScriptState, statement: CreateConnector | DropConnector) -> None:
    """TopologyError if others send the statements, because a connector reads files and the environment of its worker."""
    if not state.may_connect:
        raise state.error(
            "a connector reads files and the environment of its worker, so it is neither made nor dropped by HTTP; expected streamkit sql, or "
            "a session in Python",
            statement.span,
        )
