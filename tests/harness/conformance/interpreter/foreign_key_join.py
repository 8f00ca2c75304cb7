"""
Two tables joined by a key that the left row names.

The left side subscribes to a row of the right one, which answers now and whenever it changes. Both travel through topics; an answer
counts only if the left row is still the one that asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.harness.conformance.interpreter.internal_topics import InternalTopics
from tests.harness.conformance.interpreter.node import Node
from tests.harness.conformance.interpreter.record import Record, key_bytes
from tests.harness.conformance.interpreter.table import Table, value_of

Joiner = Callable[[Any, Any], Any]


class Request(NamedTuple):
    """What the left side asks a row of the right one: the left key and value, and what is to happen."""

    left_key: Any
    left_value: Any
    change: int
    subscribes: bool
    answers_with_row: bool = False
    answers_without: bool = False


class Answer(NamedTuple):
    """A row of the right side, and the left value for which it was asked."""

    left_value: Any
    right_value: Any
    change: int
    is_asked: bool


class ForeignKeyJoin(Node):
    """
    Its results go into a table source.

    With `takes_every_answer` an answer counts for the left row that asked for it. One that comes because the right row changes does
    not, if the left row has changed since, by the same record: that has a result of its own.
    """

    takes_every_answer = False

    def __init__(self, left: Table, right: Table, key: Callable[[Any], Any], joiner: Joiner, is_left: bool) -> None:
        super().__init__()
        self.left, self.right = left, right
        self.key = key
        self.joiner = joiner
        self.is_left = is_left
        self.subscriptions: dict[tuple[Any, Any], tuple[Any, int]] = {}
        self.changes: dict[Any, int] = {}  # of each left row, how many there were
        right.enable_old(True)
        left.enable_old(True)

    def connect(self, topics: InternalTopics) -> None:
        """Put the topics between the two sides, and listen to both tables."""
        self.ask = topics.create(self._answer)
        self.respond = topics.create(self._join)
        self.left.feed(self._receive_left)
        self.right.feed(self._receive_right)

    def _receive_left(self, record: Record) -> None:
        if record.key is None or (self.left.skips_older and not record.is_latest):
            return
        if record.value is None and record.old is None:
            return
        self.changes[record.key] = self.changes.get(record.key, 0) + 1
        send = self._send_left if self.is_left else self._send_inner
        send(record, self._key_of(record.old), self._key_of(record.value))

    def _key_of(self, value: Any) -> Any:
        return None if value is None else self.key(value)

    def _send_left(self, record: Record, before: Any, now: Any) -> None:
        """The row asks for the new foreign key, also for none, which is answered with nothing."""
        if before is not None and before != now:
            self._request(record, before, subscribes=False)
        self._request(record, now, subscribes=True, answers_with_row=True, answers_without=True)

    def _send_inner(self, record: Record, before: Any, now: Any) -> None:
        """A result that has lost its foreign key is deleted; one whose foreign key has changed may have to be."""
        if now is None:
            if before is not None:
                self._request(record, before, subscribes=False, answers_without=True)
            return
        has_moved = before is not None and before != now
        if has_moved:
            self._request(record, before, subscribes=False)
        self._request(record, now, subscribes=True, answers_with_row=True, answers_without=has_moved)

    def _request(self, record: Record, foreign_key: Any, **how: bool) -> None:
        self.ask(Record(foreign_key, Request(record.key, record.value, self.changes[record.key], **how), record.timestamp))

    def _answer(self, record: Record) -> None:
        request: Request = record.value
        if record.key is not None:
            self._subscribe(record, request)
        row = None if record.key is None else self.right.get(record.key)
        timestamp = record.timestamp if row is None else max(record.timestamp, row.timestamp)
        value = value_of(row) if request.answers_with_row else None
        if request.answers_without or value is not None:
            self.respond(Record(request.left_key, Answer(request.left_value, value, request.change, True), timestamp))

    def _subscribe(self, record: Record, request: Request) -> None:
        if request.subscribes:
            self.subscriptions[record.key, request.left_key] = request.left_value, request.change
        else:
            self.subscriptions.pop((record.key, request.left_key), None)

    def _receive_right(self, record: Record) -> None:
        if record.key is None or (self.right.skips_older and not record.is_latest):
            return
        asking = [(left_key, *row) for (key, left_key), row in self.subscriptions.items() if key == record.key]
        for left_key, value, change in sorted(asking, key=lambda one: key_bytes(one[0])):
            self.respond(Record(left_key, Answer(value, record.value, change, False), record.timestamp))

    def _join(self, record: Record) -> None:
        answer: Answer = record.value
        left = answer.left_value
        if self._is_stale(record.key, answer):
            return
        has_result = left is not None and (self.is_left or answer.right_value is not None)
        result = self.joiner(left, answer.right_value) if has_result else None
        self.forward(Record(record.key, result, record.timestamp))

    def _is_stale(self, left_key: Any, answer: Answer) -> bool:
        """Whether an answer does not count, because the left row has changed in the meantime."""
        now = value_of(self.left.get(left_key))
        if not self.takes_every_answer:
            return bool(answer.left_value != now)
        if answer.is_asked or answer.change == self.changes[left_key]:
            return False
        is_deleted = answer.right_value is None and not self.is_left  # the changed row gives nothing if it names the same key
        return not is_deleted or self._key_of(now) != self._key_of(answer.left_value)
