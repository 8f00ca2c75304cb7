"""The commit of an epoch: the one transaction in which everything an application did becomes visible."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from streamkit.errors import EpochFailedError, FencedError
from streamkit.failpoints import reach
from streamkit.log.catalog import manifest, programs
from streamkit.log.catalog.applications import NO_TOKEN, TIMES_METRIC, ApplicationState, positions_of
from streamkit.log.catalog.epoch_buckets import bucketed
from streamkit.log.catalog.manifest import OffsetsByTopicId
from streamkit.log.database.database import Row, Transaction
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.reference import SlabReference
from streamkit.names import application_writer

_ARRIVALS = """
    SELECT p.topic_id, s.first_appended_ms, s.appended_ms,
        CASE WHEN e.next_offset < p.next_offset THEN e.next_offset ELSE p.next_offset END
        - CASE WHEN e.base_offset > p.previous_offset THEN e.base_offset ELSE p.previous_offset END
    FROM application_position p JOIN extent e ON e.topic_id = p.topic_id AND e.partition = p.partition JOIN slab s ON s.id = e.slab_id
    WHERE p.application_id = ? AND p.previous_offset < p.next_offset AND e.base_offset >= coalesce(
        (SELECT max(base_offset) FROM extent WHERE topic_id = p.topic_id AND partition = p.partition AND base_offset <= p.previous_offset), 0)
    AND e.base_offset < p.next_offset AND e.next_offset > p.previous_offset
"""
LAG, LATENCY_MS, BASES, COMMITTED_MS = "lag", "latency_ms", "bases", "committed_ms"  # what a commit adds to the facts of an epoch
CONVERTED = "converted"  # says that an epoch has written the rows of stores in another form
TIMELESS_EPOCHS = 10  # so many are looked at for stream times; more that only brought rows forward do not follow each other
HISTORY_EPOCHS = 10_000  # so many are remembered one by one; of those before, the first of each generation


@dataclass(frozen=True)
class EpochReport:
    """
    What is told of an epoch for whoever watches; it takes part in no check.

    `facts` stay with the epoch. `totals`, numbers and dicts of them, are added to those of the application and stay nowhere else, since there
    are many. `topics` are the names of the inputs by their ids: of each, the commit adds how many records wait behind the epoch. Times since
    records arrived, and since their event times, of which the oldest and the mean are given in ms, are those at the commit. Of the
    `changelogs`, by topic id, it adds the offset at which the epoch began to write in each partition; None leaves that out.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    totals: Mapping[str, Any] = field(default_factory=dict)
    topics: Mapping[int, str] = field(default_factory=dict)
    event_times_ms: tuple[float, float] | None = None
    changelogs: Collection[int] | None = None


@dataclass(frozen=True)
class EpochCommit:
    """
    What one epoch of an application did: which input it read, what it wrote, and where stream time stands after it.

    `before` and `after` are positions by topic id and partition; partitions that were not read may be left out. `purged_below`
    is that of the inputs when they were looked up.
    `program` replaces the application's, whose stores are as it has them from this epoch on; `program_hash` is the program's.
    `metrics` may hold numbers, which add up over epochs, dicts of them, and other values, of which the newest counts. `report` is what else
    there is to tell.
    """

    application_id: int
    generation: int
    epoch: int
    token: str
    before: OffsetsByTopicId
    after: OffsetsByTopicId
    stream_time_ms: int | None
    drained: bool
    slabs: tuple[SlabReference, ...]
    metrics: Mapping[str, Any]
    timestamp_ms: int
    purged_below: OffsetsByTopicId = field(default_factory=dict)
    program: str | None = None
    program_hash: str = ""
    report: EpochReport = EpochReport()


@dataclass(frozen=True)
class EpochRecord:
    """A committed epoch, as the catalog remembers it. It was planned at `timestamp_ms`."""

    epoch: int
    generation: int
    token: str
    stream_time_ms: int | None
    timestamp_ms: int
    metrics: dict[str, Any]

    @property
    def committed_ms(self) -> int:
        """When others could first see it; of an epoch of a version that did not note this, when it was planned."""
        return int(self.metrics.get(COMMITTED_MS, self.timestamp_ms))


def commit(transaction: Transaction, now_ms: int, epoch: EpochCommit) -> tuple[Extent, ...]:
    """
    Check every claim of the epoch, then make all of it visible; returns the new extents.

    FencedError if a newer generation has started, EpochFailedError if anything else is not as the epoch assumes. An epoch
    that is committed already, under the same token, is left alone.
    """
    if is_committed(transaction, epoch):
        return tuple(extent for slab in epoch.slabs for extent in manifest.extents_of_slab(transaction, slab.path))
    totals = _check_turn(transaction, epoch)
    _check_slabs(epoch)
    lag = _check_positions(transaction, epoch)
    extents = manifest.adopt(transaction, epoch.slabs)
    manifest.stamp(transaction, epoch.slabs, now_ms)
    _move_positions(transaction, epoch)
    facts = _facts(transaction, now_ms, epoch, lag)
    if epoch.report.changelogs is not None:
        facts[BASES] = _bases(extents, epoch.report.changelogs)
    _record(transaction, epoch, totals, facts)
    if epoch.program is not None:
        _change_program(transaction, now_ms, epoch)
    reach("commit.before_commit")
    return extents


def is_committed(transaction: Transaction, epoch: EpochCommit) -> bool:
    """Whether this very epoch was committed, under this token."""
    return token_of(transaction, epoch.application_id, epoch.epoch) == epoch.token


def _check_turn(transaction: Transaction, epoch: EpochCommit) -> dict[str, Any]:
    rows = transaction.execute("SELECT name, generation, epoch, metrics FROM application WHERE id = ?", (epoch.application_id,))
    if not rows:
        raise EpochFailedError(f"the application with id {epoch.application_id} does not exist; start it first")
    name, generation, committed, metrics = rows[0]
    if generation != epoch.generation:
        raise FencedError(
            f"application {name}: generation {epoch.generation} cannot commit, generation {generation} has started since; "
            "this run must stop, and what it staged is void"
        )
    if epoch.epoch != committed + 1:
        raise EpochFailedError(
            f"application {name}: epoch {epoch.epoch} cannot be committed, epoch {committed} was the last; expected {committed + 1}"
        )
    totals: dict[str, Any] = json.loads(metrics)
    return totals


def _check_slabs(epoch: EpochCommit) -> None:
    expected = (application_writer(epoch.application_id), epoch.generation, epoch.epoch)
    for slab in epoch.slabs:
        if (slab.writer, slab.generation, slab.serial) != expected or slab.path != slab.name.path:
            raise EpochFailedError(f"{slab.path} cannot be adopted; expected a slab of (writer, generation, epoch) {expected}")


def _check_positions(transaction: Transaction, epoch: EpochCommit) -> dict[int, int]:
    """Check where the epoch starts and ends; returns how many records wait behind it, by topic id."""
    stored, lag = positions_of(transaction, epoch.application_id), dict[int, int]()
    for topic_id in epoch.before.keys() | epoch.after.keys() | epoch.report.topics.keys():
        _check_first_reads(transaction, epoch, topic_id, stored.get(topic_id, {}))
        bounds = {place: found for (_, place), found in manifest.offset_bounds(transaction, [topic_id]).items()}
        before, after = epoch.before.get(topic_id, {}), epoch.after.get(topic_id, {})
        for partition in before.keys() | after.keys():
            found = stored.get(topic_id, {}).get(partition, 0)
            _, end = bounds.get(partition, (0, None))
            _check_position(topic_id, partition, (found, before.get(partition), after.get(partition, found)), end)
        lag[topic_id] = sum(end - max(start, after.get(partition, 0)) for partition, (start, end) in bounds.items())
    return lag


def _check_first_reads(transaction: Transaction, epoch: EpochCommit, topic_id: int, stored: Mapping[int, int]) -> None:
    """
    Check that partitions which this epoch is the first to read have lost no deletion since it was planned.

    It may have read a record without the deletion behind it, which compaction leaves for applications that have begun to read.
    """
    planned = epoch.purged_below.get(topic_id, {})
    for partition, purged in manifest.purged_below(transaction, topic_id).items():
        is_first = not stored.get(partition, 0) and epoch.after.get(topic_id, {}).get(partition, 0)
        if is_first and purged != planned.get(partition, 0):
            raise EpochFailedError(
                f"topic id {topic_id}, partition {partition}: compaction dropped deletions up to offset {purged} after the application's first "
                "epoch was planned; plan it again"
            )


def _check_position(topic_id: int, partition: int, positions: tuple[int, int | None, int], end: int | None) -> None:
    found, before, after = positions
    place = f"topic id {topic_id}, partition {partition}"
    if end is None:
        raise EpochFailedError(
            f"{place} does not exist; the topic was deleted, or deleted and created again, since the epoch was planned"
        )
    if found != before:
        raise EpochFailedError(f"{place}: the epoch starts at offset {before}, the catalog is at {found}; plan the epoch again")
    if not found <= after <= end:
        raise EpochFailedError(f"{place}: the epoch ends at offset {after}; expected one from {found} to {end}")


def _move_positions(transaction: Transaction, epoch: EpochCommit) -> None:
    transaction.execute_many(
        "INSERT INTO application_position (application_id, topic_id, partition, next_offset) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (application_id, topic_id, partition) DO UPDATE SET next_offset = excluded.next_offset, "
        "previous_offset = application_position.next_offset, replay_offset = application_position.previous_offset",
        [
            (epoch.application_id, topic_id, partition, offset)
            for topic_id, partitions in epoch.after.items()
            for partition, offset in partitions.items()
        ],
    )


def _facts(transaction: Transaction, now_ms: int, epoch: EpochCommit, lag: Mapping[int, int]) -> dict[str, Any]:
    """What the catalog remembers of an epoch beside its metrics."""
    report = epoch.report
    facts = {**report.facts, COMMITTED_MS: now_ms}
    if report.topics:
        facts[LAG] = {name: lag[topic_id] for topic_id, name in report.topics.items() if topic_id in lag}
    since = {}
    if report.topics and (arrived := _arrival(transaction, epoch)) is not None:
        since["arrival"] = arrived
    if report.event_times_ms is not None:
        since["event"] = report.event_times_ms
    if since:
        facts[LATENCY_MS] = {
            name: {"oldest": round(now_ms - oldest, 1), "mean": round(now_ms - mean, 1)} for name, (oldest, mean) in since.items()
        }
    return facts


def _bases(extents: Sequence[Extent], topic_ids: Collection[int]) -> dict[str, dict[str, int]]:
    """The first offset of what was written to each partition of these topics."""
    found: dict[str, dict[str, int]] = {str(topic_id): {} for topic_id in topic_ids}
    for extent in extents:
        partitions = found.get(str(extent.topic_id))
        if partitions is not None:
            partitions.setdefault(str(extent.partition), extent.base_offset)
    return {topic_id: partitions for topic_id, partitions in found.items() if partitions}


def _arrival(transaction: Transaction, epoch: EpochCommit) -> tuple[float, float] | None:
    """
    When the oldest of the records arrived that the epoch took, and when they did on average; None if it took none.

    Positions have moved by now. Records of a slab that merged several are taken to lie evenly between its oldest and its newest.
    """
    oldest, total, records = math.inf, 0.0, 0
    for topic_id, first_ms, last_ms, count in transaction.execute(_ARRIVALS, (epoch.application_id,)):
        if topic_id in epoch.report.topics and last_ms:
            oldest, total, records = min(oldest, first_ms), total + (first_ms + last_ms) / 2 * count, records + count
    return (oldest, total / records) if records else None


def _record(transaction: Transaction, epoch: EpochCommit, totals: dict[str, Any], facts: dict[str, Any]) -> None:
    place = (epoch.application_id, epoch.epoch)
    metrics = json.dumps({**epoch.metrics, **facts})
    transaction.execute(
        "INSERT INTO epoch (application_id, epoch, generation, token, stream_time_ms, timestamp_ms, metrics) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*place, epoch.generation, epoch.token, epoch.stream_time_ms, epoch.timestamp_ms, metrics),
    )
    more = (epoch.metrics, epoch.report.totals, bucketed(facts, int(epoch.metrics.get("records", 0))))
    sums = json.dumps(reduce(added, more, totals))
    transaction.execute(
        "UPDATE application SET epoch = ?, token = ?, stream_time_ms = ?, drained = ?, metrics = ? WHERE id = ?",
        (epoch.epoch, epoch.token, epoch.stream_time_ms, int(epoch.drained), sums, epoch.application_id),
    )
    _forget(transaction, epoch.application_id, epoch.epoch - HISTORY_EPOCHS)


def _change_program(transaction: Transaction, now_ms: int, epoch: EpochCommit) -> None:
    transaction.execute("UPDATE application SET program = ? WHERE id = ?", (epoch.program, epoch.application_id))
    programs.note(transaction, now_ms, epoch.application_id, epoch.program_hash)


def _forget(transaction: Transaction, application_id: int, epoch: int) -> None:
    """
    Forget an epoch, unless it is the first of its generation that is left.

    One leaves with each commit, so that there are `HISTORY_EPOCHS` and one for each start of the application.
    """
    if epoch < 1:
        return
    before = "SELECT generation FROM epoch WHERE application_id = ? AND epoch < ? ORDER BY epoch DESC LIMIT 1"
    found = transaction.execute(before, (application_id, epoch))
    if found:
        statement = "DELETE FROM epoch WHERE application_id = ? AND epoch = ? AND generation = ?"
        transaction.execute(statement, (application_id, epoch, found[0][0]))


def added(totals: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The totals after one more epoch: numbers add up, dicts are added key by key, of anything else the newest counts."""
    result = dict(totals)
    for name, value in metrics.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            result[name] = result.get(name, 0) + value
        elif isinstance(value, dict):
            before = result.get(name)
            result[name] = added(before if isinstance(before, dict) else {}, value)
        else:
            result[name] = value
    return result


def token_of(transaction: Transaction, application_id: int, epoch: int) -> str | None:
    """The token under which an epoch was committed; None if it was not, or is too old to be remembered."""
    rows = transaction.execute("SELECT token FROM epoch WHERE application_id = ? AND epoch = ?", (application_id, epoch))
    return rows[0][0] if rows else None


def newest_generation(transaction: Transaction, application_id: int) -> int:
    """The generation that committed the newest epoch; 0 before the first commit."""
    found = transaction.execute(
        "SELECT generation FROM epoch WHERE application_id = ? ORDER BY epoch DESC LIMIT 1", (application_id,)
    )
    return int(found[0][0]) if found else 0


def newest_known(transaction: Transaction, application_id: int, epoch: int) -> tuple[int, str]:
    """The newest epoch up to this one whose token is still known, and the token; 0 and "" if there is none."""
    found = transaction.execute(
        "SELECT epoch, token FROM epoch WHERE application_id = ? AND epoch <= ? ORDER BY epoch DESC LIMIT 1",
        (application_id, epoch),
    )
    return (int(found[0][0]), str(found[0][1])) if found else (0, NO_TOKEN)


def tokens_since(transaction: Transaction, application_id: int, since: int = 0) -> dict[int, str]:
    """
    The tokens of the committed epochs from `since` on, by epoch.

    Of epochs before the last `HISTORY_EPOCHS` only the first of each generation is there. Who has its token, and is in the same
    generation, went the same way: a generation goes on where it stopped, and a catalog that was set back begins another.
    """
    return dict(
        transaction.execute(
            "SELECT epoch, token FROM epoch WHERE application_id = ? AND epoch >= ? ORDER BY epoch", (application_id, since)
        )
    )


def generation_start(transaction: Transaction, application_id: int) -> tuple[int, str]:
    """
    The first epoch of the generation that committed the newest one, and its token; 0 and "" before the first commit.

    Where an older StreamKit has forgotten the first one, it is the first that is left. It stays as long as the application does.
    """
    newest = transaction.execute(
        "SELECT epoch, generation FROM epoch WHERE application_id = ? ORDER BY epoch DESC LIMIT 1", (application_id,)
    )
    if not newest:
        return 0, NO_TOKEN
    ((epoch, generation),) = newest
    # Generations ascend with the epochs, and the table has no index of them.
    first = bisect_left(range(epoch), generation, key=lambda number: int(_following(transaction, application_id, number)[1]))
    found, _, token = _following(transaction, application_id, first)
    return found, token


def _following(transaction: Transaction, application_id: int, epoch: int) -> Row:
    """The first epoch from this one on that is remembered, its generation and its token."""
    statement = "SELECT epoch, generation, token FROM epoch WHERE application_id = ? AND epoch >= ? ORDER BY epoch LIMIT 1"
    (row,) = transaction.execute(statement, (application_id, epoch))
    return row


def state_behind(transaction: Transaction, state: ApplicationState, epoch: int) -> ApplicationState:
    """
    An application with the stream times that it had behind an epoch which is not forgotten.

    An epoch that only brought rows forward has none of its own: then those before it count.
    """
    if epoch == state.epoch:
        return state
    rows = transaction.execute(
        "SELECT stream_time_ms, metrics FROM epoch WHERE application_id = ? AND epoch <= ? ORDER BY epoch DESC LIMIT ?",
        (state.id, epoch, TIMELESS_EPOCHS),
    )
    known: list[dict[str, Any]] = [json.loads(metrics) for _, metrics in rows]
    times: list[Any] = next((metrics[TIMES_METRIC] for metrics in known if TIMES_METRIC in metrics), [])
    return replace(state, stream_time_ms=rows[0][0] if rows else None, metrics={**state.metrics, TIMES_METRIC: times})


def last(transaction: Transaction, application_id: int, count: int = 100) -> list[EpochRecord]:
    """The last committed epochs, oldest first."""
    return list(reversed(_records(transaction, "application_id = ? ORDER BY epoch DESC LIMIT ?", (application_id, count))))


def following(transaction: Transaction, application_id: int, epoch: int) -> list[EpochRecord]:
    """The committed epochs behind this one, oldest first."""
    return _records(transaction, "application_id = ? AND epoch > ? ORDER BY epoch", (application_id, epoch))


def _records(transaction: Transaction, chosen: str, values: tuple[int, int]) -> list[EpochRecord]:
    columns = "epoch, generation, token, stream_time_ms, timestamp_ms, metrics"
    rows = transaction.execute(f"SELECT {columns} FROM epoch WHERE {chosen}", values)
    return [EpochRecord(row[0], row[1], row[2], row[3], row[4], json.loads(row[5])) for row in rows]
