"""What a stream explodes in its newest step, for queries that compute it at once."""

from __future__ import annotations

from streamkit.dsl.stream import Stream
from streamkit.plan.analysis import Analyzer
from streamkit.plan.explosion import Explosion
from streamkit.plan.operators.explode import ExplodeNode
from streamkit.schema import Schema


def explosion_of(rows: Stream, schema: Schema, analyzer: Analyzer) -> Explosion:
    """The explosion over rows of a schema; TopologyError unless it is one of an array or a map."""
    node = rows.node
    assert isinstance(node, ExplodeNode), "which is the step that was added"
    ((_, value),) = analyzer.project(schema, [("value", node.expression)], node.at)
    node.types_of(value)
    return Explosion(value, node.names, node.outer, node.position)
