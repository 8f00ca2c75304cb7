"""`streamkit apps`: which applications have run on the log, where they stand, and how to let one start from scratch."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from streamkit.cli.terminal import completion
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.program_changes import subject_lines
from streamkit.cli.terminal.rendering import JsonOption, counted, show_facts, show_json, show_line
from streamkit.cli.terminal.table import show_table
from streamkit.connectors.files.far_times import time_text
from streamkit.description.applications import application_description, epochs_of, is_running
from streamkit.log.catalog.applications import check_followed
from streamkit.log.opening import open_existing_log
from streamkit.names import application_folders

program = typer.Typer(help="Show applications, and let them start from scratch.", no_args_is_help=True, rich_markup_mode=None)
ApplicationArgument = Annotated[
    str,
    typer.Argument(metavar="APP", help="The application's name: that of its topology.", autocompletion=completion.applications),
]


@program.command("list")
def list_applications(as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show the applications that have run on the log."""
    with open_existing_log(log) as opened:
        found = [application_description(opened, state).to_json() for state in opened.catalog.applications.every()]
    if as_json:
        show_json(found)
        return
    rows = [
        (
            one["name"],
            _situation(one),
            one["generation"],
            one["epochs"],
            _time(one["stream_time_ms"]),
            sum(place["lag"] for place in one["inputs"]),
            one["late"],
            one["tasks"],
            ", ".join(store["store"] for store in one["stores"]),
        )
        for one in found
    ]
    titles = ("application", "state", "generation", "epochs", "stream time", "lag", "late", "tasks", "stores")
    show_table(titles, rows)


@program.command("describe")
def describe_application(app: ApplicationArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show how far an application has read, and its stores."""
    with open_existing_log(log) as opened:
        found = application_description(opened, opened.catalog.applications.get(app)).to_json()
    if as_json:
        show_json(found)
        return
    show_facts(
        (
            ("application", found["name"]),
            ("state", _situation(found)),
            *((name.replace("_", " "), found[name]) for name in ("follows", "successor") if found[name] is not None),
            ("generation", found["generation"]),
            ("epochs", found["epochs"]),
            ("stream time", _time(found["stream_time_ms"])),
            ("tasks", found["tasks"]),
            ("key groups", found["key_groups"]),
            ("lag", sum(place["lag"] for place in found["inputs"])),
            *((("missing topics", ", ".join(found["missing_inputs"])),) if found["missing_inputs"] else ()),
            ("late", found["late"]),
            ("without a key", found["null_key"]),
            ("left out by errors", found["errors"]),
        )
    )
    positions = [(one["topic"], str(one["partition"]), one["next_offset"], one["lag"]) for one in found["inputs"]]
    show_table(("input", "partition", "next offset", "lag"), positions)
    if found["restoring"]:
        names = ("stage", "task", "tasks", "changes", "changes_total", "seconds", "changes_per_second", "seconds_left")
        titles = ("restoring stage", "task", "of", "changes", "in all", "seconds", "changes/s", "seconds left")
        show_table(titles, [tuple(one[name] for name in names) for one in found["restoring"]])
    show_table(("store", "rows", "changelog", "records", "bytes"), [tuple(store.values()) for store in found["stores"]])
    show_table(("step", "rows in", "rows out", "busy s", "left out and counted"), [_step_row(step) for step in found["steps"]])


@program.command("history")
def show_history(
    app: ApplicationArgument,
    last: Annotated[int, typer.Option(metavar="N", min=1, help="How many epochs.")] = 20,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show the last epochs of an application.

    For each epoch: its records, how many records wait after it, how long planning, tasks and commit took, the slowest and the mean task,
    and how long after their arrival its records were committed. How long the commit of the newest epoch took is known after the next one.
    """
    with open_existing_log(log) as opened:
        found = epochs_of(opened, app, last)
    if as_json:
        show_json(found)
        return
    shown = ("plan_ms", "tasks_ms", "slowest_task_ms", "mean_task_ms", "commit_ms", "oldest_since_arrival_ms")
    rows = [
        (
            one["epoch"],
            time_text(np.datetime64(one["time"].replace(tzinfo=None), "ms"), "Z"),
            one["records"],
            sum((one["lag"] or {}).values()),
            *(None if one[name] is None else round(one[name], 1) for name in shown),
        )
        for one in found
    ]
    show_table(
        ("epoch", "time", "records", "lag", "plan ms", "tasks ms", "slowest", "mean", "commit ms", "since arrival ms"), rows
    )


@program.command("programs")
def show_programs(
    app: ApplicationArgument,
    generation: Annotated[
        int | None, typer.Argument(metavar="GENERATION", min=1, help="The generation whose changes to show.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show which starts changed the program, and what one changed.

    The log keeps the last 20 starts that changed the program. With a generation its changes are shown, in the words of
    `streamkit plan`. Signs: = stayed, + new, - gone, ~ changed.
    """
    from streamkit.description.programs import program_start, program_starts  # no other command pays for it

    with open_existing_log(log) as opened:
        state = opened.catalog.applications.get(app)
        if generation is not None:
            found = program_start(opened, state, generation).to_json()
            show_json(found) if as_json else _show_program(found)
            return
        starts = [one.to_json() for one in program_starts(opened, state)]
    if as_json:
        show_json(starts)
        return
    rows = [(str(one["generation"]), _time(one["started_ms"]), one["tasks"], one["changes"]) for one in starts]
    show_table(("generation", "started", "tasks", "changes"), rows)


def _show_program(found: Mapping[str, Any]) -> None:
    """What a start changed, under a line that says which start it was."""
    show_line(
        f"{found['application']}: generation {found['generation']} started at {_time(found['started_ms'])}, {counted(found['tasks'], 'task')}"
    )
    for line in subject_lines(found):
        show_line(line)
    show_line("")
    show_line(_compared_with(found))


def _compared_with(found: Mapping[str, Any]) -> str:
    if found["changes"] is None:
        return "The program before it is not known any more."
    if found["generation_before"] is None:
        return "It was the first start."
    return f"{counted(found['changes'], 'change')} since the program of generation {found['generation_before']}."


@program.command("reset")
def reset_application(
    app: ApplicationArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Let an application start from scratch.

    It forgets how far it has read, and its stores are deleted with their changelogs. Its inputs and outputs stay as they are,
    so its next run appends its results once more. A run that still goes on is fenced.
    """
    with open_existing_log(log) as opened:
        state = opened.catalog.applications.get(app)
        if not yes:
            stores = ", ".join(state.stores) or "none"
            typer.confirm(f"Forget the {state.epoch:,} epochs and delete the stores of {app} ({stores})?", abort=True, err=True)
        for path in opened.catalog.applications.reset(app):
            opened.storage.delete(path)
        for root in {opened.root, opened.local_root}:
            for folder in application_folders(app):
                shutil.rmtree(Path(root) / folder, ignore_errors=True)
    if as_json:
        show_json({"reset": app, "epochs": state.epoch, "stores": list(state.stores)})
    else:
        print(f"{app} starts from scratch; its output topics keep their records.")


@program.command("take-over")
def take_over(
    app: ApplicationArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Let an application take over the one that it follows.

    The other one is fenced for good. This one, which `streamkit run FILE --as APP --from OTHER` has begun, reads what that one has read to
    its end, and then writes to the topics: no result comes twice, and none is lost.
    """
    with open_existing_log(log) as opened:
        state = opened.catalog.applications.get(app)
        if not yes and state.follows is not None:
            followed = opened.catalog.applications.get(state.follows)
            check_followed(state, followed)
            left = state.behind(followed)
            here = "runs" if is_running(opened, state) else "does not run now"
            typer.confirm(
                f"Fence {state.follows} for good? {app} {here}, and has {left:,} records to read before it writes.",
                abort=True,
                err=True,
            )
        leader = opened.catalog.applications.hand_over(app)
        left = state.behind(leader)
    if as_json:
        show_json({"taken_over": leader.name, "by": app, "records_left": left})
    else:
        print(f"{leader.name} is fenced; {app} writes once it has read the {left:,} records that are left.")


def _step_row(step: Mapping[str, Any]) -> tuple[Any, ...]:
    """A step as a row of a table."""
    counts = ", ".join(f"{name} {rows:,}" for name, rows in step["counts"].items())
    return step["step"], step["rows_in"], step["rows_out"], round(step["busy_us"] / 1e6, 3), counts or None


def _situation(found: dict[str, Any]) -> str:
    """Whether a driver of the application has been heard of lately, and since when it has committed; and what it writes for."""
    if found["successor"] is not None:
        return f"taken over by {found['successor']}"
    beside = f", follows {found['follows']}" if found["follows"] is not None else ""
    if found["leader_was_reset"]:
        beside += f", which was reset: it can only begin again (apps reset {found['name']})"
    if not found["running"]:
        return f"stopped{beside}"
    if tasks := found["restoring"]:
        done, total = (sum(task[name] for task in tasks) for name in ("changes", "changes_total"))
        return f"running, restores its stores: {100 * done / max(1, total):.0f} %"
    since = _time(found["first_commit_ms"])
    return (f"running since {since}" if since else "running, nothing committed yet") + beside


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else time_text(np.datetime64(time_ms, "ms"), "Z")
