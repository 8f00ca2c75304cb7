"""
The catalog: the transactional authority on topics, manifest, applications and producers.

Every method is one transaction. Only drivers and clients open it; tasks get what they need by plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from streamkit.clock import Clock, SystemClock
from streamkit.errors import StreamKitError
from streamkit.failpoints import reach
from streamkit.log import applications, cleaning, epochs, identity, manifest, producers, replacements, replication, tables, topics
from streamkit.log.alteration import Alteration
from streamkit.log.applications import ApplicationState, StoreDeclaration
from streamkit.log.cleaning import Cleaning
from streamkit.log.database import ConnectionLostError, Database, OutcomeUnknownError, Transaction
from streamkit.log.epochs import EpochCommit, EpochRecord
from streamkit.log.extent import Extent
from streamkit.log.manifest import ManifestSlice, Offsets
from streamkit.log.producers import ProducerCommit, ProducerState, Ranges
from streamkit.log.replacements import Replacement
from streamkit.log.replication import Replication
from streamkit.log.storage import Storage
from streamkit.log.topic import Topic
from streamkit.log.topics import SchemaVersion

Result = TypeVar("Result")


class Catalog:
    """Topics, manifest, applications and producers of one log; see the module of each noun for what its methods check."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()
        tables.prepare(database)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def claim_storage(self, storage: Storage) -> None:
        """Pair the log with its storage at the first time, check the pair later; ConfigError if the two do not belong together."""
        if not self._read(lambda transaction: identity.is_claimed(transaction, storage)):
            self._write(identity.give)
            self._write(lambda transaction: identity.claim(transaction, storage))

    # Topics

    def create_topic(self, topic: Topic) -> Topic:
        """Create a topic; the existing one if it was declared equally, else TopicExistsError."""
        return self._write(lambda transaction: topics.create(transaction, topic, self._clock.now_ms()))

    def topic(self, name: str) -> Topic:
        """The topic of that name; else TopicNotFoundError, which lists those that exist."""
        return self._read(lambda transaction: topics.get(transaction, name))

    def find_topic(self, name: str) -> Topic | None:
        """The topic of that name, if there is one."""
        return self._read(lambda transaction: topics.find(transaction, name))

    def topic_by_id(self, topic_id: int) -> Topic:
        """The topic of that id; TopicNotFoundError if it was deleted."""
        return self._read(lambda transaction: topics.get_by_id(transaction, topic_id))

    def topics(self) -> list[Topic]:
        """All topics, internal ones too, by name."""
        return self._read(topics.every)

    def schema_versions(self, topic_id: int) -> list[SchemaVersion]:
        """The schemas that a topic has had, oldest first."""
        return self._read(lambda transaction: topics.schema_versions(transaction, topic_id))

    def alter_topic(self, name: str, alteration: Alteration) -> Topic:
        """Change a topic, and return it as it is then; ConfigError or SchemaError for what is not allowed."""
        return self._write(lambda transaction: topics.alter(transaction, name, alteration, self._clock.now_ms()))

    def delete_topic(self, name: str) -> tuple[str, ...]:
        """Delete a topic; returns the slabs that nothing refers to any more, for the caller to delete."""
        return self._write(lambda transaction: topics.delete(transaction, name))

    # Manifest

    def end_offsets(self, topic_id: int) -> dict[int, int]:
        """The next offset of each partition of a topic."""
        return self._read(lambda transaction: manifest.end_offsets(transaction, topic_id))

    def start_offsets(self, topic_id: int) -> dict[int, int]:
        """The earliest offset of each partition of a topic that retention has left."""
        return self._read(lambda transaction: manifest.start_offsets(transaction, topic_id))

    def extents(self, topic_id: int, partition: int, start_offset: int = 0, end_offset: int | None = None) -> list[Extent]:
        """The extents that hold offsets from `start_offset` to before `end_offset`, by offset."""
        return self._read(lambda transaction: manifest.extents(transaction, topic_id, partition, start_offset, end_offset))

    def extents_of(
        self, topic_ids: Iterable[int], since: Mapping[int, Mapping[int, int]], limit: int | None = None
    ) -> ManifestSlice:
        """One snapshot: the extents of the topics from the offsets `since` on, at most `limit` a partition, and all ends."""
        return self._read(lambda transaction: manifest.cut(transaction, topic_ids, since, limit))

    def partition_sizes(self, topic_id: int) -> list[tuple[int, int, int, int, int]]:
        """Per partition: its number, first offset, next offset, rows and bytes."""
        return self._read(lambda transaction: manifest.partition_sizes(transaction, topic_id))

    def referenced_slabs(self, writer: str) -> set[str]:
        """The paths of all slabs of a writer that the manifest refers to."""
        return self._read(lambda transaction: manifest.referenced(transaction, writer))

    def purged_below(self, topic_ids: Iterable[int]) -> Offsets:
        """By topic and partition, the offset below which deletions have left, where some have."""
        return self._read(lambda transaction: {topic_id: manifest.purged_below(transaction, topic_id) for topic_id in topic_ids})

    def replace_extents(self, replacement: Replacement) -> tuple[Extent, ...]:
        """Put what maintenance wrote in the place of what it read, or raise and leave everything as it was."""
        return self._commit(
            lambda transaction: replacements.commit(transaction, replacement, self._clock.now_ms()),
            lambda transaction: replacements.is_committed(transaction, replacement),
        )

    def cleanings(self, topic_id: int) -> list[Cleaning]:
        """How far compaction has come in each partition of a topic."""
        return self._read(lambda transaction: cleaning.of(transaction, topic_id))

    def record_cleaning(self, before: Cleaning, cleaned_offset: int, horizon: tuple[int, int] | None) -> None:
        """Note the end of a compaction's pass over a partition, and its horizon (offset, time in ms) if it moves."""
        self._write(lambda transaction: cleaning.record(transaction, before, cleaned_offset, horizon))

    def trash(self, dropped_before_ms: int) -> list[str]:
        """The paths of the slabs that have been in the trash since before that time."""
        return self._read(lambda transaction: manifest.trash(transaction, dropped_before_ms))

    def forget_trash(self, paths: Sequence[str]) -> None:
        """Take paths out of the trash, after their files were deleted."""
        self._write(lambda transaction: manifest.forget_trash(transaction, paths))

    def slabs(self) -> list[str]:
        """The paths of all slabs that the manifest refers to, sorted."""
        return self._read(manifest.slabs)

    def check_manifest(self) -> tuple[str, ...]:
        """What is wrong with the manifest, in words; empty if offsets are dense and ends fit."""
        return self._read(manifest.check)

    # Replication

    def replication(self) -> Replication:
        """Over which storage roots the log's files are spread, and in how many copies."""
        return self._read(replication.get)

    def change_replication(self, changed: Replication) -> None:
        """Set the replication of the log."""
        self._write(lambda transaction: replication.change(transaction, changed))

    # Applications

    def start_application(
        self,
        name: str,
        *,
        tasks: int | None,
        default_tasks: int,
        key_groups: int,
        program_hash: str,
        stores: Sequence[StoreDeclaration],
        program: str = "",
    ) -> ApplicationState:
        """Begin a new generation of an application, which fences all older ones, and return its state."""
        return self._write(
            lambda transaction: applications.start(
                transaction, name, tasks=tasks, default_tasks=default_tasks, key_groups=key_groups,
                program_hash=program_hash, program=program, stores=stores, now_ms=self._clock.now_ms(),
            )
        )  # fmt: skip

    def application(self, name: str) -> ApplicationState:
        """The state of an application; ConfigError, which lists those that exist, if there is none of that name."""
        return self._read(lambda transaction: applications.get(transaction, name))

    def program(self, name: str) -> str:
        """The program of an application's newest generation, as JSON text."""
        return self._read(lambda transaction: applications.program_of(transaction, name))

    def applications(self) -> list[ApplicationState]:
        """The states of all applications, by name."""
        return self._read(applications.every)

    def reset_application(self, name: str) -> tuple[str, ...]:
        """Forget positions, stores and changelogs of an application; returns the slabs that nothing refers to any more."""
        return self._write(lambda transaction: applications.reset(transaction, name))

    def commit_epoch(self, epoch: EpochCommit) -> tuple[Extent, ...]:
        """
        Make an epoch visible, or raise and leave everything as it was; returns its extents.

        When the database fails inside the commit, its outcome is made final and read before this returns or raises; only if
        that fails too, OutcomeUnknownError leaves it open: commit the same epoch again, which does nothing twice.
        """
        return self._commit(
            lambda transaction: epochs.commit(transaction, epoch),
            lambda transaction: epochs.token_of(transaction, epoch.application_id, epoch.epoch) == epoch.token,
        )

    def committed_token(self, application_id: int, epoch: int) -> str | None:
        """The token under which an epoch was committed; None if it was not."""
        return self._read(lambda transaction: epochs.token_of(transaction, application_id, epoch))

    def epoch_tokens(self, application_id: int, since: int = 0) -> dict[int, str]:
        """The tokens of the committed epochs from `since` on, by epoch."""
        return self._read(lambda transaction: epochs.tokens_since(transaction, application_id, since))

    def epochs(self, application_id: int, last: int = 100) -> list[EpochRecord]:
        """The last committed epochs, oldest first."""
        return self._read(lambda transaction: epochs.last(transaction, application_id, last))

    # Producers

    def open_producer(self, name: str | None) -> ProducerState:
        """Open a producer: a new one without a name, or that of the name, whose older instances are fenced by it."""
        return self._write(lambda transaction: producers.open_producer(transaction, name))

    def commit_batches(self, batch: ProducerCommit) -> tuple[Extent, ...]:
        """Make what a producer wrote visible, or raise and leave everything as it was; returns the new extents."""
        return self._commit(
            lambda transaction: producers.commit(transaction, batch),
            lambda transaction: producers.is_committed(transaction, batch),
        )

    def last_sequence(self, producer_id: int, topic_id: int) -> int | None:
        """The newest sequence that a producer committed to a topic, if any."""
        return self._read(lambda transaction: producers.last_sequence(transaction, producer_id, topic_id))

    def sequence_offsets(self, producer_id: int, topic_id: int, sequence: int) -> Ranges | None:
        """The offsets that a sequenced batch got, if they are remembered."""
        return self._read(lambda transaction: producers.offsets_of(transaction, producer_id, topic_id, sequence))

    # Transactions

    def _read(self, work: Callable[[Transaction], Result]) -> Result:
        return self._run(self._database.read, work)

    def _write(self, work: Callable[[Transaction], Result]) -> Result:
        return self._run(self._database.write, work)

    def _run(self, begin: Callable[[], AbstractContextManager[Transaction]], work: Callable[[Transaction], Result]) -> Result:
        try:
            with begin() as transaction:
                return work(transaction)
        except ConnectionLostError:  # a server that was started again: nothing was committed
            with begin() as transaction:
                return work(transaction)

    def _commit(self, work: Callable[[Transaction], Result], is_done: Callable[[Transaction], bool]) -> Result:
        try:
            return self._write(work)
        except OutcomeUnknownError as unknown:
            reach("commit.outcome_unknown")
            if not self._settled(unknown, is_done) and not isinstance(unknown.reason, ConnectionLostError):
                raise unknown.reason from unknown
            return self._write(work)  # which finds it done, or does it on a new connection

    def _settled(self, unknown: OutcomeUnknownError, is_done: Callable[[Transaction], bool]) -> bool:
        try:
            self._database.settle()
            return self._read(is_done)
        except StreamKitError as failure:
            raise unknown from failure
