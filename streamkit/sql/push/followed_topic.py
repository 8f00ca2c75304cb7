"""A topic that a query reads as long as it goes on: from where, and until the topic is another one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.errors import SchemaError, TopicNotFoundError
from streamkit.formats.former_values import former_values
from streamkit.log.log import Log
from streamkit.log.topic.formats import VALUE
from streamkit.log.topic.topic import Topic
from streamkit.sql.execution.session_settings import LATEST


class FollowedTopic:
    """
    The records of a topic, from the earliest or latest ones of this moment on, which is decided when it is made, and not at the first look.

    Values under a schema that the topic got since then come as they would have been before, but for who `reads_newest`, by the topic's schema then.

    A topic that gets the name later is another one, whose records are never among them. For one thread.
    """

    def __init__(self, log: Log, topic: str, begin: str, columns: Sequence[str], *, reads_newest: bool = False) -> None:
        self._log, self._topic, self._columns = log, log.topic(topic), columns
        self._reads_newest = reads_newest
        self._consumer = log.consumer(topic, auto_offset_reset=begin, columns=columns)
        if begin == LATEST:
            self._consumer.poll(0.0)  # it gets its partitions by its first look, and finds nothing at their ends

    def poll(self, timeout_s: float) -> pa.Table | None:
        """
        The next records; None if none came in time.

        TopicNotFoundError once the topic is deleted, whether another one has its name or not; SchemaError once a column that is read has another
        type.
        """
        try:
            table = self._consumer.poll(timeout_s)
        except Exception:
            self._checked()  # a topic of the same name may have other columns
            raise
        now, begun = self._checked().format, self._topic.format  # behind the look, so that its records are those of this topic
        if table is None or now is None or begun is None or now == begun or self._reads_newest or VALUE not in table.column_names:
            return table
        values = former_values(table.column(VALUE), now, begun)
        return table.set_column(table.schema.get_field_index(VALUE), VALUE, values)

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()

    def _checked(self) -> Topic:
        """The topic as it is now, which is still the same."""
        topics, begun = self._log.catalog.topics, self._topic
        try:
            now = topics.get_by_id(begun.id, begun.name)
        except TopicNotFoundError:
            is_gone = topics.find(begun.name) is None
            raise TopicNotFoundError(
                f"the topic {begun.name} was deleted, and {'there is none of that name now' if is_gone else 'a new one has its name'}; the query that "
                "reads it has ended, because its rows would be those of two topics: ask it again, once the topic is there"
            ) from None
        if now.schema == begun.schema:
            return now
        for one in begun.schema:
            if one.name in self._columns and (one.name not in now.schema or now.schema[one.name].type != one.type):
                new = now.schema[one.name].type if one.name in now.schema else "gone"
                raise SchemaError(
                    f"the column {one.name} of the topic {begun.name} is {new} now, and was {one.type}; the query that reads it has ended: ask it "
                    "again"
                )
        return now
