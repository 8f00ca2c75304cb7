"""`streamkit stats` and `streamkit maintain`: what a log holds and how it moves, and the work that keeps it small and quick."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import numpy as np
import typer

from streamkit.cli.terminal import completion
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_facts, show_json
from streamkit.cli.terminal.table import show_table
from streamkit.cli.topics import InternalOption
from streamkit.connectors.files.far_times import time_text
from streamkit.log.opening import open_existing_log
from streamkit.log.statistics import ApplicationStatistics, GroupStatistics, LogStatistics, TopicStatistics, statistics_of

SIZES = ("records", "bytes", "extents", "files")


def stats(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="A topic, with its partitions; else all.", autocompletion=completion.topics),
    ] = None,
    everything: InternalOption = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show sizes and rates of topics, and how far readers lag.

    Frames, files and times of topics, and the lag of applications and consumer groups. The rate of a topic is that of the
    last minute; that of an application, of its last epochs.
    """
    with open_existing_log(log) as opened:
        found = statistics_of(opened, topic)
    shown = dataclasses.replace(found, topics=tuple(one for one in found.topics if everything or topic or not one.internal))
    if as_json:
        show_json(dataclasses.asdict(shown))
        return
    if topic is None:
        _show_topics(shown)
    else:
        _show_partitions(shown.topics[0])
    if shown.applications:
        _show_applications(shown.applications)
    if shown.groups:
        _show_groups(shown.groups)


def maintain(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Topics; else all.", autocompletion=completion.topics)
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Merge, compact, and delete what is not kept any longer.

    Small files are merged into large ones; retention and compaction delete records; files that nothing refers to are deleted. A running
    application does this by itself. It may be interrupted at any time, and goes on when it is called again.
    """
    with open_existing_log(log) as opened:
        report = opened.maintain(topics or None)
    if as_json:
        show_json(dataclasses.asdict(report))
        return
    show_facts(
        (
            (
                "merged",
                f"{report.merged.extents:,} frames into {report.merged.swaps:,} files, {report.merged.bytes:,} bytes written",
            ),
            ("dropped", f"{report.dropped.extents:,} frames by retention, {report.dropped.bytes:,} bytes"),
            ("compacted", f"{report.rows_compacted:,} records left out"),
            ("held back by", ", ".join(report.dropped.held_by) or "nobody"),
            ("deleted", f"{report.files_deleted:,} files, {report.orphans_deleted:,} orphans"),
        )
    )


def _show_topics(found: LogStatistics) -> None:
    rows = [
        (
            one.topic,
            len(one.partitions),
            *(one.total(size) for size in SIZES),
            _rate(one.records_per_second),
            _time(one.least("oldest_ms")),
            _time(one.greatest("newest_ms")),
            _time(one.greatest("appended_ms")),
        )
        for one in found.topics
    ]
    titles = ("topic", "partitions", "records", "bytes", "frames", "files", "records/s", "oldest", "newest", "last written")
    caption = f"{found.trash_files:,} files wait to be deleted" if found.trash_files else None
    show_table(titles, rows, caption)


def _show_partitions(found: TopicStatistics) -> None:
    rows = [
        (
            str(one.partition),
            one.start_offset,
            one.end_offset,
            *(getattr(one, size) for size in SIZES),
            _rate(one.records_per_second),
            *(_time(time) for time in (one.oldest_ms, one.newest_ms, one.appended_ms)),
        )
        for one in found.partitions
    ]
    titles = (
        "partition",
        "start offset",
        "end offset",
        "records",
        "bytes",
        "frames",
        "files",
        "records/s",
        "oldest",
        "newest",
        "last written",
    )
    show_table(titles, rows)


def _show_applications(found: tuple[ApplicationStatistics, ...]) -> None:
    rows = [
        (one.application, one.epoch, topic, lag, _rate(one.records_per_second), _time(one.committed_ms))
        for one in found
        for topic, lag in sorted(one.lag.items())
    ]
    show_table(("application", "epoch", "input", "lag", "records/s", "last commit"), rows)


def _show_groups(found: tuple[GroupStatistics, ...]) -> None:
    rows = [(one.group, one.state, one.members, topic, lag) for one in found for topic, lag in sorted(one.lag.items())]
    show_table(("group", "state", "members", "topic", "lag"), rows)


def _rate(per_second: float | None) -> float | None:
    """A rate as text: two digits, or an integer from a hundred on."""
    if per_second is None:
        return None
    return float(f"{per_second:.2g}") if per_second < 100 else round(per_second)


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else time_text(np.datetime64(time_ms // 1000, "s")).replace("T", " ")
