"""Offsets of a consumer group in Kafka, so that its tools show how far a connector is; nothing else depends on them."""

from __future__ import annotations

import time
from collections.abc import Mapping

from streamkit.connectors.kafka.batch_client import BatchClient, KafkaPartition, Reply
from streamkit.connectors.kafka.broker_error import PASSING
from streamkit.errors import StreamKitError

CLOSE_SECONDS = 1.0
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.05, 10.0  # before a coordinator that is not there is looked for again


class GroupOffsets:
    """Commits offsets while others wait for records: one question at a time, whose answer the next call looks at."""

    def __init__(self, client: BatchClient, group: str) -> None:
        self._client = client
        self._name = group
        self._waiting: dict[KafkaPartition, int] = {}
        self._sent: dict[KafkaPartition, int] = {}
        self._reply: Reply | None = None
        self._coordinator: int | None = None
        self._rests_until = 0.0
        self._pause_seconds = PAUSE_SECONDS

    def commit(self, offsets: Mapping[KafkaPartition, int]) -> None:
        """Show these offsets, sooner or later."""
        self._waiting |= offsets
        self.serve()

    def serve(self) -> None:
        """Take the answer to the last question if it is there, and ask the next one."""
        if self._reply is not None and self._reply.is_done:
            self._hear(self._reply)
        if self._reply is not None or not self._waiting or time.monotonic() < self._rests_until:
            return
        if self._coordinator is None:
            self._reply = self._client.ask_for_coordinator(self._name)
        else:
            self._sent, self._waiting = self._waiting, {}
            self._reply = self._client.commit_offsets(self._coordinator, self._name, self._sent)

    def _hear(self, reply: Reply) -> None:
        self._reply, sent, self._sent = None, self._sent, {}
        try:
            answer = reply.take()
        except StreamKitError:  # whoever reads hears it, too
            answer = None
        if answer is not None and self._coordinator is None:
            self._coordinator = self._client.coordinator(answer)
        elif answer is None or PASSING.intersection(self._client.committed_codes(answer)):
            self._coordinator, self._waiting = None, sent | self._waiting
        else:  # taken, or refused as it would be the next time
            self._pause_seconds = PAUSE_SECONDS
        if self._coordinator is None:
            self._rests_until = time.monotonic() + self._pause_seconds
            self._pause_seconds = min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)

    def close(self) -> None:
        """Wait a moment until the last offsets are there."""
        deadline = time.monotonic() + CLOSE_SECONDS
        self.serve()
        while (self._reply is not None or self._waiting) and time.monotonic() < deadline:
            reply = self._reply
            self._client.wait(lambda: reply is not None and reply.is_done, deadline if reply else self._rests_until)  # noqa: B023
            self.serve()
