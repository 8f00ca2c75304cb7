"""
Maintenance: one pass of all that keeps a log small and quick, safe beside readers and writers.

Each part is a row of short transactions and may stop anywhere; the next pass goes on. Nothing but the log itself says what
is to be done, so it does not matter who does it, nor whether two do it at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from math import inf

from streamkit.errors import ConfigError, StreamKitError, TopicNotFoundError
from streamkit.failpoints import reach
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.retention import Trim, Trimmed, expired_before, is_all_expired
from streamkit.log.database.heartbeats import Heartbeats
from streamkit.log.database.pulse import LAPSE_MS
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.maintenance.compaction import compact_if_dirty
from streamkit.log.maintenance.failures import Failures
from streamkit.log.maintenance.flush import flush_inline
from streamkit.log.maintenance.maintained_log import MaintainedLog
from streamkit.log.maintenance.merge import Merged, merge_topic
from streamkit.log.maintenance.orphans import collect_all_orphans
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.maintenance.throttle import Throttle
from streamkit.log.maintenance.trash import empty_trash
from streamkit.log.topic.settings import RETENTION_MS
from streamkit.log.topic.topic import Topic
from streamkit.names import APPLICATION_HEARTBEATS, EPOCH_HEARTBEATS, PIN_HEARTBEATS

INLINE_DELETE_DELAY_MS = 10_000
JOURNAL_BYTES = 64 * 1024 * 1024  # what a journal may grow to
CLOCK_MARGIN_MS = 1_000  # between the host's monotonic clock, by which heartbeats age, and that of the catalog

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MaintenanceReport:
    """
    What a pass did: what was merged, what retention dropped and who held back more, how many rows compaction left out, how
    many files were deleted that had left the manifest, and how many orphans.
    """

    merged: Merged = field(default_factory=Merged)
    dropped: Trimmed = field(default_factory=Trimmed)
    rows_compacted: int = 0
    files_deleted: int = 0
    orphans_deleted: int = 0

    def __add__(self, other: MaintenanceReport) -> MaintenanceReport:
        return MaintenanceReport(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


@dataclass(frozen=True)
class MaintenancePass:
    """A pass under way: the log, how fast it may write, who merges for it, and what went wrong, which keeps nothing else from its turn."""

    log: MaintainedLog
    throttle: Throttle
    writer: SegmentWriter
    failures: Failures = field(default_factory=Failures)

    def done(self, part: Callable[..., MaintenanceReport], *topic: Topic) -> MaintenanceReport:
        """What a part did, of a topic or of the log; StoppedError if the pass is to end before it."""
        self.throttle.check()
        work = None if topic else "maintenance of the log as a whole"
        with self.failures.noted(work), suppress(TopicNotFoundError):  # it was deleted meanwhile
            return part(self, *topic)
        return MaintenanceReport()


def maintain(log: MaintainedLog, topics: Iterable[str] | None = None, throttle: Throttle | None = None) -> MaintenanceReport:
    """
    Empty the trash; then do what there is to do for the named topics, or all, internal ones too: retention, then compaction and
    merge, before which the rows of all small commits move into files; then delete what nothing refers to and nobody can commit any
    more, and shorten the journal.

    What makes room comes before what needs some, and what goes wrong with one topic, partition or file keeps none of the others
    from its turn. `throttle` bounds what merge and compaction write, and can stop the pass (StoppedError): what was done stays.
    Returns what was done. TopicNotFoundError if a name is not a topic's; once all that can be done is, the first error that
    was met, such as CorruptionError for rows that are damaged. On a full disk nothing is compacted or merged after the first
    StorageFullError; FencedError, or a catalog that cannot be reached, ends the pass at once.
    """
    chosen = log.catalog.topics.every() if topics is None else [log.catalog.topics.get(name) for name in _names(topics)]
    bound = throttle or Throttle()
    running = MaintenancePass(log, bound, SegmentWriter(log.storage_now(), log.catalog, bound))
    report = running.done(_empty_trash)
    retention = partial(_apply_retention, lapsed=_lapsed(running))
    report += sum((running.done(retention, topic) for topic in chosen), MaintenanceReport())
    report += running.done(_flush)
    report += sum((running.done(_rewrite, topic) for topic in chosen), MaintenanceReport())
    report += sum((running.done(part) for part in LOG_PARTS), MaintenanceReport())
    running.failures.raise_failed()
    return report


def relieve(log: MaintainedLog, throttle: Throttle | None = None) -> MaintenanceReport:
    """The parts of a pass that keep the catalog small: move the rows of small commits into files, after the bytes of earlier ones go."""
    bound = throttle or Throttle()
    running = MaintenancePass(log, bound, SegmentWriter(log.storage_now(), log.catalog, bound))
    report = running.done(_empty_trash) + running.done(_flush)
    running.failures.raise_failed()
    return report


def _names(topics: Iterable[str]) -> Iterable[str]:
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise ConfigError(f'found {topics!r} as the topics to maintain; expected a list of names, as in ["orders"]')
    return topics


def _lapsed(running: MaintenancePass) -> frozenset[str]:
    """Who is gone, and their pins are forgotten; nobody if that cannot be found out."""
    lapsed: frozenset[str] = frozenset()
    with running.failures.noted("look at the heartbeats", is_beside_catalog=True):
        lapsed = lapsed_holders(running.log.catalog, running.log.heartbeats)
        if tokens := [name.removeprefix(PIN_HEARTBEATS) for name in lapsed if name.startswith(PIN_HEARTBEATS)]:
            running.log.catalog.pins.remove(tokens)
        _forget_former_holders(running.log.catalog, running.log.heartbeats)
    return lapsed


def lapsed_holders(catalog: Catalog, heartbeats: Heartbeats) -> frozenset[str]:
    """
    The pins and applications that are gone; one without a heartbeat, which may only have got lost, has another minute.

    The names are read before the heartbeats, and both before any transaction that relies on them: whoever comes later is
    not among them, and so counts.
    """
    names = catalog.retention.holders()
    ages = _holder_ages_ms(heartbeats)
    if unheard := names - ages.keys():
        _beat_for(heartbeats, unheard)
    return frozenset(name for name in names & ages.keys() if ages[name] > LAPSE_MS)


def _holder_ages_ms(heartbeats: Heartbeats) -> dict[str, int]:
    return heartbeats.ages_ms(PIN_HEARTBEATS) | heartbeats.ages_ms(APPLICATION_HEARTBEATS)


def _beat_for(heartbeats: Heartbeats, unheard: Iterable[str]) -> None:
    """Let the minute of those who were not heard of begin; where it cannot be noted, as on a full disk, it begins another time."""
    try:
        heartbeats.beat(*unheard)
    except StreamKitError as error:
        _logger.warning("those without a heartbeat count as alive: %s", error)


def _forget_former_holders(catalog: Catalog, heartbeats: Heartbeats) -> None:
    """Drop the heartbeats of earlier generations and of pins that are gone."""
    former = _holder_ages_ms(heartbeats)
    for name in catalog.retention.holders():
        former.pop(name, None)
    if old := [name for name, age in former.items() if age > LAPSE_MS]:
        heartbeats.forget(*old)


def _apply_retention(running: MaintenancePass, topic: Topic, lapsed: frozenset[str]) -> MaintenanceReport:
    report = MaintenanceReport()
    for partition in running.log.catalog.manifest.end_offsets(topic.id) if topic.has_retention else ():
        with running.failures.noted(f"retention of topic {topic.name}, partition {partition}"):
            report += _apply_to_partition(running, topic, partition, lapsed)
    return report


def _apply_to_partition(running: MaintenancePass, topic: Topic, partition: int, lapsed: frozenset[str]) -> MaintenanceReport:
    catalog, now_ms = running.log.catalog, running.log.clock.now_ms()
    if topic.is_changelog:
        return _drop_expired(running, topic, partition, lapsed)
    head = catalog.retention.head(topic.id, partition)
    before = expired_before(topic, head, now_ms)
    if not before:
        return MaintenanceReport()
    trimmed = _trim(running, Trim(topic.id, partition, before), lapsed)
    if trimmed.extents and is_all_expired(topic, head, now_ms):
        _logger.warning(
            "topic %s, partition %d: even its newest row is older than retention.ms; unless nobody has written for that long, "
            "the clock or the event times are wrong: `streamkit topics alter` can set retention.ms=-1",
            topic.name,
            partition,
        )
    return MaintenanceReport(dropped=trimmed)


def _drop_expired(running: MaintenancePass, topic: Topic, partition: int, lapsed: frozenset[str]) -> MaintenanceReport:
    """
    Drop the oldest extents of a changelog of windows, as far as all windows in them have expired by the stream time of their store.

    That of a store without a log, which is not compacted, loses what all tasks have applied.
    """
    retention = running.log.catalog.retention
    if topic.is_compacted:
        time_ms = retention.expired_ms(topic.id)
        before = 0 if time_ms is None else retention.begin_of_newer(topic.id, partition, time_ms)
    else:
        before = retention.begin_of_kept(topic.id, partition, int(topic.setting(RETENTION_MS)))
    if not before:
        return MaintenanceReport()
    return MaintenanceReport(dropped=_trim(running, Trim(topic.id, partition, before, purges=True), lapsed))


def _trim(running: MaintenancePass, request: Trim, lapsed: frozenset[str]) -> Trimmed:
    trimmed = running.log.catalog.retention.trim(request, lapsed)
    reach("retention.trimmed")
    return trimmed


def _rewrite(running: MaintenancePass, topic: Topic) -> MaintenanceReport:
    """Compact and merge a topic, unless a full disk has no room for what takes the place of rows."""
    report = MaintenanceReport()
    for part in (_compact, _merge):
        if not running.failures.is_disk_full:
            report += running.done(part, topic)
    return report


def _flush(running: MaintenancePass) -> MaintenanceReport:
    """Move the rows of small commits from the catalog into files, unless a full disk has no room for them."""
    if running.failures.is_disk_full:
        return MaintenanceReport()
    return MaintenanceReport(merged=flush_inline(running.log.catalog, running.writer))


def _compact(running: MaintenancePass, topic: Topic) -> MaintenanceReport:
    log = running.log
    report = compact_if_dirty(log.storage, log.catalog, log.clock, topic, throttle=running.throttle)
    return MaintenanceReport(rows_compacted=report.rows_before - report.rows_after)


def _merge(running: MaintenancePass, topic: Topic) -> MaintenanceReport:
    return MaintenanceReport(merged=merge_topic(running.log.catalog, topic, running.writer))


def _collect_orphans(running: MaintenancePass) -> MaintenanceReport:
    log = running.log
    return MaintenanceReport(orphans_deleted=len(collect_all_orphans(log.storage, log.catalog)))


def _shorten_journal(running: MaintenancePass) -> MaintenanceReport:
    """A copy of the catalog lets go of the journal before it; a catalog in PostgreSQL has no journal."""
    if isinstance(running.log.catalog.database, SqliteDatabase):
        running.log.copy_catalog(min_journal_bytes=JOURNAL_BYTES)
    return MaintenanceReport()


def _empty_trash(running: MaintenancePass) -> MaintenanceReport:
    log = running.log
    now_ms = log.clock.now_ms()  # first of all: what is dropped from here on is younger than any epoch's age
    with running.failures.noted("emptying of the trash", is_beside_catalog=True):  # it asks the heartbeats too
        epoch_ms = oldest_epoch_ms(log.heartbeats)
        delay_ms = max(log.settings.file_delete_delay_ms, epoch_ms)
        # The bytes of small commits are in the catalog: readers that find them gone look where they are now, and room is short.
        inline_ms = min(delay_ms, max(INLINE_DELETE_DELAY_MS, epoch_ms))
        return MaintenanceReport(files_deleted=empty_trash(log.storage, log.catalog, now_ms - delay_ms, now_ms - inline_ms))
    return MaintenanceReport()


def oldest_epoch_ms(heartbeats: Heartbeats) -> int:
    """How long ago the oldest epoch that is under way was planned: until it ends, it may read what has been dropped since."""
    drivers = heartbeats.ages_ms(APPLICATION_HEARTBEATS)
    epochs = heartbeats.ages_ms(EPOCH_HEARTBEATS)
    return max(
        (
            age + CLOCK_MARGIN_MS
            for name, age in epochs.items()
            if drivers.get(name.replace(EPOCH_HEARTBEATS, APPLICATION_HEARTBEATS, 1), inf) <= LAPSE_MS
        ),
        default=0,
    )


LOG_PARTS: tuple[Callable[[MaintenancePass], MaintenanceReport], ...] = (_collect_orphans, _shorten_journal)
