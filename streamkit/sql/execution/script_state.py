"""A script as it is executed: the copy of the catalog that its statements change, its settings, and the rows that it inserts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from streamkit.errors import TopologyError
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic
from streamkit.names import spellings
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.result import StatementResult
from streamkit.sql.execution.session_settings import SessionSettings
from streamkit.sql.execution.stored_source import SourceReading
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.tree.span import TextSpan
from streamkit.sql.tree.statements import Statement

if TYPE_CHECKING:
    from streamkit.connectors.runtime.declared_connectors import DeclaredConnector


@dataclass(frozen=True)
class Changed:
    """A statement that changes something, which is written with the others around it; `message` says what."""

    message: str
    query_id: str | None = None


@dataclass(frozen=True)
class Awaiting:
    """A statement that is checked, and gives its result when all that was before it is written."""

    run: Callable[[], StatementResult]


@dataclass
class ScriptState:
    """
    What statements see and change one after the other; `rows` are those to insert, by topic.

    `may_connect` says whether statements may make and drop connectors. `called` are the functions in Python that the statement calls.
    What `is_rehearsed` is only checked, and changes nothing outside either.
    """

    log: Log
    text: ScriptText
    definitions: Definitions
    settings: SessionSettings
    rows: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    may_connect: bool = True
    called: Sequence[str] = ()
    is_rehearsed: bool = False

    @cached_property
    def connectors(self) -> dict[str, DeclaredConnector]:
        """The connectors as statements have left them; read after the definitions, so a change between the two is noticed by its number."""
        from streamkit.connectors.runtime.declared_connectors import read_declared  # few statements need it

        return read_declared(self.log)

    @property
    def reading(self) -> SourceReading:
        """The streams and tables as statements have left them."""
        script = self.settings.script
        return SourceReading(self.definitions, script.registry, script.time_zone, self.keeps_case)

    def reading_for(self, topic: Topic) -> SourceReading:
        """
        The streams and tables as rows for a topic are written.

        While a script is only checked, a registry has the schema of a topic that the script makes or changes not yet, and is to get none.
        """
        format, changed = topic.format, (*self.definitions.created, *self.definitions.altered)
        if not self.is_rehearsed or format is None or not format.has_registry or topic.name not in changed:
            return self.reading
        plain = replace(topic, format=format.without_registry())
        return replace(self.reading, registry=None, definitions=self.definitions.with_topic(plain))

    @property
    def keeps_case(self) -> bool:
        """Whether names may differ in case only, as in ksqlDB's dialect."""
        return self.settings.script.meaning.names_results

    @property
    def text_in_dialect(self) -> ScriptText:
        """The text, which knows the dialect of the statement that is done."""
        return self.text.in_dialect(is_ksql=self.keeps_case)

    def source(self, name: str) -> StoredSource | None:
        """The stream or table of a name, or what a topic of that name stands for, as a statement may name it."""
        return self.definitions.source(name, keeps_case=self.keeps_case)

    def declared(self, name: str) -> StoredSource | None:
        """The stream or table that CREATE has declared, as a statement may name it."""
        return self.definitions.declared(name, keeps_case=self.keeps_case)

    def taken(self, name: str) -> StoredSource | None:
        """The stream or table that has a name which CREATE gives; in any case, unless names may differ in case only."""
        sources = self.definitions.sources
        near = [name] if self.keeps_case else spellings(name, sources)
        return sources.get(near[0]) if near else None

    @property
    def types(self) -> Mapping[str, str]:
        """The types that CREATE TYPE has made."""
        return self.definitions.type_texts

    def written(self, statement: Statement) -> str:
        """The text of a statement."""
        return self.text.text[statement.span.start : statement.span.end].strip()

    def error(self, message: str, span: TextSpan) -> TopologyError:
        """The error that something is wrong with a statement."""
        return self.text.error(message, span)
