"""`streamkit consume`: the records of a topic, those that are there or those that come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import pyarrow as pa
import typer

from streamkit.cli.terminal import completion
from streamkit.cli.terminal.choice import choice_option
from streamkit.cli.terminal.interruption import interruption
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.record_output import PrintFormat, RecordOutput
from streamkit.cli.terminal.rendering import JsonOption, show_note
from streamkit.log.consume.consumer import Consumer
from streamkit.log.opening import open_existing_log
from streamkit.names import HEADERS
from streamkit.query.draining import LOOK_S, drained
from streamkit.query.moment import parse_moment
from streamkit.query.portion import Portion, polled_portions, standing_portions
from streamkit.query.position import EARLIEST, LATEST, StartPosition, parse_offset
from streamkit.query.predicate import parse_predicate
from streamkit.query.wanted import Wanted, check_offset, condition_schema, consumer_of, standing_records

TABLE_ROWS = 20
OFFSET_MAX = (1 << 63) - 1


TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=completion.topics)]
MaxOption = Annotated[
    int | None,
    typer.Option(
        "--max",
        "--limit",
        metavar="N",
        min=1,
        help=f"Records at most; {TABLE_ROWS} for a table, all otherwise.",
        show_default=False,
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only records for which this holds, as in \"dep_delay > 60 and _timestamp >= '2026-01-31'\"; bytes, such as keys "
        "of an opaque topic, are compared with the UTF-8 of a text.",
    ),
]
FollowOption = Annotated[bool, typer.Option("--follow", help="Wait for new records, until interrupted.")]
BeginningOption = Annotated[
    bool,
    typer.Option(
        "--from-beginning",
        help="With --follow: print the existing records first; with a group, only where it has committed nothing.",
    ),
]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="N", min=0, help="Only this partition, as often as needed; else all."),
]
OffsetOption = Annotated[
    str | None,
    typer.Option(
        "--offset",
        metavar="OFFSET",
        help="Begin at this offset of the partition, or earliest or latest.",
        autocompletion=completion.bounds,
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Begin at each partition's first record of this event time or later: ISO 8601 such as 2026-01-31T12:00:00+01:00 "
        "(UTC if it has no zone), or ms since 1970.",
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        help="As a member of this group: go on where it has committed, and commit the printed records.",
        autocompletion=completion.groups,
    ),
]
PrintFormatOption = Annotated[
    PrintFormat | None, choice_option("--format", PrintFormat, "How to print records. [default: table]")
]
HeadersOption = Annotated[bool, typer.Option("--headers", help="Print the records' headers too.")]
RawOption = Annotated[bool, typer.Option("--raw", help="Print the bytes of an opaque topic in base 64, not decoded.")]


def consume(
    topic: TopicArgument,
    max_records: MaxOption = None,
    where: WhereOption = None,
    follow: FollowOption = False,
    from_beginning: BeginningOption = False,
    partitions: PartitionOption = None,
    offset: OffsetOption = None,
    since: SinceOption = None,
    group: GroupOption = None,
    form: PrintFormatOption = None,
    as_json: JsonOption = False,
    headers: HeadersOption = False,
    raw: RawOption = False,
    log: LogOption = None,
) -> None:
    """
    Print the records of a topic.

    Without --follow these are the existing records, from the first one, or from where --group has committed. With --follow
    they are the records that are written from now on. If a member of the group is silent, the command waits for its partitions; standard
    error says which partitions other members keep.
    The records of a partition are in the order of their offsets. JSON is one object a line. `streamkit produce` reads what is printed as
    JSON, or as CSV except of opaque topics. NaN and infinities are texts in JSON: "NaN", "Infinity", "-Infinity".
    Tables round numbers to six decimals, because sums and means of doubles have up to 17 digits; JSON has all of them.
    A year that is not of 1 to 9999 has a sign, as in +57861-07-09T08:00:00Z.
    """
    printed_as = _form(form, as_json=as_json)
    position = _position(offset, since, from_beginning=from_beginning, follow=follow)
    if group is not None and (offset is not None or since is not None or partitions):
        raise typer.BadParameter(
            "a group shares out the partitions, and goes on where it has committed; expected none of --offset, --since and "
            "--partition with it. To send it elsewhere: streamkit groups reset",
            param_hint="--group",
        )
    with open_existing_log(log) as opened:
        found = opened.topic(topic)
        columns = (*found.schema.names, HEADERS) if headers else found.schema.names
        condition = None if where is None else parse_predicate(where, condition_schema(found))
        wanted = Wanted(found, columns, tuple(partitions) if partitions else None, position, condition)
        check_offset(opened, wanted)
        limit = _limit(max_records, is_short=printed_as is PrintFormat.TABLE and not follow)
        read_as = None if raw else found.format
        if not follow and group is None:
            is_all = condition is None and partitions is None and position == EARLIEST
            portions = standing_portions(standing_records(opened, wanted), read_as, limit)
            output = RecordOutput(columns, printed_as, limit)
            output.write(portions, opened.describe(topic)["rows"] if is_all else None)
            return
        with interruption() as interrupted, consumer_of(opened, wanted, group) as consumer:
            output = RecordOutput(columns, printed_as, limit, None if group is None else partial(_commit, consumer))
            if follow or group is None:
                output.write_each(polled_portions(_followed(consumer, interrupted), consumer, wanted, read_as, limit))
            else:
                tables = drained(opened, consumer, topic, group, interrupted, show_note)
                output.write(polled_portions(tables, consumer, wanted, read_as, limit))


def _form(form: PrintFormat | None, *, as_json: bool) -> PrintFormat:
    if as_json and form not in (None, PrintFormat.JSON):
        raise typer.BadParameter("found another --format; expected one of the two", param_hint="--json")
    return PrintFormat.JSON if as_json else form or PrintFormat.TABLE


def _limit(max_records: int | None, *, is_short: bool) -> int | None:
    """How many records are printed at most; typer.BadParameter if it is more than there can be."""
    if max_records is not None and max_records > OFFSET_MAX:
        raise typer.BadParameter(f"found {max_records}; expected a whole number from 1 to {OFFSET_MAX}", param_hint="--max")
    return TABLE_ROWS if max_records is None and is_short else max_records


def _position(offset: str | None, since: str | None, *, from_beginning: bool, follow: bool) -> StartPosition:
    if (offset is not None) + (since is not None) + from_beginning > 1:
        raise typer.BadParameter(
            "each says where to begin; expected one of them", param_hint="--offset / --since / --from-beginning"
        )
    if offset == LATEST and not follow:
        raise typer.BadParameter(
            "nothing is there yet behind the latest offset; add --follow to wait for it", param_hint="--offset"
        )
    if offset is not None:
        return parse_offset(offset)
    if since is not None:
        return parse_moment(since)
    return LATEST if follow and not from_beginning else EARLIEST


def _followed(consumer: Consumer, interrupted: threading.Event) -> Iterator[pa.Table]:
    """What comes, until the interrupt."""
    while not interrupted.is_set():
        table = consumer.poll(LOOK_S)
        if table is not None:
            yield table


def _commit(consumer: Consumer, portion: Portion) -> None:
    """Commit the offsets behind a portion, of the partitions that are still ours."""
    held = consumer.assignment()
    consumer.commit({place: offset for place, offset in portion.following.items() if place in held})
