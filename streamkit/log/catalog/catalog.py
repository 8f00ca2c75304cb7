"""
The catalog: the transactional authority on topics, manifest, applications, producers and consumer groups.

Every verb is one transaction. Only drivers and clients open it; tasks get what they need by plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streamkit.clock import Clock, SystemClock
from streamkit.log.catalog import (
    applications,
    cleaning,
    epoch_trail,
    epochs,
    group_description,
    groups,
    history,
    identity,
    inline_slabs,
    manifest,
    partition_statistics,
    pins,
    producers,
    programs,
    replacements,
    retention,
    sql_changes,
    sql_queries,
    tables,
    topic_description,
    topics,
)
from streamkit.log.catalog import span as spans
from streamkit.log.catalog.journal import Journal, prune
from streamkit.log.catalog.noun import Noun, commits, reads, reads_now, writes, writes_now
from streamkit.log.catalog.transactions import Transactions
from streamkit.log.catalog.writers import writers as all_writers
from streamkit.log.database.commit_watch import CommitWatch
from streamkit.log.database.database import Database, Transaction
from streamkit.log.storage import replication as replications
from streamkit.log.storage.storage import Storage

Result = TypeVar("Result")


class CatalogTopics(Noun):
    """Topics, internal ones too."""

    create = writes_now(topics.create)
    get = reads(topics.get)
    find = reads(topics.find)
    get_by_id = reads(topics.get_by_id)
    describe = reads(topic_description.describe)
    every = reads(topics.every)
    alter = writes_now(topics.alter)
    delete = writes(topics.delete)


class CatalogInlineSlabs(Noun):
    """Slabs of small commits, whose bytes are in the catalog."""

    find = reads(inline_slabs.find)
    size = reads(inline_slabs.size)
    held_bytes = reads(inline_slabs.held_bytes)


class CatalogManifest(Noun):
    """Which slabs hold which offsets of each partition, and those that are about to be deleted."""

    end_offsets = reads(manifest.end_offsets)
    start_offsets = reads(manifest.start_offsets)
    offset_bounds = reads(manifest.offset_bounds)
    waiting_since_ms = reads(manifest.waiting_since_ms)
    purged_below = reads(manifest.purged_below)
    extents = reads(spans.whole_extents)
    parts = reads(spans.parts)
    span = reads(spans.span)
    first_extent_since = reads(spans.first_extent_since)
    cut = reads(spans.cut)
    statistics = reads_now(partition_statistics.of_partitions)
    slabs = reads(manifest.slabs)
    referenced = reads(manifest.referenced)
    replace = commits(replacements.commit, replacements.is_committed)
    flush = commits(replacements.commit_flush, replacements.is_flushed)
    inline_extents = reads(manifest.inline_extents)
    go_on_at = writes(manifest.go_on_at)
    trash = reads(manifest.trash)
    forget_trash = writes(manifest.forget_trash)
    check = reads(manifest.check)


class CatalogCleaning(Noun):
    """How far compaction has come in each partition."""

    of = reads_now(cleaning.of)
    record = writes(cleaning.record)


class CatalogRetention(Noun):
    """The oldest rows of each partition, and who still needs them."""

    head = reads(retention.head)
    holders = reads(retention.holders)
    floors = reads(retention.floors)
    expired_ms = reads(retention.expired_ms)
    begin_of_newer = reads(retention.begin_of_newer)
    begin_of_kept = reads(retention.begin_of_kept)
    trim = writes_now(retention.trim)


class CatalogPins(Noun):
    """What keeps rows for readers."""

    insert = writes(pins.insert)
    remove = writes(pins.remove)


class CatalogApplications(Noun):
    """Applications with their generations, positions and stores."""

    start = writes_now(applications.start)
    create_topic = writes_now(applications.create_topic)
    get = reads(applications.get)
    turn = reads(applications.turn)
    inputs_of = reads(applications.inputs_of)
    current_inputs = reads(applications.current_inputs)
    program_of = reads(applications.program_of)
    check_changelog = reads(applications.check_changelog)
    programs = reads(programs.started)
    every = reads(applications.every)
    reset = writes(applications.reset)
    remove = writes(applications.remove)
    hand_over = writes(applications.hand_over)
    lead = writes(applications.lead)


class CatalogEpochs(Noun):
    """The committed epochs of applications."""

    commit = commits(epochs.commit, epochs.is_committed)
    token_of = reads(epochs.token_of)
    tokens_since = reads(epochs.tokens_since)
    generation_start = reads(epochs.generation_start)
    last = reads(epochs.last)
    trail = reads(epoch_trail.trail_of)


class CatalogProducers(Noun):
    """Producers, and the sequences of those that have a name."""

    open = writes_now(producers.open_producer)
    find = reads(producers.find)
    retire_silent = writes_now(producers.retire_silent)
    commit = commits(producers.commit, producers.is_committed)
    last_sequence = reads(producers.last_sequence)
    offsets_of = reads(producers.offsets_of)


class CatalogGroups(Noun):
    """Consumer groups, with their members and what they have committed."""

    join = writes(groups.join)
    rebalance = writes(groups.rebalance)
    release = writes(groups.release)
    standing = reads(groups.standing)
    sessions = reads(groups.sessions)
    lacks_partitions = reads(groups.lacks_partitions)
    commit_offsets = commits(groups.commit_offsets, groups.is_committed)
    committed_offsets = reads(groups.committed_offsets)
    names = reads(groups.names)
    describe = reads(group_description.describe)
    reset = writes_now(groups.reset)
    delete = writes(groups.delete)


class CatalogSql(Noun):
    """Streams, tables, types and persistent queries of SQL."""

    objects = reads(sql_changes.objects)
    last_number = reads(sql_changes.last_number)
    commit = commits(sql_changes.commit, sql_changes.is_committed)
    note_failure = writes(sql_queries.note_failure)


class Catalog(Noun):
    """What is on record about one log: a noun for each kind of thing, with verbs from the module of that noun."""

    def __init__(self, database: Database, clock: Clock | None = None, journal: Journal | None = None) -> None:
        super().__init__(Transactions(database, clock or SystemClock(), journal))
        self.database = database
        self.topics = CatalogTopics(self.transactions)
        self.manifest = CatalogManifest(self.transactions)
        self.inline_slabs = CatalogInlineSlabs(self.transactions)
        self.cleaning = CatalogCleaning(self.transactions)
        self.retention = CatalogRetention(self.transactions)
        self.pins = CatalogPins(self.transactions)
        self.applications = CatalogApplications(self.transactions)
        self.epochs = CatalogEpochs(self.transactions)
        self.producers = CatalogProducers(self.transactions)
        self.groups = CatalogGroups(self.transactions)
        self.sql = CatalogSql(self.transactions)
        tables.prepare(database)

    standing = reads(history.standing)
    storage_token = reads(identity.claimed_token)
    writers = reads(all_writers)
    replication = reads(replications.get)
    change_replication = writes(replications.change)

    def close(self) -> None:
        """Close the database, and the journal if there is one."""
        self.transactions.close()

    def watch(self) -> CommitWatch:
        """A watch for commits of anybody from now on, made before a look and waited on after it; see `commit_watch.py`."""
        return self.database.watch()

    def end_waits(self) -> None:
        """End all waits for commits through this catalog, also later ones on a watch that was made before."""
        self.database.end_waits()

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        """What `work` finds, all of it in one snapshot; it may run again where the server is lost."""
        return self.transactions.read(work)

    def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Do `work` in one transaction."""
        return self.transactions.write(work)

    def prune_journal(self, root: str, covered: tuple[int, int]) -> tuple[str, ...]:
        """Delete the journal files of the log at `root` whose commits all lie at or before `covered`; returns their paths."""
        return self.transactions.write(lambda _: prune(root, covered))

    def claim_storage(self, storage: Storage) -> None:
        """Pair the log with its storage at the first time, check the pair later; ConfigError if the two do not belong together."""
        if not self.transactions.read(lambda transaction: identity.is_claimed(transaction, storage)):
            self.transactions.write(identity.give)
            self.transactions.write(lambda transaction: identity.claim(transaction, storage))
