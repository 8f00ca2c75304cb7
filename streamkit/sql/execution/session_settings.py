"""SET and DEFINE: what a session keeps from statement to statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streamkit.errors import ConfigError, TopologyError
from streamkit.names import meant
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.script.settings import ENGINE, OFFSET_RESET, SETTINGS, ScriptSettings, plain_name
from streamkit.sql.tree.statements import Define, Set

EARLIEST, LATEST = "earliest", "latest"
ENGINES = ("local", "spark")
TOLD = {
    **SETTINGS,
    OFFSET_RESET: "where a query that goes on begins to read streams: latest or earliest",
    ENGINE: "where persistent queries run that are made from now on: local or spark; where their runner says unless set",
}
OF_A_FILE = ("streamkit.application",)  # which a session has none of: each of its queries is an application
OF_A_SESSION = tuple(name for name in TOLD if name not in OF_A_FILE)


@dataclass(frozen=True)
class SessionSettings:
    """
    The settings of a session: those of scripts, and where queries that go on begin; `given` are those that were set, as texts.

    `variables` stand for texts in statements.
    """

    script: ScriptSettings = field(default_factory=ScriptSettings)
    offset_reset: str = LATEST
    given: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, str], variables: Mapping[str, str] | None = None) -> SessionSettings:
        """The settings that a user gives by their names; ConfigError for one that there is not, or a value that does not fit."""
        found = cls(variables=dict(variables or {}))
        for name, value in given.items():
            try:
                found = found.with_set(Set(name, str(value)), ScriptText(""))
            except TopologyError as error:
                raise ConfigError(error.message) from None
        return found

    def with_set(self, statement: Set, text: ScriptText) -> SessionSettings:
        """The settings behind SET or UNSET; TopologyError for one that there is not."""
        name, value = plain_name(statement.name), statement.value
        if statement.is_system:
            raise text.error(
                "ALTER SYSTEM changes settings of a server for all who use it, and a session has its own; expected SET",
                statement.span,
            )
        if name in OF_A_FILE:
            raise text.error(f"{name} is a setting of a file, which is one application; here each query is one", statement.span)
        if name == OFFSET_RESET:
            if value not in (None, EARLIEST, LATEST):
                raise text.error(
                    f"{OFFSET_RESET} is {value!r}; expected {EARLIEST!r} or {LATEST!r}{meant(str(value), (EARLIEST, LATEST))}",
                    statement.span,
                )
            found = replace(self, offset_reset=value or LATEST)
        elif name == ENGINE:
            if value not in (None, *ENGINES):
                raise text.error(
                    f"{ENGINE} is {value!r}; expected {' or '.join(map(repr, ENGINES))}{meant(str(value), ENGINES)}",
                    statement.span,
                )
            found = self
        else:
            found = replace(self, script=self.script.with_set(statement, text, OF_A_SESSION))
        others = {key: one for key, one in self.given.items() if key != name}
        return replace(found, given=others if value is None else {**others, name: value})

    def with_define(self, statement: Define) -> SessionSettings:
        """The settings behind DEFINE or UNDEFINE."""
        name = statement.name.lower()
        others = {key: one for key, one in self.variables.items() if key != name}
        return replace(self, variables=others if statement.value is None else {**others, name: statement.value})
