"""What the members of groups in a siege do: read, write down what they were given, and commit, plainly or in transactions."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from streamkit.errors import FencedError
from streamkit.log.consume.consumer import Consumer
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from tests.harness.history.programs import TOPICS, plant
from tests.kit.history import Committed, Journal, Took, copies_of, create_copies, now_ns, taken

COUNTERS, COPIERS = "counters", "copiers"
COPIES = "copies"
SESSION_MS = 700  # shorter than the longest pause
POLL_RECORDS_MAX = 25
POLL_SECONDS = 0.05


def create_topics(log: Log) -> None:
    create_copies(log, COPIES)


def consume(root: str, group: str, number: int, life: int, bug: str | None = None) -> None:
    """Be a member of a group until SIGTERM."""
    plant(bug)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    folder, member = Path(root), f"{group}-{number}-{life:04d}"
    with (
        open_log(folder / "log") as log,
        log.producer() as producer,
        log.consumer(list(TOPICS), group=group, session_timeout_ms=SESSION_MS, max_poll_records=POLL_RECORDS_MAX) as consumer,
    ):
        journal = Journal(folder / "members" / f"{member}.jsonl")
        settle: Settle = commit_copies if group == COPIERS else lambda consumer, _producer, _rows: commit_plainly(consumer)
        while not stopped:
            _step(consumer, producer, journal, group, member, settle)


def _step(consumer: Consumer, producer: Producer, journal: Journal, group: str, member: str, settle: Settle) -> None:
    begun = now_ns()
    table = consumer.poll(POLL_SECONDS)
    if table is None:
        return
    rows = taken(group, member, table, begun)
    for took in rows:
        journal.took(took)
    try:
        committed = settle(consumer, producer, rows)
    except FencedError:
        return  # the next poll hears of it too
    ended = now_ns()
    for (topic, partition), offset in committed.items():
        journal.committed(Committed(group, member, topic, partition, offset, ended))


def commit_plainly(consumer: Consumer) -> dict[tuple[str, int], int]:
    """Commit the positions of a consumer; returns them."""
    return {(name.topic, name.partition): offset for name, offset in consumer.commit().items()}


def commit_copies(consumer: Consumer, producer: Producer, rows: list[Took]) -> dict[tuple[str, int], int]:
    """Commit copies of what was taken and the positions of the consumer in one transaction; returns the positions."""
    positions = {(name.topic, name.partition): offset for name, offset in consumer.position().items()}
    with producer.transaction():
        producer.send_batch(COPIES, copies_of(rows))
        producer.send_offsets(consumer)
    return positions


Settle = Callable[[Consumer, Producer, list[Took]], dict[tuple[str, int], int]]
