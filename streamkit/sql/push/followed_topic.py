"""A topic that a query reads as long as it goes on: from where, and until the topic is another one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.errors import SchemaError, TopicNotFoundError
from streamkit.log.log import Log
from streamkit.sql.execution.session_settings import LATEST


class FollowedTopic:
    """
    The records of a topic, from the earliest or latest ones of this moment on, which is decided when it is made, and not at the first look.

    A topic that gets the name later is another one, whose records are never among them. For one thread.
    """

    def __init__(self, log: Log, topic: str, begin: str, columns: Sequence[str]) -> None:
        self._log, self._topic, self._columns = log, log.topic(topic), columns
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
            self._check_same()  # a topic of the same name may have other columns
            raise
        self._check_same()  # behind the look, so that its records are those of this topic
        return table

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()

    def _check_same(self) -> None:
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
            return
        for one in begun.schema:
            if one.name in self._columns and (one.name not in now.schema or now.schema[one.name].type != one.type):
                new = now.schema[one.name].type if one.name in now.schema else "gone"
                raise SchemaError(
                    f"the column {one.name} of the topic {begun.name} is {new} now, and was {one.type}; the query that reads it has ended: ask it "
                    "again"
                )
