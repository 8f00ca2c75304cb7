"""The names that a text may go on with: those that the log has now, and those that are always there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from streamkit.expressions.sql.dialect import DIALECTS
from streamkit.expressions.sql.words import cut
from streamkit.sql.execution.callable_functions import functions
from streamkit.sql.execution.session_settings import TOLD
from streamkit.sql.script.properties import OF_SOURCES
from streamkit.sql.session import SqlSession
from streamkit.sql.tree.type_names import BUILT_IN, OF_KSQLDB

SETTINGS = tuple(sorted(TOLD))


class SessionNames:
    """The names of a session's log by their kind, as the reader of statements calls it."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        self._kinds: Mapping[str, Callable[[str], Sequence[str]]] = {
            "source": lambda _: self._session.source_names(),
            "topic": lambda _: self._session.log.topics(),
            "query": lambda _: self._session.queries()["query"].to_pylist(),
            "column": self._columns,
            "function": lambda _: [one.name for one in functions(self._dialect)],
            "type": lambda _: sorted(OF_KSQLDB if DIALECTS[self._dialect].has_arrows else (one.upper() for one in BUILT_IN)),
            "property": lambda _: OF_SOURCES,
        }

    @property
    def _dialect(self) -> str:
        return self._session.settings.script.meaning.name

    def of(self, kind: str, statement: str) -> Sequence[str]:
        """The names of a kind that a statement may mean; none of a kind that has no names yet."""
        find = self._kinds.get(kind)
        return () if find is None else find(statement)

    def _columns(self, statement: str) -> list[str]:
        """The columns of all streams and tables that a statement names, wherever it does."""
        found: dict[str, None] = {}
        names = {name.lower(): name for name in self._session.source_names()}
        words, _ = cut(statement, 0, DIALECTS[self._dialect], ";")
        for word in words:
            name = names.get(str(word.value if word.kind == "quoted" else word.text).lower())
            if name is not None:
                found.update(dict.fromkeys(self._session.columns_of(name)))
        return list(found)
