"""`streamkit offsets`: where the partitions of a topic start and end, and where they were at a time."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkit.cli.terminal import completion
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_json
from streamkit.cli.terminal.table import show_table
from streamkit.log.opening import open_existing_log
from streamkit.query.moment import parse_moment


def offsets(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=completion.topics)],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="Also the first offset of this event time or later: ISO 8601 (UTC if it has no zone), or ms since 1970.",
        ),
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """Show the earliest and the next offset of each partition."""
    with open_existing_log(log) as opened:
        topic_id = opened.topic(topic).id
        bounds = opened.catalog.manifest.offset_bounds([topic_id])
        found = opened.offsets_for_times(topic, parse_moment(at)) if at is not None else {}
    rows = [(partition, *bounds[topic_id, partition]) for _, partition in sorted(bounds)]
    if as_json:
        show_json(
            [
                {"partition": partition, "start_offset": start, "end_offset": end}
                | ({"offset_at": found[partition]} if at is not None else {})
                for partition, start, end in rows
            ]
        )
        return
    titles = ("partition", "start offset", "end offset") + ((f"at {at}",) if at is not None else ())
    show_table(titles, [(str(row[0]), *row[1:]) + ((found[row[0]],) if at is not None else ()) for row in rows])
