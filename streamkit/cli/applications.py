"""`streamkit apps`: which applications have run on the log, where they stand, and how to begin anew."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from streamkit.cli import completion
from streamkit.cli.far_times import time_text
from streamkit.cli.location import LogOption, open_existing_log
from streamkit.cli.rendering import JsonOption, show_facts, show_json, show_table
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.log import Log
from streamkit.names import application_folders

program = typer.Typer(help="Show applications, and let them begin anew.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[
    str,
    typer.Argument(metavar="APP", help="The application's name: that of its topology.", autocompletion=completion.applications),
]


@program.command("list")
def list_applications(as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show the applications that have run on the log."""
    with open_existing_log(log) as opened:
        found = [_described(opened, state) for state in opened.catalog.applications()]
    if as_json:
        show_json(found)
        return
    rows = [
        (
            one["name"],
            one["epochs"],
            _time(one["stream_time_ms"]),
            one["tasks"],
            ", ".join(store["store"] for store in one["stores"]),
        )
        for one in found
    ]
    show_table(("application", "epochs", "stream time", "tasks", "stores"), rows)


@program.command("describe")
def describe_application(app: Name, as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show how far an application has read, and its stores."""
    with open_existing_log(log) as opened:
        found = _described(opened, opened.catalog.application(app))
    if as_json:
        show_json(found)
        return
    show_facts(
        (
            ("application", found["name"]),
            ("epochs", found["epochs"]),
            ("stream time", _time(found["stream_time_ms"])),
            ("tasks", found["tasks"]),
            ("key groups", found["key_groups"]),
            ("generation", found["generation"]),
        )
    )
    positions = [(one["topic"], str(one["partition"]), one["next_offset"], one["lag"]) for one in found["inputs"]]
    show_table(("input", "partition", "next offset", "lag"), positions)
    show_table(("store", "changelog"), [tuple(store.values()) for store in found["stores"]])


@program.command("reset")
def reset_application(
    app: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Let an application begin anew.

    It forgets how far it has read, and its stores are deleted with their changelogs. Its inputs and outputs stay as they are,
    so its next run appends its results once more. A run that still goes on is fenced.
    """
    with open_existing_log(log) as opened:
        state = opened.catalog.application(app)
        if not yes:
            stores = ", ".join(state.stores) or "none"
            typer.confirm(f"Forget the {state.epoch:,} epochs and delete the stores of {app} ({stores})?", abort=True, err=True)
        for path in opened.catalog.reset_application(app):
            opened.storage.delete(path)
        for folder in application_folders(app):
            shutil.rmtree(Path(opened.root) / folder, ignore_errors=True)
    if as_json:
        show_json({"reset": app, "epochs": state.epoch, "stores": list(state.stores)})
    else:
        print(f"{app} begins anew; its output topics keep their records.")


def _described(log: Log, state: ApplicationState) -> dict[str, Any]:
    """An application as plain values; topics that were deleted since are left out."""
    names = {topic.id: topic.name for topic in log.catalog.topics()}
    ends = {topic_id: log.catalog.end_offsets(topic_id) for topic_id in state.positions if topic_id in names}
    inputs = [
        {"topic": names[topic_id], "partition": partition, "next_offset": offset, "lag": ends[topic_id][partition] - offset}
        for topic_id, offsets in state.positions.items()
        if topic_id in names
        for partition, offset in sorted(offsets.items())
    ]
    stores = [{"store": store.name, "changelog": names[store.changelog_topic_id]} for store in state.stores.values()]
    return {
        "name": state.name,
        "epochs": state.epoch,
        "stream_time_ms": state.stream_time_ms,
        "tasks": state.tasks,
        "key_groups": state.key_groups,
        "generation": state.generation,
        "inputs": inputs,
        "stores": stores,
    }


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else time_text(np.datetime64(time_ms, "ms"), "Z")
