"""`streamkit apps`: which applications have run on the log, where they stand, and how to begin anew."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Annotated

import typer

from streamkit.cli import completion
from streamkit.cli.location import LogOption, open_existing_log
from streamkit.cli.rendering import plain, show_facts, show_table
from streamkit.names import application_folders

program = typer.Typer(help="Applications of the log.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[
    str,
    typer.Argument(metavar="APP", help="The application's name: that of its topology.", autocompletion=completion.applications),
]


@program.command("list")
def list_applications(log: LogOption = None) -> None:
    """Show the applications that have run on the log."""
    with open_existing_log(log) as opened:
        states = opened.catalog.applications()
    rows = [(state.name, state.epoch, _time(state.stream_time_ms), state.tasks, ", ".join(state.stores)) for state in states]
    show_table(("application", "epochs", "stream time", "tasks", "stores"), rows)


@program.command("describe")
def describe_application(app: Name, log: LogOption = None) -> None:
    """Show where an application stands: its inputs, how far it has read them, its stores."""
    with open_existing_log(log) as opened:
        state = opened.catalog.application(app)
        names = {topic.id: topic.name for topic in opened.catalog.topics()}
        ends = {topic_id: opened.catalog.end_offsets(topic_id) for topic_id in state.positions if topic_id in names}
    show_facts(
        (
            ("application", state.name),
            ("epochs", state.epoch),
            ("stream time", _time(state.stream_time_ms)),
            ("tasks", state.tasks),
            ("key groups", state.key_groups),
            ("generation", state.generation),
        )
    )
    positions = [
        (names[topic_id], str(partition), offset, ends[topic_id][partition] - offset)
        for topic_id, offsets in state.positions.items()
        if topic_id in names
        for partition, offset in sorted(offsets.items())
    ]
    show_table(("input", "partition", "next offset", "lag"), positions)
    show_table(("store", "changelog"), [(store.name, names[store.changelog_topic_id]) for store in state.stores.values()])


@program.command("reset")
def reset_application(
    app: Name, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False, log: LogOption = None
) -> None:
    """
    Let an application begin anew: forget how far it has read, and delete its stores with their changelogs.

    Its inputs and outputs stay as they are, so its next run appends its results once more. A run that still goes on is fenced.
    """
    with open_existing_log(log) as opened:
        state = opened.catalog.application(app)
        if not yes:
            typer.confirm(
                f"Forget the {state.epoch:,} epochs and delete the stores of {app} ({', '.join(state.stores) or 'none'})?",
                abort=True,
            )
        for path in opened.catalog.reset_application(app):
            opened.storage.delete(path)
        for folder in application_folders(app):
            shutil.rmtree(Path(opened.root) / folder, ignore_errors=True)
    print(f"{app} begins anew; its output topics keep their records.")


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else str(plain(dt.datetime.fromtimestamp(time_ms / 1000, dt.timezone.utc)))
