"""
The catalog: the transactional authority on topics, manifest, applications, producers and consumer groups.

Every method is one transaction. Only drivers and clients open it; tasks get what they need by plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from streamkit.clock import Clock, SystemClock
from streamkit.log.catalog import (
    applications,
    cleaning,
    epochs,
    group_description,
    groups,
    history,
    identity,
    manifest,
    partition_statistics,
    pins,
    producers,
    replacements,
    retention,
    span,
    tables,
    topic_description,
    topics,
)
from streamkit.log.catalog.applications import ApplicationState, StoreDeclaration
from streamkit.log.catalog.cleaning import Cleaning
from streamkit.log.catalog.epochs import EpochCommit, EpochRecord
from streamkit.log.catalog.group_description import GroupDescription
from streamkit.log.catalog.groups import GroupCommit, Member, MemberStanding
from streamkit.log.catalog.history import Standing
from streamkit.log.catalog.journal import Journal, prune
from streamkit.log.catalog.manifest import OffsetsByTopicId
from streamkit.log.catalog.partition_statistics import PartitionStatistics
from streamkit.log.catalog.producers import ProducerCommit, ProducerState, Ranges
from streamkit.log.catalog.replacements import Replacement
from streamkit.log.catalog.retention import Head, Trim, Trimmed
from streamkit.log.catalog.span import UNBOUNDED, GivenOffsets, ManifestSlice, Span
from streamkit.log.catalog.transactions import Transactions
from streamkit.log.catalog.writers import Writers, writers
from streamkit.log.database.database import Database, Transaction
from streamkit.log.slab.extent import Extent
from streamkit.log.storage import replication
from streamkit.log.storage.replication import Replication
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.topic import Topic, TopicIdPartition

Result = TypeVar("Result")


class Catalog:
    """Topics, manifest, applications and producers of one log; see the module of each noun for what its methods check."""

    def __init__(self, database: Database, clock: Clock | None = None, journal: Journal | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()
        self._transactions = Transactions(database, self._clock, journal)
        tables.prepare(database)

    def close(self) -> None:
        """Close the database, and the journal if there is one."""
        self._transactions.close()

    @property
    def database(self) -> Database:
        """What the catalog is kept in."""
        return self._database

    def standing(self) -> Standing:
        """Which log this is the catalog of, and how many transactions have changed it."""
        return self._read(history.standing)

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        """What `work` finds, all of it in one snapshot; it may run again where the server is lost."""
        return self._read(work)

    def prune_journal(self, root: str, covered: tuple[int, int]) -> tuple[str, ...]:
        """Delete the journal files of the log at `root` whose commits all lie at or before `covered`; returns their paths."""
        return self._write(lambda _: prune(root, covered))

    def claim_storage(self, storage: Storage) -> None:
        """Pair the log with its storage at the first time, check the pair later; ConfigError if the two do not belong together."""
        if not self._read(lambda transaction: identity.is_claimed(transaction, storage)):
            self._write(identity.give)
            self._write(lambda transaction: identity.claim(transaction, storage))

    def identity(self) -> str | None:
        """The token that marks the log's storage; None for a log whose catalog is in it."""
        return self._read(identity.claimed_token)

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

    def topic_by_id(self, topic_id: int, name: str | None = None) -> Topic:
        """The topic of that id; TopicNotFoundError if it was deleted, which names it if the caller still knows its name."""
        return self._read(lambda transaction: topics.get_by_id(transaction, topic_id, name))

    def describe_topic(self, name: str) -> dict[str, Any]:
        """What a topic is and how much it holds; TopicNotFoundError, which lists those that exist, if there is none of that name."""
        return self._read(lambda transaction: topic_description.describe(transaction, name))

    def topics(self) -> list[Topic]:
        """All topics, internal ones too, by name."""
        return self._read(topics.every)

    def alter_topic(self, name: str, alteration: Alteration) -> Topic:
        """Change a topic, and return it as it is then; ConfigError or SchemaError if the change is not allowed."""
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

    def offset_bounds(self, topic_ids: Iterable[int]) -> dict[TopicIdPartition, tuple[int, int]]:
        """One snapshot: the earliest and the next offset of each partition of the topics; nothing of a topic that does not exist."""
        return self._read(lambda transaction: manifest.offset_bounds(transaction, topic_ids))

    def extents(self, topic_id: int, partition: int, start_offset: int = 0, end_offset: int | None = None) -> list[Extent]:
        """The extents that hold offsets from `start_offset` to before `end_offset`, by offset; CorruptionError if some were lost."""
        return self._read(lambda transaction: span.whole_extents(transaction, topic_id, partition, start_offset, end_offset))

    def parts(self, topic_id: int, partition: int) -> list[list[Extent]]:
        """All extents of a partition; several lists where a damaged catalog has lost offsets between them."""
        return self._read(lambda transaction: span.parts(transaction, topic_id, partition))

    def span(self, topic_id: int, partition: int, start_offset: int, end_offset: int, limit: int) -> Span:
        """One snapshot: the first `limit` extents that hold offsets of a range, and the earliest offset of the partition."""
        return self._read(lambda transaction: span.span(transaction, topic_id, partition, start_offset, end_offset, limit))

    def first_extent_since(self, topic_id: int, partition: int, timestamp_ms: int, start_offset: int = 0) -> Extent | None:
        """The first extent from an offset on that has a row with that time or a later one, if there is one."""
        return self._read(
            lambda transaction: span.first_extent_since(transaction, topic_id, partition, timestamp_ms, start_offset)
        )

    def extents_of(self, topic_ids: Iterable[int], since: GivenOffsets, until: GivenOffsets = UNBOUNDED) -> ManifestSlice:
        """One snapshot: the extents of the topics from the offsets `since` to before `until`, and all ends; see `span.cut`."""
        return self._read(lambda transaction: span.cut(transaction, topic_ids, since, until))

    def statistics(self, topic_id: int) -> tuple[PartitionStatistics, ...]:
        """The figures of each partition of a topic."""
        return self._read(lambda transaction: partition_statistics.of_partitions(transaction, topic_id, self._clock.now_ms()))

    def referenced_slabs(self, writer: str | None = None) -> set[str]:
        """The paths of all slabs, or of those of a writer, that the manifest refers to, and of those in the trash."""
        return self._read(lambda transaction: manifest.referenced(transaction, writer))

    def purged_below(self, topic_ids: Iterable[int]) -> OffsetsByTopicId:
        """By topic and partition, the offset below which deletions have left, where some have."""
        return self._read(lambda transaction: {topic_id: manifest.purged_below(transaction, topic_id) for topic_id in topic_ids})

    def replace_extents(self, replacement: Replacement) -> tuple[Extent, ...]:
        """Put what maintenance wrote in the place of what it read, or raise and leave everything as it was."""
        return self._commit(
            lambda transaction: replacements.commit_stamped(transaction, replacement, self._clock.now_ms()),
            lambda transaction: replacements.is_committed(transaction, replacement),
        )

    def cleaning(self, topic: Topic, partition: int) -> Cleaning:
        """How far compaction has come in a partition of a topic."""
        return self._read(lambda transaction: cleaning.of(transaction, topic, partition, self._clock.now_ms()))

    def record_cleaning(self, before: Cleaning, cleaned_offset: int, horizon: tuple[int, int] | None) -> None:
        """Note the end of a compaction's pass over a partition, and its horizon (offset, time in ms) if it moves."""
        self._write(lambda transaction: cleaning.record(transaction, before, cleaned_offset, horizon))

    def trim(self, request: Trim, lapsed: Collection[str] = frozenset()) -> Trimmed:
        """Drop the oldest extents of a partition as far as nobody needs them; `lapsed` are holders known to be gone."""
        return self._write(lambda transaction: retention.trim(transaction, request, lapsed, self._clock.now_ms()))

    def floors(self, topic_id: int, partition: int, lapsed: Collection[str]) -> dict[str, int]:
        """Who needs a partition, and from which offset on; see `trim`."""
        return self._read(lambda transaction: retention.floors(transaction, topic_id, partition, lapsed))

    def head(self, topic_id: int, partition: int) -> Head:
        """The oldest extents of a partition, for retention to judge."""
        return self._read(lambda transaction: retention.head(transaction, topic_id, partition))

    def holders(self) -> frozenset[str]:
        """The names under which applications and pins beat, alive or not."""
        return self._read(retention.holders)

    def pin(self, token: str, starts: pins.Starts) -> OffsetsByTopicId:
        """Keep rows from these offsets on (None: all that are left); returns the offsets, or OffsetOutOfRangeError if some are gone."""
        return self._write(lambda transaction: pins.insert(transaction, token, starts))

    def unpin(self, tokens: Sequence[str]) -> None:
        """Release pins; unknown ones are not an error."""
        self._write(lambda transaction: pins.remove(transaction, tokens))

    def trash(self, dropped_before_ms: int) -> list[str]:
        """The paths of the slabs that have been in the trash since before that time."""
        return self._read(lambda transaction: manifest.trash(transaction, dropped_before_ms))

    def forget_trash(self, paths: Sequence[str]) -> None:
        """Take paths out of the trash, after their files were deleted."""
        self._write(lambda transaction: manifest.forget_trash(transaction, paths))

    def slabs(self, among: Collection[str] | None = None) -> list[str]:
        """The paths of all slabs that the manifest refers to, or of those among some, sorted."""
        return self._read(lambda transaction: manifest.slabs(transaction, among))

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
        program: str | None = "",
        inputs: Mapping[int, bool] | None = None,
        dropped: Collection[str] = (),
        compared: str | None = None,
        stale_times: Collection[str] = (),
        shifted_times: Mapping[str, int] | None = None,
    ) -> ApplicationState:
        """Begin a new generation of an application, which fences all older ones, and return its state."""
        return self._write(
            lambda transaction: applications.start(
                transaction,
                name,
                tasks=tasks,
                default_tasks=default_tasks,
                key_groups=key_groups,
                program_hash=program_hash,
                program=program,
                stores=stores,
                inputs=inputs or {},
                now_ms=self._clock.now_ms(),
                dropped=dropped,
                compared=compared,
                stale_times=stale_times,
                shifted_times=shifted_times,
            )
        )

    def application(self, name: str) -> ApplicationState:
        """The state of an application; ConfigError, which lists those that exist, if there is none of that name."""
        return self._read(lambda transaction: applications.get(transaction, name))

    def application_turn(self, name: str) -> tuple[int, int]:
        """The newest generation of an application, and its last committed epoch; ConfigError as `application`."""
        return self._read(lambda transaction: applications.turn(transaction, name))

    def application_inputs(self, application_id: int) -> frozenset[int]:
        """The ids of the topics that an application's newest generation was started on, also of those that were deleted since."""
        return self._read(lambda transaction: applications.inputs_of(transaction, application_id))

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
            lambda transaction: epochs.commit_stamped(transaction, epoch, self._clock.now_ms()),
            lambda transaction: epochs.token_of(transaction, epoch.application_id, epoch.epoch) == epoch.token,
        )

    def committed_token(self, application_id: int, epoch: int) -> str | None:
        """The token under which an epoch was committed; None if it was not."""
        return self._read(lambda transaction: epochs.token_of(transaction, application_id, epoch))

    def epoch_tokens(self, application_id: int, since: int = 0) -> dict[int, str]:
        """The tokens of the committed epochs from `since` on that are remembered, by epoch."""
        return self._read(lambda transaction: epochs.tokens_since(transaction, application_id, since))

    def generation_start(self, application_id: int) -> tuple[int, str]:
        """The first epoch of the generation that committed the newest one, and its token."""
        return self._read(lambda transaction: epochs.generation_start(transaction, application_id))

    def epochs(self, application_id: int, last: int = 100) -> list[EpochRecord]:
        """The last committed epochs, oldest first."""
        return self._read(lambda transaction: epochs.last(transaction, application_id, last))

    # Producers

    def open_producer(self, name: str | None) -> ProducerState:
        """Open a producer: a new one without a name, or that of the name, whose older instances are fenced by it."""
        return self._write(lambda transaction: producers.open_producer(transaction, name, self._clock.now_ms()))

    def find_producer(self, name: str) -> ProducerState | None:
        """The producer of that name as it stands, if there is one; nobody is fenced."""
        return self._read(lambda transaction: producers.of_name(transaction, name))

    def retire_silent_producers(self, silent_ms: int) -> None:
        """Fence the producers without a name that were silent for so long; forget those that have been fenced for as long again."""
        now_ms = self._clock.now_ms()
        self._write(lambda transaction: producers.retire_silent(transaction, now_ms - silent_ms, now_ms))

    def writers(self) -> Writers:
        """Where every application and every producer stands."""
        return self._read(writers)

    def commit_batches(self, batch: ProducerCommit) -> tuple[Extent, ...]:
        """Make what a producer wrote visible, or raise and leave everything as it was; returns the new extents."""
        now_ms = self._clock.now_ms()
        return self._commit(
            lambda transaction: manifest.stamped(transaction, producers.commit(transaction, batch, now_ms), batch.slabs, now_ms),
            lambda transaction: producers.is_committed(transaction, batch),
        )

    def last_sequence(self, producer_id: int, topic_id: int) -> int | None:
        """The newest sequence that a producer committed to a topic, if any."""
        return self._read(lambda transaction: producers.last_sequence(transaction, producer_id, topic_id))

    def sequence_offsets(self, producer_id: int, topic_id: int, sequence: int) -> Ranges | None:
        """The offsets that a sequenced batch got, if they are remembered; ConfigError if its number was left out."""
        return self._read(lambda transaction: producers.offsets_of(transaction, producer_id, topic_id, sequence))

    # Consumer groups

    def join_group(self, group: str, member: Member, dead: Iterable[str] = (), *, former_id: str | None = None) -> None:
        """Add a member to a group, remove those that are dead, and assign the partitions again."""
        self._write(lambda transaction: groups.join(transaction, group, member, dead, former_id=former_id))

    def rebalance_group(self, group: str, gone: Iterable[str] = ()) -> None:
        """Remove members that leave or are dead, and assign the partitions of the topics again."""
        self._write(lambda transaction: groups.rebalance(transaction, group, gone))

    def release_partitions(self, group: str, member_id: str, places: Iterable[TopicIdPartition]) -> None:
        """Hand partitions of a member to those that are to have them."""
        self._write(lambda transaction: groups.release(transaction, group, member_id, places))

    def member_standing(self, group: str, member_id: str, seen: int | None = None) -> MemberStanding | None:
        """What a member owns, unless the group is still at the generation `seen`; None if it is not a member."""
        return self._read(lambda transaction: groups.standing(transaction, group, member_id, seen))

    def sessions(self, group: str) -> dict[str, int]:
        """The session time-out of each member of a group, by its id."""
        return self._read(lambda transaction: groups.sessions(transaction, group))

    def lacks_partitions(self, group: str) -> bool:
        """Whether a topic that a member of the group subscribes to has partitions that nobody was given."""
        return self._read(lambda transaction: groups.lacks_partitions(transaction, group))

    def commit_offsets(self, commit: GroupCommit) -> None:
        """Commit offsets for a group, all or none; MembershipLostError if the member does not own every partition."""
        self._commit(
            lambda transaction: groups.commit_offsets(transaction, commit, self._clock.now_ms()),
            lambda transaction: groups.is_committed(transaction, commit),
        )

    def committed_offsets(self, group: str) -> OffsetsByTopicId:
        """What a group has committed, by topic id and partition."""
        return self._read(lambda transaction: groups.committed_offsets(transaction, group))

    def groups(self) -> list[str]:
        """The names of all groups, sorted."""
        return self._read(groups.names)

    def describe_group(self, group: str) -> GroupDescription:
        """Members, owners, committed offsets and lag of a group; ConfigError if there is none of that name."""
        return self._read(lambda transaction: group_description.describe(transaction, group))

    def reset_group(self, group: str, offsets: OffsetsByTopicId, dead: Iterable[str] = ()) -> None:
        """Commit offsets for a group whose members, if any, are all dead; FencedError otherwise."""
        self._write(lambda transaction: groups.reset(transaction, group, offsets, dead, self._clock.now_ms()))

    def delete_group(self, group: str, dead: Iterable[str] = ()) -> None:
        """Forget a group whose members, if any, are all dead; FencedError otherwise."""
        self._write(lambda transaction: groups.delete(transaction, group, dead))

    # Transactions

    def _read(self, work: Callable[[Transaction], Result]) -> Result:
        return self._transactions.read(work)

    def _write(self, work: Callable[[Transaction], Result]) -> Result:
        return self._transactions.write(work)

    def _commit(self, work: Callable[[Transaction], Result], is_done: Callable[[Transaction], bool]) -> Result:
        return self._transactions.commit(work, is_done)
