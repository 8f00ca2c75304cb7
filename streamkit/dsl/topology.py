"""The topology: a name, the topics it reads, and what it makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from streamkit.dsl.foreign_names import ForeignNames
from streamkit.dsl.stream import Stream
from streamkit.dsl.table import GlobalTable, Table
from streamkit.errors import TopologyError
from streamkit.names import check_name
from streamkit.plan.describe import describe
from streamkit.plan.location import user_location
from streamkit.plan.mermaid import mermaid
from streamkit.plan.node import Node
from streamkit.plan.operators.source import GlobalTableSource, StreamSource, TableSource
from streamkit.plan.operators.write import To
from streamkit.plan.picture import picture
from streamkit.schema import Schema, check_user_schema

if TYPE_CHECKING:
    from streamkit.plan.analysis import Analyzer
    from streamkit.plan.inputs import Topics


class Topology(ForeignNames):
    """
    A declared application: reads topics as streams and tables, and writes topics and stores.

    Building one reads no topic and starts nothing. It only collects the ends of streams (`Stream.to`) and the stores that were
    named. Two topologies are equal if name, ends and stores are. The name is the application's id on the log; ConfigError if it cannot be one.

        app = Topology("flight-delays")
        app.stream("flights").filter("dep_delay > 15").to("late_flights")
    """

    def __init__(self, name: str) -> None:
        self.name = check_name(name, "topology")
        self._sinks: dict[Node, None] = {}
        self._stores: dict[str, Node] = {}

    def stream(
        self, topic: str, *, schema: str | Schema | None = None, key: str | Iterable[str] | None = None, name: str | None = None
    ) -> Stream:
        """
        Read a topic as a stream of records, keyed by the topic's key columns.

        `schema` ("user string, amount double") and `key` say what the topic holds where the topology is compiled without a log; with
        one they must agree with the topic.
        """
        return Stream(StreamSource(topic, _schema(schema), _key(key), name=name, at=user_location()), self)

    def table(
        self,
        topic: str,
        *,
        schema: str | Schema | None = None,
        key: str | Iterable[str] | None = None,
        bootstrap: bool = False,
        store: str | None = None,
        name: str | None = None,
    ) -> Table:
        """
        Read a topic as a table: the newest row per key, deleted by a tombstone; records with a null key are dropped.

        `bootstrap` (at the first start, read what is committed before any stream) is not supported yet: compiling refuses it. `store` makes the
        table queryable under that name. `schema` and `key` are as in `stream`.
        """
        node = TableSource(topic, _schema(schema), _key(key), bootstrap, store, name=name, at=user_location())
        return self._table(node, store)

    def global_table(
        self, topic: str, *, schema: str | Schema | None = None, key: str | Iterable[str] | None = None, name: str | None = None
    ) -> GlobalTable:
        """Read a topic whole, as a table that every task has; `schema` and `key` are as in `stream`."""
        return GlobalTable(GlobalTableSource(topic, _schema(schema), _key(key), name=name, at=user_location()), self)

    @property
    def outputs(self) -> tuple[To, ...]:
        """The ends of streams that are topics."""
        return tuple(sink for sink in self._sinks if isinstance(sink, To))

    @property
    def sinks(self) -> tuple[Node, ...]:
        """The ends of streams, in the order they were declared."""
        return tuple(self._sinks)

    @property
    def stores(self) -> dict[str, Node]:
        """The tables whose store was given a name."""
        return dict(self._stores)

    @property
    def roots(self) -> tuple[Node, ...]:
        """The nodes from which everything that runs can be reached."""
        return (*self.sinks, *self._stores.values())

    def describe(self) -> str:
        """The topology as a tree of text, from its sources to its sinks; needs neither a log nor Spark."""
        return describe(self.name, self.roots)

    def explain(self, log: Topics | None = None, analyzer: Analyzer | None = None) -> str:
        """
        What the topology is compiled to, pass by pass: steps, types, stages, exchanges, stores with their topics, outputs.

        `log` says what the topics hold; without it every source needs `schema=`. Raises what `streamkit.compile` raises.
        """
        import streamkit

        return str(streamkit.explain(self, log, analyzer))

    def to_mermaid(self) -> str:
        """The topology as a flowchart in the language of Mermaid."""
        return mermaid(self.roots)

    def _repr_html_(self) -> str:
        return picture(self.name, self.roots)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows: a picture where it can, else the tree of `describe`."""
        return {"text/plain": self.describe(), "text/html": self._repr_html_()}

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"Topology({self.name!r}, sinks={[sink.subject for sink in self.sinks]}, stores={list(self._stores)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return (self.name, self._sinks, self._stores) == (other.name, other._sinks, other._stores)

    __hash__ = None  # type: ignore[assignment]  # it grows while it is declared

    def _add_sink(self, sink: Node) -> None:
        self._sinks.setdefault(sink)

    def _table(self, node: Node, store: str | None) -> Table:
        """A handle on a table; its store, if it was named, is kept up to date even if the handle is not used."""
        if store is None:
            return Table(node, self)
        taken = self._stores.setdefault(store, node)
        if taken != node:
            raise TopologyError(f"there is a store {store!r} already, declared at {taken.at}; expected another name", node.at)
        return Table(node, self)


def _schema(schema: str | Schema | None) -> Schema | None:
    return None if schema is None else check_user_schema(Schema.parse(schema))


def _key(key: str | Iterable[str] | None) -> tuple[str, ...] | None:
    return (key,) if isinstance(key, str) else None if key is None else tuple(key)
