"""`streamkit store verify`: whether local stores are what their changelogs say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.status import Status

from streamkit.cli.terminal import completion
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, counted, show_error, show_json, show_line, visible
from streamkit.cli.terminal.table import show_table
from streamkit.connectors.files.far_times import printed_rows
from streamkit.connectors.files.record_lines import json_text
from streamkit.errors import StreamKitError
from streamkit.log.database.system_error import error_text
from streamkit.log.log import Log
from streamkit.log.opening import open_existing_log
from streamkit.plan.program import Program, ProgramStore
from streamkit.state.foreign_record import UNREADABLE
from streamkit.state.format import is_earlier
from streamkit.state.layout import LISTED, decode_lists, layout_of
from streamkit.state.shown_rows import shown_keys, shown_rows
from streamkit.state.snapshot import program_of
from streamkit.state.verification import DifferentRow, VerifiedTask, verify_stores

EQUAL, FOUND, UNVERIFIED = 0, 1, 2
BYTES_SHOWN = 24


def verify(
    app: Annotated[str, typer.Argument(metavar="APP", help="The application's name.", autocompletion=completion.applications)],
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="The store's name; else all.", autocompletion=completion.stores)
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Compare local stores with their changelogs.

    It goes task by task, also while the application runs. A store is the fold of its changelog, so both have the same rows as of the epoch that its files have.
    Nothing is verified where a host has no folder, or one that is discarded when it is next opened: it says so, and what takes its place.
    Ends with 0 if nothing is wrong, 1 if a store differs or is damaged, 2 if it could not be verified; then --json prints an object with `error`.
    """
    try:
        with open_existing_log(log) as opened:
            found = list(_verified(opened, app, store, is_silent=as_json))
            described = [one for task in found for one in _described(opened, app, task)]
    except (StreamKitError, OSError) as error:
        show_error(error)
        if as_json:
            show_json({"error": error_text(error)})
        raise typer.Exit(UNVERIFIED) from error
    if as_json:
        show_json({"application": app, "sound": all(task.is_sound for task in found), "stores": described})
    else:
        _show(app, found, described)
    raise typer.Exit(EQUAL if all(task.is_sound for task in found) else FOUND)


def _verified(log: Log, app: str, store: str | None, *, is_silent: bool) -> Iterator[VerifiedTask]:
    """The tasks as they are verified; on a terminal a line says which was the last one."""
    with ExitStack() as stack:
        console = Console(stderr=True)
        shown = None if is_silent else stack.enter_context(Status(f"{app}: reading", console=console))
        for found in verify_stores(log, app, store):
            if shown is not None:
                shown.update(f"{app}: stage {found.stage}, task {found.task} of {found.tasks} is done")
            yield found


def _described(log: Log, app: str, task: VerifiedTask) -> Iterator[dict[str, Any]]:
    """Each store of a task as plain values, with the first rows that differ."""
    program = log.catalog.read(lambda transaction: program_of(transaction, app))
    is_from_earlier = is_earlier(log.catalog.applications.get(app))
    for one in task.stores:
        is_compared = task.situation in ("equal", "different") and one.has_log
        if is_compared:
            situation = "different" if one.differences else "equal"
        elif one.has_log:
            situation = task.situation
        else:
            situation = "untrusted" if task.is_outdated else "without a log"
        yield {
            "store": one.store,
            "stage": task.stage,
            "task": task.task,
            "tasks": task.tasks,
            "folder": str(task.folder),
            "situation": situation,
            "reason": task.reason or None,
            "epoch": task.epoch,
            "local_epoch": task.local_epoch if is_compared else None,
            "rows": one.rows if is_compared else None,
            "bytes": one.bytes if is_compared else None,
            "differences": one.differences if is_compared else None,
            "first": [_difference(program, one.store, each, is_from_earlier) for each in one.first],
        }


def _difference(program: Program, store: str | None, found: DifferentRow, is_from_earlier: bool) -> dict[str, Any]:
    """A key with what is here and what the changelog says, both as rows and as bytes; what cannot be decoded is null."""
    here, there = (_shown(program, store, found.key, value, is_from_earlier) for value in (found.here, found.in_changelog))
    return {
        "key": _shown_key(program, store, found.key),
        "key_bytes": found.key.hex(),
        "here": here,
        "here_bytes": None if found.here is None else found.here.hex(),
        "changelog": there,
        "changelog_bytes": None if found.in_changelog is None else found.in_changelog.hex(),
    }


def _shown_key(program: Program, store: str | None, key: bytes) -> dict[str, Any] | None:
    """The columns and the times of a state key; of a list of windows the columns alone."""
    if store is None:
        return {"key_group": int.from_bytes(key[:2], "big"), "store_number": int.from_bytes(key[2:4], "big")}
    kept, keys = program.store(store), pa.array([key], pa.binary())
    try:
        if _is_list(kept, keys):
            _, _, columns = layout_of(kept).split(keys, [column.type for column in kept.key])
            rows = dict(zip(kept.key.names, columns, strict=True))
        else:
            rows = shown_keys(program, kept, keys)
        return printed_rows(pa.RecordBatch.from_pydict(rows))[0]
    except UNREADABLE:
        return None


def _shown(program: Program, store: str | None, key: bytes, value: bytes | None, is_from_earlier: bool) -> dict[str, Any] | None:
    """The value columns of a stored row, or the windows of a list; None if there is no value, or it cannot be decoded."""
    if store is None or value is None:
        return None
    kept = program.store(store)
    keys, values = (pa.array([one], pa.binary()) for one in (key, value))
    try:
        if _is_list(kept, keys):
            listed = decode_lists(values)
            return {"windows": [list(pair) for pair in zip(listed.starts.tolist(), listed.ends.tolist(), strict=True)]}
        rows = shown_rows(program, kept, keys, values, is_earlier=is_from_earlier)
        names = {*kept.key.names, *layout_of(kept).columns}
        return {name: one for name, one in printed_rows(rows)[0].items() if name not in names}
    except UNREADABLE:
        return None


def _is_list(store: ProgramStore, keys: pa.BinaryArray) -> bool:
    """Whether a list of windows stands under a key."""
    layout = layout_of(store)
    return layout.has_lists and int(layout.split(keys, [column.type for column in store.key])[1][0][0]) == LISTED


def _show(app: str, found: Sequence[VerifiedTask], described: Sequence[Mapping[str, Any]]) -> None:
    if not described:
        show_line(f"{app} has no stores")
        return
    rows = [
        (
            one["store"] or "none",
            f"{one['task']} of {one['tasks']}",
            one["situation"],
            one["rows"],
            one["bytes"],
            one["epoch"],
            one["local_epoch"],
            one["differences"],
        )
        for one in described
    ]
    show_table(("store", "task", "situation", "rows", "bytes", "epoch", "epoch here", "differences"), rows)
    for task in found:
        if task.reason:
            show_line(f"stage {task.stage}, task {task.task} of {task.tasks}: {task.reason}")
    differences = [
        (
            one["store"] or "none",
            f"{one['task']} of {one['tasks']}",
            _text(each["key"], each["key_bytes"]),
            *_sides(each),
        )
        for one in described
        for each in one["first"]
    ]
    if differences:
        show_table(("store", "task", "key", "here", "in the changelog"), differences, caption=_advice(app, found))
    elif any(task.is_unseen for task in found):
        show_line(_advice(app, found))
    else:
        show_line(_summary(app, found))


def _sides(difference: Mapping[str, Any]) -> tuple[str, str]:
    """What is here and what the changelog says; the bytes too, from the first that differs, where the rows say no difference."""
    rows, data = (tuple(difference[f"{side}{kind}"] for side in ("here", "changelog")) for kind in ("", "_bytes"))
    is_told = None in data or (None not in rows and rows[0] != rows[1])
    first = None if is_told else _first_difference(*map(bytes.fromhex, data))
    here, there = (_text(row, one, first) for row, one in zip(rows, data, strict=True))
    return here, there


def _first_difference(here: bytes, there: bytes) -> int:
    pairs = enumerate(zip(here, there, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(here), len(there)))


def _text(row: Mapping[str, Any] | None, as_bytes: str | None, first: int | None = None) -> str:
    """A key or a row in a cell, with its bytes from the `first` on that is wanted; those alone of what cannot be decoded."""
    if as_bytes is None:
        return "nothing"
    parts = [] if row is None else [", ".join(f"{name}={json_text(value)}" for name, value in row.items())]
    if row is None or first is not None:
        begin = 2 * (first or 0)
        more = "…" if len(as_bytes) > begin + 2 * BYTES_SHOWN else ""
        parts.append(f"bytes{f' from {first} on' if first else ''} {as_bytes[begin : begin + 2 * BYTES_SHOWN]}{more}")
    return ", ".join(parts)


def _advice(app: str, found: Sequence[VerifiedTask]) -> str:
    wrong = [task for task in found if task.situation == "different" or task.is_unseen]
    folders = ", ".join(visible(str(task.folder)) for task in wrong)
    follows = "; ".join(dict.fromkeys(task.what_follows for task in wrong))
    return f"{app} must not go on with these stores: stop it and delete {folders}; then {follows}"


def _summary(app: str, found: Sequence[VerifiedTask]) -> str:
    """What was compared, what was not, and what becomes of the folders that cannot be used."""
    equal = [task for task in found if task.situation == "equal"]
    compared = [task for task in equal if any(one.has_log for one in task.stores)]
    left_out = sorted({str(one.store) for task in equal for one in task.stores if not one.has_log})
    if compared or not left_out:
        text = f"{app}: the stores of {len(compared)} of {counted(len(found), 'task')} are what the changelogs say"
    else:
        text = f"{app}: nothing was compared"
    if left_out:
        text += f"; without a log, and not compared: {', '.join(left_out)}"
    situations: dict[str, list[str]] = {}
    for task in found:
        if task.situation != "equal":
            situations.setdefault(task.what_follows, []).append(task.situation)
    for follows, names in situations.items():
        parts = [f"{names.count(name)} {name}" for name in ("damaged", "untrusted", "absent") if name in names]
        text += f"; {', '.join(parts)}: when next opened, {follows}"
    if outdated := sum(task.is_outdated for task in found):
        text += f"; in {counted(outdated, 'task')} the stores without a log are out of date, and begin empty when next opened"
    return text
