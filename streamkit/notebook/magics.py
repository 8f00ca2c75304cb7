"""`%sql` and `%%sql` in notebooks and in IPython, after `%load_ext streamkit`."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa

from streamkit.errors import ConfigError, StreamKitError
from streamkit.log.log import Log
from streamkit.notebook.query_watch import QueryWatch
from streamkit.sql.execution.result import StatementResult
from streamkit.sql.session import SqlSession

ARROW, ON = "--arrow", "--on"
_OPTION = re.compile(r"\s*(?P<word>--\S+)(?:\s+|$)")
_VARIABLE = re.compile(r"(?P<name>[^\W\d]\w*)(?:\s+|$)")


@dataclass(frozen=True)
class MagicOptions:
    """The words after `%%sql`: the variable that gets the result, the one with the log or session, and whether tables stay Arrow's."""

    name: str | None
    on: str | None
    is_arrow: bool

    @classmethod
    def of(cls, line: str) -> MagicOptions:
        """The options of a line; ConfigError for words that are none."""
        words = shlex.split(line)
        is_arrow = ARROW in words
        words = [word for word in words if word != ARROW]
        on = None
        if ON in words and words.index(ON) + 1 < len(words):
            on = words.pop(words.index(ON) + 1)
            words.remove(ON)
        if len(words) > 1 or not all(word.isidentifier() for word in words):
            raise ConfigError(f"found %%sql {line}; expected %%sql [NAME] [{ON} VARIABLE] [{ARROW}], and the statements below")
        return cls(words[0] if words else None, on, is_arrow)

    @classmethod
    def before(cls, line: str) -> tuple[MagicOptions, str]:
        """The options in front of a statement on the same line, and the statement; ConfigError for others, which SQL took for a comment."""
        on, is_arrow, rest = None, False, line
        while found := _OPTION.match(rest):
            rest = rest[found.end() :]
            is_arrow = is_arrow or found["word"] == ARROW
            if found["word"] == ON and (variable := _VARIABLE.match(rest)):
                on, rest = variable["name"], rest[variable.end() :]
            elif found["word"] != ARROW:
                raise ConfigError(f"found %sql {line}; expected %sql [{ON} VARIABLE] [{ARROW}] STATEMENT")
        if rest != line and not rest.strip():
            raise ConfigError(f"found %sql {line}, which has no statement; expected %sql [{ON} VARIABLE] [{ARROW}] STATEMENT")
        return cls(None, on, is_arrow), rest


@final
class SqlMagic:
    """Executes what stands in cells; the session of a log is kept from cell to cell, with what SET has set."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._sessions: dict[int, SqlSession] = {}

    def sql(self, line: str, cell: str | None = None) -> Any:
        """
        Execute statements of SQL: `%sql [--on VARIABLE] [--arrow] SELECT …`, or `%%sql [NAME] [--on VARIABLE] [--arrow]` with the statements below.

        The rows of a query are a DataFrame of pandas, with --arrow a pyarrow.Table; those of one that goes on a table that moves. NAME is a
        variable that gets the result too. VARIABLE holds a log or a SqlSession; without it, the only one that the notebook has is meant.
        """
        try:
            return self._executed(*(MagicOptions.before(line) if cell is None else (MagicOptions.of(line), cell)))
        except StreamKitError as error:
            message = f"{type(error).__name__}: {error}"
            vars(error)["_render_traceback_"] = lambda: [message]  # what IPython asks for: lines of StreamKit say nothing here
            raise

    def _executed(self, options: MagicOptions, text: str) -> Any:
        session = self._session(options.on)
        results = session.execute(text)
        shown = [self._shown(session, one, is_arrow=options.is_arrow) for one in results]
        for one, found in zip(results[:-1], shown[:-1], strict=True):
            self._tell(one, found)
        if not results:
            return None
        if options.name is not None:
            self._shell.user_ns[options.name] = shown[-1]
        if shown[-1] is None:
            self._tell(results[-1], None)
        return shown[-1]

    def _tell(self, result: StatementResult, found: Any) -> None:
        if found is None:
            sys.stdout.write(f"{result.message}\n" + (f"note: {result.note}\n" if result.note else ""))
        else:
            from IPython.display import display

            display(found)  # type: ignore[no-untyped-call]

    def _shown(self, session: SqlSession, result: StatementResult, *, is_arrow: bool) -> Any:
        """What a cell shows of a result; None of one that is a message alone."""
        if result.subscription is not None:
            return QueryWatch(session.log, result.subscription, result.text)
        if result.table is None or is_arrow:
            return result.table
        table: pa.Table = result.table
        return table.to_pandas(integer_object_nulls=True)  # floats would lose digits

    def _session(self, name: str | None) -> SqlSession:
        names: Mapping[str, Any] = self._shell.user_ns
        if name is not None:
            if name not in names:
                raise ConfigError(f"there is no variable {name}; expected {ON} and a variable with a log or a SqlSession")
            found = names[name]
            if not isinstance(found, Log | SqlSession):
                raise ConfigError(
                    f"found {ON} {name}, which is {type(found).__name__}; expected a variable with a log or a SqlSession"
                )
            return self._of(found)
        own = {key: one for key, one in names.items() if not key.startswith("_")}
        sessions = {id(one): key for key, one in own.items() if isinstance(one, SqlSession)}
        logs = {id(one): key for key, one in own.items() if isinstance(one, Log) and not one.is_closed}
        meant = sessions or logs
        if len(meant) != 1:
            there = ", ".join(meant.values()) or "no log, as log = sk.open_log(…) gives one"
            raise ConfigError(f"found {there}; expected one log or SqlSession in the notebook, or %%sql {ON} VARIABLE")
        (key,) = meant.values()
        return self._of(own[key])

    def _of(self, found: Log | SqlSession) -> SqlSession:
        if isinstance(found, SqlSession):
            return found
        if id(found) not in self._sessions or self._sessions[id(found)].log is not found:
            self._sessions[id(found)] = SqlSession(found)
        return self._sessions[id(found)]


def load_magics(shell: Any) -> None:
    """Let a shell of IPython know %sql and %%sql; it puts no variables of Python into the statements, which may have `$`, `{` and `}`."""
    from IPython.core.magic import no_var_expand

    no_var_expand(SqlMagic.sql)
    shell.register_magic_function(SqlMagic(shell).sql, "line_cell", "sql")
