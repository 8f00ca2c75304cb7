"""Queries that are run once over topics, for tests of what they give."""

from __future__ import annotations

import streamkit as sk
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.pull.execution import PullExecution
from streamkit.sql.pull.matching import Matching
from streamkit.sql.pull.planning import planned
from streamkit.sql.pull.reading import PullReader
from streamkit.sql.pull.relation import PullRelation
from streamkit.sql.pull.source import StoreRows, TopicRows


class TopicRelations:
    """The topics of a log: those with a compacted key are tables, others are streams; and sources by name beside them."""

    def __init__(self, log, **others):
        self.log, self.others = log, others

    def relation(self, name):
        if name in self.others:
            source = self.others[name]
            rows = sk.Topology("rows").table("rows", schema=source.schema, key=source.key)
            return PullRelation(rows, source)
        if name not in self.log.topics():
            return None
        topic = self.log.topic(name)
        declare = sk.Topology("rows").table if topic.is_compacted else sk.Topology("rows").stream
        source = TopicRows(name, topic.schema, topic.key, not topic.is_compacted)
        return PullRelation(declare(name, schema=topic.schema, key=topic.key), source)

    def names(self):
        return [*self.log.topics(), *self.others]


class Pulled:
    """Runs queries over a log, with what they keep between them."""

    def __init__(self, log, **others):
        self.relations = TopicRelations(log, **others)
        self.reader = PullReader(log)
        self.matching = Matching()

    def plan(self, query):
        return planned(query, self.relations, ScriptText(""))

    def table(self, query):
        """The result as a table."""
        plan = self.plan(query)
        inputs = self.reader.read(list(plan.inputs()))
        return PullExecution(self.matching).rows(plan, iter(inputs))

    def rows(self, query):
        """The result as tuples."""
        return [tuple(row.values()) for row in self.table(query).to_pylist()]

    def paths(self, query):
        """How its inputs are found, in words."""
        return [path.text() for path in self.reader.paths(list(self.plan(query).inputs()))]


def store_rows(view, steps=()):
    """A store as a source of queries."""
    from streamkit.schema import Schema

    return StoreRows(view.application, view.store.name, Schema.parse(view.schema), view.key.names, steps)
