"""The records of a topic: pages from an offset or a time on, and a live tail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_batch
from streamkit.connectors.files.record_lines import json_text
from streamkit.errors import CorruptionError, SchemaError
from streamkit.log.consume.reader import check_columns
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP
from streamkit.query.moment import parse_moment
from streamkit.query.portion import decoded_rows, with_header_pairs
from streamkit.query.position import EARLIEST, LATEST, StartPosition, bounds_of, offsets_at, parse_offset
from streamkit.query.predicate import parse_predicate
from streamkit.query.record_page import PageLimits, PageReader, RecordPage
from streamkit.query.tail import TOO_MANY, SkippedOffsets, Tail, TailPage, later_than, newest_page
from streamkit.query.wanted import RECORD_COLUMNS, Wanted, check_offset, condition_schema
from streamkit.serve.answers import Event, RowsAnswer, StreamAnswer, json_lines_of
from streamkit.serve.cursors import gone_cursor, topic_cursor, topic_offsets
from streamkit.serve.forms import EVENTS, ROW_FORMS
from streamkit.serve.refusals import RefusedError, bad_request, refusal_of
from streamkit.serve.resource import Asked, Parameter, Resource

TAIL_READ_ROWS = 10_000  # of what came between two looks, the newest; the rest is left out and said to be
DELETED_BEFORE = "were deleted since the page before, and nobody read them"
TAIL_SHOWN_ROWS = 500  # of those that a viewer wants
PAGE_ROWS = 100
OFFSETS = "offsets"  # of a cursor: those behind what was given


def records(asked: Asked) -> RowsAnswer | StreamAnswer:
    """A page of a topic's records, or what comes."""
    topic = asked.log.topic(asked.path["topic"])
    wanted = _wanted(asked, topic)
    if asked.form == EVENTS:
        return StreamAnswer(lambda: _tail(asked, wanted))
    starts = _starts(asked, wanted, EARLIEST)
    page = _page_reader(asked, wanted).page(starts, asked.log.end_offsets(topic.name))
    format = None if asked["raw"] or asked.form not in ROW_FORMS[:2] else topic.format
    needs_values = format is not None or HEADERS in wanted.columns
    decoded, page = page.decoded(format) if needs_values else (None, page)
    facts = _facts(topic, page, starts, asked)
    if gone := [f"offsets {start} to {end - 1} of partition {one}" for one, start, end in _deleted_since(asked, wanted)]:
        facts["note"] = "; ".join([f"{', '.join(gone)} {DELETED_BEFORE}", *([facts["note"]] if "note" in facts else [])])
    return RowsAnswer("records", page.rows, facts, decoded)


def _wanted(asked: Asked, topic: Topic) -> Wanted:
    names = [name for text in asked["columns"] for name in text.split(",")]
    columns = [name for name in check_columns(topic, names or None) if name not in RECORD_COLUMNS]
    if asked["headers"] and HEADERS not in columns:
        columns.append(HEADERS)
    condition = None if asked["where"] is None else parse_predicate(asked["where"], condition_schema(topic))
    position = _position(asked)
    wanted = Wanted(topic, tuple(columns), tuple(asked["partition"]) or None, position or EARLIEST, condition)
    check_offset(asked.log, wanted)
    return wanted


def _position(asked: Asked) -> StartPosition | None:
    """Where to begin, if somebody said so; the last N records are an offset that is negative."""
    given = [name for name in ("offset", "time", "cursor") if asked[name] is not None]
    if len(given) > 1:
        raise bad_request(f"found {' and '.join(given)}; each says where to begin, so expected one of them")
    if asked["time"] is not None:
        return parse_moment(asked["time"])
    text = asked["offset"]
    return None if text is None or _is_from_end(text) else parse_offset(text)


def _place(asked: Asked) -> str | None:
    """Where the page before ended, or the stream: a browser that connects again says so in a header, and its URL is as old as the stream."""
    return asked["cursor"] if asked.form != EVENTS else asked.last_event or asked["cursor"]


def _is_from_end(text: str) -> bool:
    return text.startswith("-") and text[1:].isdecimal() and len(text) < 20


def _starts(asked: Asked, wanted: Wanted, default: str) -> dict[int, int]:
    """The offset at which each partition begins."""
    log, name = asked.log, wanted.topic.name
    place = _place(asked)
    if place is not None:
        return _starts_of_cursor(log, wanted.topic, place)
    if asked["offset"] is not None and _is_from_end(asked["offset"]):
        return {partition: max(start, end + int(asked["offset"])) for partition, (start, end) in bounds_of(log, name).items()}
    has_place = asked["offset"] is not None or asked["time"] is not None
    starts = offsets_at(log, name, wanted.position if has_place else default)
    chosen = wanted.partitions
    return starts if chosen is None else {partition: starts[partition] for partition in chosen if partition in starts}


def _starts_of_cursor(log: Log, topic: Topic, text: str) -> dict[int, int]:
    offsets, bounds = topic_offsets(log, topic, text, OFFSETS), bounds_of(log, topic.name)
    for one, (_, end) in sorted(bounds.items()):
        if offsets.get(one, end) > end:
            raise gone_cursor(
                f"of offset {offsets[one]} of partition {one}, and {topic.name} ends at {end}: the log is an older copy"
            )
    return {one: max(offsets.get(one, start), start) for one, (start, _) in bounds.items()}


def _deleted_since(asked: Asked, wanted: Wanted) -> list[tuple[int, int, int]]:
    """The partitions whose records behind a cursor were deleted before they were read, each with the first of these offsets, and the one behind."""
    place = _place(asked)
    if place is None:
        return []
    reached = topic_offsets(asked.log, wanted.topic, place, OFFSETS)
    found = []
    for partition, (start, _) in sorted(bounds_of(asked.log, wanted.topic.name).items()):
        offset = reached.get(partition, start)
        if offset < start and (wanted.partitions is None or partition in wanted.partitions):
            found.append((partition, offset, start))
    return found


def _page_reader(asked: Asked, wanted: Wanted) -> PageReader:
    limit = asked.rows("limit", "ask for the rest with the cursor of the answer")
    return PageReader(asked.log, wanted, asked.limits.page(limit), asked.goes_on)


def _facts(topic: Topic, page: RecordPage, starts: Mapping[int, int], asked: Asked) -> dict[str, Any]:
    """What is said beside the records; RefusedError if the page has none because the first one cannot be read."""
    failure = page.failure
    if failure is not None and not page.rows.num_rows:
        raise _unreadable(topic, page, failure, asked)
    facts: dict[str, Any] = {"cursor": _cursor(asked.log, topic, page.following), "is_complete": page.is_complete}
    if (note := page.why) or failure is not None:
        facts["note"] = note or f"the next record cannot be read: {failure}"
    return facts


def _unreadable(topic: Topic, page: RecordPage, failure: CorruptionError | SchemaError, asked: Asked) -> RefusedError:
    found = refusal_of(failure)
    if isinstance(failure, CorruptionError):
        if failure.partition is None or failure.next_offset is None:
            return found
        behind = {**page.following, failure.partition: failure.next_offset}
        hint = f"the cursor in this answer goes on after it; {found.hint}"
    else:
        return RefusedError(found.status, found.error, found.message, "raw=true gives the bytes")
    return RefusedError(found.status, found.error, found.message, hint, facts={"cursor": _cursor(asked.log, topic, behind)})


def _cursor(log: Log, topic: Topic, offsets: Mapping[int, int]) -> str:
    return topic_cursor(log, topic, **{OFFSETS: offsets})


@dataclass(frozen=True)
class TailQuery:
    """What a viewer of a tail wants of each look."""

    columns: tuple[str, ...]
    partitions: tuple[int, ...] | None
    where: str | None
    is_raw: bool

    def has(self, partition: int) -> bool:
        """Whether records of a partition are wanted."""
        return self.partitions is None or partition in self.partitions


class TopicTail:
    """What comes to a topic; one look is for all who watch it."""

    def __init__(self, log: Log, topic: Topic, limits: PageLimits) -> None:
        self.log, self.topic = log, topic
        self.tail = Tail(topic, (*topic.schema.names, HEADERS), limits)

    def begin(self) -> None:
        """Nobody has watched until now."""
        self.tail.begin(self.log)

    @property
    def at(self) -> Mapping[int, int]:
        """The offsets behind the last look."""
        return self.tail.at

    def look(self, queries: Collection[TailQuery]) -> dict[TailQuery, list[Event]]:
        """The records since the last look, and what of them is left out."""
        before = dict(self.tail.at)
        page = self.tail.look(self.log)
        if page is None:
            return {}
        return {query: self._events(query, page, {one: before.get(one, 0) for one in page.starts}) for query in queries}

    def _events(self, query: TailQuery, page: TailPage, before: Mapping[int, int]) -> list[Event]:
        condition = None if query.where is None else parse_predicate(query.where, condition_schema(self.topic))
        wanted = Wanted(self.topic, query.columns, query.partitions, LATEST, condition)
        found = one_batch(page.rows)
        if query.partitions is not None:
            found = found.filter(pc.is_in(found.column(PARTITION), pa.array(query.partitions, pa.int32())))
        found = wanted.matching(found).select([*query.columns, TIMESTAMP, PARTITION, OFFSET, DELETED])
        return LookEvents(self.log, self.topic, query.partitions, None if query.is_raw else self.topic.format).of(
            replace(page, rows=pa.Table.from_batches([found])), before, TAIL_SHOWN_ROWS
        )


@dataclass(frozen=True)
class LookEvents:
    """
    A look as events, in the order of offsets in each partition; each has the cursor behind what it shows or says to be left out.

    So whoever loses the connection between two of them goes on with the second.
    """

    log: Log
    topic: Topic
    partitions: tuple[int, ...] | None
    format: Any

    def of(self, page: TailPage, before: Mapping[int, int], rows_max: int) -> list[Event]:
        """What it leaves out before its records, these, and what it leaves out behind them; it began at the offsets `before`."""
        behind = {**before, **page.following}
        return [
            *self.skipped(page.older, before),
            *self._shown(one_batch(page.rows), page.starts, behind, rows_max),
            *self.skipped(page.later, behind),
        ]

    def skipped(self, places: Sequence[SkippedOffsets], before: Mapping[int, int]) -> list[Event]:
        """Offsets whose records were not read, so that nobody knows how many of them were asked for."""
        at, events = dict(before), []
        for one in places:
            at[one.partition] = one.end
            if self.partitions is None or one.partition in self.partitions:
                found = {
                    "records": one.end - one.start,
                    "partition": one.partition,
                    "from": one.start,
                    "to": one.end,
                    "why": one.why,
                }
                events.append(Event("skipped", json_text(found), self.cursor(at), one.end - one.start))
        return events

    def _shown(self, rows: pa.RecordBatch, starts: Mapping[int, int], behind: Mapping[int, int], rows_max: int) -> list[Event]:
        """The newest rows, and how many are older; one that cannot be decoded is left out with those behind it."""
        first, events = max(0, rows.num_rows - rows_max), list[Event]()
        if first:
            events.append(self._left_out(first, TOO_MANY, _before_row(rows, first, starts, behind)))
        if first == rows.num_rows:
            return events
        newest = rows.slice(first)
        if self.format is None:
            lines, failure = json_lines_of(pa.Table.from_batches([newest])), None
        else:
            decoded, failure = decoded_rows(self.format, newest)
            lines = json_lines_of(pa.Table.from_batches([newest]), with_header_pairs(decoded))
        shown = lines.decode().splitlines()
        if shown:
            place = self.cursor(_before_row(rows, first + len(shown), starts, behind))
            events.append(Event("records", f"[{', '.join(shown)}]", place, len(shown)))
        if failure is not None:
            events.append(self._left_out(newest.num_rows - len(shown), str(failure), behind))
        return events

    def _left_out(self, records: int, why: str, at: Mapping[int, int]) -> Event:
        return Event("skipped", json_text({"records": records, "why": why}), self.cursor(at), records)

    def cursor(self, at: Mapping[int, int]) -> str:
        """The place of these offsets."""
        return _cursor(self.log, self.topic, at)


def _before_row(rows: pa.RecordBatch, number: int, starts: Mapping[int, int], behind: Mapping[int, int]) -> Mapping[int, int]:
    """The place before a row of rows by partition and offset: partitions before its own have been read, later ones have not."""
    if number == rows.num_rows:
        return behind
    partition, offset = (rows.column(name)[number].as_py() for name in (PARTITION, OFFSET))
    at = {one: end if one < partition else starts.get(one, end) for one, end in behind.items()}
    return {**at, partition: offset}


async def _tail(asked: Asked, wanted: Wanted) -> AsyncIterator[str]:
    """What was asked for of what is there, then what comes."""
    topic = wanted.topic
    watching = asked.live.watching(
        ("topic", topic.id), lambda: TopicTail(asked.log, topic, asked.limits.page(TAIL_READ_ROWS)), by_commits=True
    )
    tail: Any = watching.sight
    query = TailQuery(wanted.columns, wanted.partitions, asked["where"], asked["raw"])

    async def first(is_first: bool) -> Sequence[Event]:
        return await asked.live.run_live(_before, asked, wanted, tail, is_first)

    async for text in watching.events(query, first):
        yield text


def _before(asked: Asked, wanted: Wanted, tail: TopicTail, is_first: bool) -> list[Event]:
    """
    The records that were asked for; if a page has no room for some, they are left out, and the page says so.

    Behind a cursor these are all records that fit into a page, whatever `limit` is, and the newest if they do not.
    """
    if is_first:
        tail.begin()
    topic, ends = wanted.topic, tail.at
    starts = _starts(asked, wanted, LATEST)
    goes_on = _place(asked) is not None
    values = {**asked.values, "limit": asked.limits.rows} if goes_on else asked.values
    reader = _page_reader(replace(asked, values=values), wanted)
    page = reader.page(starts, ends)
    look = TailPage(page.rows, starts, page.following, (), later_than(page, ends, "the page before the live records is full"))
    if goes_on and page.is_full:  # as a look of those who have watched all the time
        chosen = {
            one: offset
            for one, offset in starts.items()
            if one in ends and (wanted.partitions is None or one in wanted.partitions)
        }
        look = newest_page(reader, chosen, {one: ends[one] for one in chosen}, asked.limits.rows)
    gone = [SkippedOffsets(*place, DELETED_BEFORE) for place in _deleted_since(asked, wanted)]
    begun = {**ends, **starts}
    earlier = {**begun, **{one.partition: one.start for one in gone}}
    events = LookEvents(asked.log, topic, wanted.partitions, None if asked["raw"] else topic.format)
    return [
        Event("begun", "{}", events.cursor(earlier)), *events.skipped(gone, earlier), *events.of(look, begun, asked.limits.rows)
    ]  # fmt: skip


PARAMETERS = (
    Parameter(
        "offset",
        str,
        "begin at this offset of the partition, at earliest or latest, or at -N, the last N of each partition",
    ),
    Parameter("time", str, "begin at the first record of this event time or later, such as 2026-01-31T12:00:00Z"),
    Parameter("partition", int, "only this partition, as often as needed", is_list=True, least=0),
    Parameter("where", str, "only records for which this condition holds, as streamkit consume --where takes it"),
    Parameter("columns", str, "only these columns, with commas between", is_list=True),
    Parameter("limit", int, "records at most", PAGE_ROWS, least=1),
    Parameter("cursor", str, "go on where an answer ended"),
    Parameter("headers", bool, "with the headers of records", False),
    Parameter("raw", bool, "bytes of an opaque topic in base 64, not decoded", False),
)
RESOURCES = (
    Resource(
        "/api/v1/topics/{topic}/records",
        "Records of a topic, by partition and offset; as text/event-stream, also records that are written later.",
        records,
        dict[str, Any],
        PARAMETERS,
        (*ROW_FORMS, EVENTS),
    ),
)
