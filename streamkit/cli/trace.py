"""`streamkit trace`: what real records do on their way through a topology, as a page to look at and to pass on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from streamkit.cli.run import ApplicationFile
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, counted, show_json, show_note
from streamkit.cli.topology_file import load_topology
from streamkit.errors import ConfigError
from streamkit.log.opening import open_existing_log
from streamkit.names import HEADERS, OFFSET
from streamkit.plan.inputs import sources_of
from streamkit.query.predicate import parse_predicate
from streamkit.query.wanted import condition_schema

if TYPE_CHECKING:
    from streamkit.dsl.topology import Topology
    from streamkit.log.log import Log

TABLE_RECORDS_MAX = 200_000


def trace(
    file: ApplicationFile,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only records of this stream.")] = None,
    where: Annotated[str | None, typer.Option("--where", metavar="CONDITION", help="Only records for which this holds.")] = None,
    max_records: Annotated[
        int, typer.Option("--max", "--limit", metavar="N", min=1, help="At most so many records, the newest.")
    ] = 50,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="The page that is written.")] = "trace.html",
    drain: Annotated[bool, typer.Option("--drain", help="Close all windows after the last record.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Write a page that shows how records pass through a topology.

    The trace begins with all records of the topology's tables, and goes on with the newest records of its streams, by time. Those of a
    topic that the topology writes are made again, so they are left out unless --topic names it. The trace runs in memory: nothing in the log changes,
    and stores begin empty. So a count begins at 0, and windows have only the traced records. The page needs no other file. No record is late because of
    a record that is not traced.
    """
    from streamkit.testing.newest_records import newest_records
    from streamkit.testing.trace import trace as trace_records  # no other command pays for it

    topology = load_topology(file)
    with open_existing_log(log) as opened:
        streams, tables = _inputs(topology)
        if topic is not None and topic not in streams:
            raise ConfigError(f"--topic {topic!r} is no stream of {topology.name}; it reads {', '.join(streams) or 'none'}")
        written = {sink.topic for sink in topology.outputs}  # their records are made again
        chosen = [topic] if topic is not None else [name for name in streams if name not in written] or streams
        if where is not None and len(chosen) > 1:
            raise ConfigError(
                f"--where is a condition on one topic, and {topology.name} reads {', '.join(chosen)}; expected --topic, too"
            )
        missing = {*(added.name for added in topology.added_topics), *written} - set(opened.topics())
        there = [name for name in chosen if name not in missing]
        if not there:
            raise ConfigError(
                f"there are no records to trace: {', '.join(chosen)} {'is' if len(chosen) == 1 else 'are'} not in the log yet; the first run of "
                f"{topology.name} creates what it declares, and streamkit produce fills it"
            )
        rows = newest_records(topology, opened, {name: _records(opened, name, where) for name in there}, max_records)
        before = {name: _table(opened, name) for name in tables if name not in {*chosen, *written, *missing}}
        epochs_max = max_records * (
            1 + len(written.intersection((*streams, *tables)))
        )  # a record may come again from each of these
        found = trace_records(topology, rows, before=before, log=opened, max_records=epochs_max, drain=drain)
    if as_json:
        show_json({"application": found.application, "epochs": found.epochs})
        return
    found.to_html(out)
    show_note(f"{Path(out).resolve()}: {counted(len(found), 'epoch')} of {found.application}; open it in a browser")


def _inputs(topology: Topology) -> tuple[list[str], list[str]]:
    """The topics that a topology reads as streams, and the topics that it reads as tables."""
    sources = sources_of(topology.roots)
    streams = dict.fromkeys(source.topic for source in sources if source.relation == "stream")
    return list(streams), list(dict.fromkeys(source.topic for source in sources if source.topic not in streams))


def _records(log: Log, topic: str, where: str | None) -> pa.Table:
    """The records of a topic for which a condition holds, by partition and offset, with their headers."""
    rows = log.read(topic, [*log.topic(topic).schema.names, HEADERS])
    if where is None:
        return rows
    condition = parse_predicate(where, condition_schema(log.topic(topic)))
    return rows.filter(condition.expression)


def _table(log: Log, topic: str) -> pa.Table:
    """All records of a table's topic; ConfigError if they are more than a trace takes."""
    count = log.describe(topic)["rows"]
    if count > TABLE_RECORDS_MAX:
        raise ConfigError(
            f"the table {topic} has {count:,} records, and a trace takes up to {TABLE_RECORDS_MAX:,}, since it keeps them in memory; "
            "expected a smaller table: sk.trace(app, rows, before={…}) takes those you choose"
        )
    return log.read(topic, [*log.topic(topic).schema.names, HEADERS]).drop_columns(
        [OFFSET]
    )  # no trace shows it: it would cost a commit a gap
