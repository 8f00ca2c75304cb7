"""A query that goes on over one stream, each record by itself: a consumer, and the same expressions as anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_batch
from streamkit.data_type import to_arrow
from streamkit.errors import EvaluationError, Location
from streamkit.expressions.analysis.arrow import mask
from streamkit.log.log import Log
from streamkit.names import DELETED
from streamkit.sql.pull.execution import computed, failing_at
from streamkit.sql.pull.input import PullInput
from streamkit.sql.pull.plan import PullPlan
from streamkit.sql.pull.reading import read_names
from streamkit.sql.pull.source import TopicRows
from streamkit.sql.push.followed_topic import FollowedTopic


class PassingRows:
    """
    The rows of a plan that reads one stream and looks at each record alone, as records come. For one thread.

    `leaves_out_failing`: a record that makes an expression fail gives no row, and is no end of the query.
    """

    def __init__(self, log: Log, plan: PullPlan, offset_reset: str, at: Location, *, leaves_out_failing: bool = False) -> None:
        assert plan.side is not None, "a query that goes on reads a stream"
        assert isinstance(plan.side.read, PullInput), "and no other query"
        assert isinstance(plan.side.read.source, TopicRows), "and a topic"
        self._plan, self._input, self._source = plan, plan.side.read, plan.side.read.source
        self._at, self._leaves_out_failing = at, leaves_out_failing
        self._names = read_names(self._input)
        stored = self._source.stored(self._names)
        self._consumer = FollowedTopic(log, self._source.topic, offset_reset, stored)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the query."""
        return pa.schema([(name, to_arrow(one.type)) for name, one in self._plan.columns])

    def step(self, timeout_s: float) -> pa.RecordBatch | None:
        """The rows of the next records; one without rows if none of them is wanted."""
        table = self._consumer.poll(timeout_s)
        if table is None:
            return None
        with failing_at(self._at, self._plan.parts):
            batches = [made for batch in table.to_batches() for made in self._made_of_sound(batch)]
        return one_batch(pa.Table.from_batches(batches, self.schema))

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()

    def _made_of_sound(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The rows of a batch, in halves where a record fails that is to be left out, down to the record."""
        try:
            return [self._made(batch)]
        except EvaluationError:
            if not self._leaves_out_failing:
                raise
        half = batch.num_rows // 2
        return [] if not half else [*self._made_of_sound(batch.slice(0, half)), *self._made_of_sound(batch.slice(half))]

    def _made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._source.columns(batch, self._names)
        rows = rows.filter(pc.invert(rows.column(DELETED)))
        if self._input.condition is not None:
            with failing_at(self._plan.where_at, self._plan.parts):
                rows = rows.filter(mask(self._input.condition, rows))
        own = dict(self._plan.side.names) if self._plan.side is not None else {}
        named = pa.RecordBatch.from_arrays([rows.column(name) for name in own], names=[own[name] for name in own])
        found = computed(self._plan.columns, named, self._plan.places, self._plan.parts)
        return pa.RecordBatch.from_arrays(list(found.values()), schema=self.schema)


def is_passing(plan: PullPlan) -> bool:
    """Whether a plan looks at each record of one stream alone."""
    read = None if plan.side is None else plan.side.read
    is_stream = isinstance(read, PullInput) and isinstance(read.source, TopicRows) and read.source.is_stream
    others: Sequence[object] = (plan.joins, plan.groups, plan.order, plan.is_distinct, plan.explosion, plan.where)
    return is_stream and not any(others)
