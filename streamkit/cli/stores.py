"""`streamkit store`: rows of an application's stores, and whether these are what their changelogs say."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

from streamkit.cli.query.moment import parse_moment
from streamkit.cli.terminal import completion
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_json
from streamkit.cli.terminal.table import show_table
from streamkit.cli.verification import verify
from streamkit.connectors.files.far_times import printed_rows, time_text
from streamkit.data_type import from_arrow
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.log.opening import open_existing_log
from streamkit.plan.duration import duration_text
from streamkit.recast import recast
from streamkit.schema import SchemaColumn
from streamkit.state.hot_keys import load_of
from streamkit.state.layout import layout_of
from streamkit.state.view import StoreView, open_view, open_views

program = typer.Typer(help="Look into the stores of applications.", no_args_is_help=True, rich_markup_mode=None)


@program.callback()
def options() -> None:
    """Look into the stores of applications."""


@program.command("list")
def list_stores(
    app: Annotated[
        str | None,
        typer.Argument(metavar="APP", help="The application's name; else all.", autocompletion=completion.applications),
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show the stores of an application, or of all.

    It says how their rows are kept, by which key and with which columns.
    The changelog's size counts rows until compaction removes those that later ones replaced.
    """
    with open_existing_log(log) as opened:
        names = [state.name for state in opened.catalog.applications.every()] if app is None else [app]
        found = [_described(opened, view) for name in names for view in open_views(opened, name)]
    if as_json:
        show_json(found)
        return
    rows = [
        (one["application"], one["store"], _kind(one), one["key"], one["columns"], one["changelog_rows"], one["changelog_bytes"])
        for one in found
    ]
    show_table(("application", "store", "layout", "key", "columns", "changelog rows", "bytes"), rows)


@program.command("get")
def get_row(
    app: Annotated[str, typer.Argument(metavar="APP", help="The application's name.", autocompletion=completion.applications)],
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store's name.", autocompletion=completion.stores)],
    key: Annotated[list[str], typer.Argument(metavar="KEY", help="The key; if it has several columns, a value for each.")],
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="START",
            help="Of a windowed store, the window that starts then, as in 2026-01-31T12:00:00Z, or milliseconds since 1970; else all.",
        ),
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show the row of a key, or of each of its windows.

    It is that of the last committed epoch. Tables round numbers to six decimals; JSON is a list of rows, of a store without
    windows too.
    """
    with open_existing_log(log) as opened:
        view = open_view(opened, app, store)
        values = _typed_key(view, key)
        if window is None and view.store.window_size_ms is not None:
            table = _windows_of(view, values)
        else:
            table = view.find(**values, window_start=None if window is None else parse_moment(window))
        if not table.num_rows:
            raise ConfigError(_absence(view, key, window))
    if as_json:
        show_json(printed_rows(table))
        return
    show_table(table.column_names, [tuple(row.values()) for row in printed_rows(table)], thousands="")


program.command("verify")(verify)


@program.command("stats")
def show_load(
    app: Annotated[str, typer.Argument(metavar="APP", help="The application's name.", autocompletion=completion.applications)],
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="The store's name; else all.", autocompletion=completion.stores)
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show which key groups, tasks and keys the newest changes of stores are about.

    A key group with more than four times an even share is hot. A task has several key groups, so where one key has most of the changes
    more tasks do not help. Of the newest 500,000 changes; a key counts once in each epoch.
    """
    with open_existing_log(log) as opened:
        names = [view.store.name for view in open_views(opened, app)] if store is None else [store]
        found = [load_of(opened, app, name) for name in names]
    if as_json:
        show_json([asdict(one) | {"hot_key_groups": one.hot_key_groups, "busiest_task": one.busiest_task} for one in found])
        return
    rows = [
        (
            one.store, one.changes, ", ".join(f"{group} ({one.by_key_group[group] / one.changes:.0%})" for group in one.hot_key_groups) or "none",
            f"{one.busiest_task:.1f}", "; ".join(f"{', '.join(map(str, hot.key.values()))} ({hot.share:.1%})" for hot in one.hottest),
        )
        for one in found
    ]  # fmt: skip
    show_table(("store", "changes", "hot key groups", "busiest task, of an even share", "hottest keys"), rows)


def _described(log: Log, view: StoreView) -> dict[str, Any]:
    """A store as plain values; a store that was reset has no changelog until the next start."""
    store, layout = view.store, layout_of(view.store)
    state = log.catalog.applications.get(view.application).stores.get(store.name)
    changelog = log.catalog.manifest.statistics(state.changelog_topic_id) if state else ()
    values = [field for field in view.schema if field.name not in (*store.key.names, *layout.columns)]
    return {
        "application": view.application,
        "store": store.name,
        "layout": layout.name,
        "window_size_ms": store.window_size_ms,
        "retention_ms": store.retention_ms,
        "key": ", ".join(f"{column.name} {column.type}" for column in store.key),
        "columns": ", ".join(f"{field.name} {from_arrow(field.type)}" for field in values),
        "changelog_rows": sum(partition.records for partition in changelog),
        "changelog_bytes": sum(partition.bytes for partition in changelog),
    }


def _kind(described: dict[str, Any]) -> str:
    size = described["window_size_ms"]
    return described["layout"] if size is None else f"{described['layout']} of {duration_text(size)}"


def _absence(view: StoreView, key: list[str], window: str | None) -> str:
    """Why there is no row of a key: there never was, or retention has deleted it."""
    expiry = view.expiry()
    missing = (
        f"the store {view.store.name!r} has no row of the key {', '.join(key)}{f' in the window from {window}' if window else ''}"
    )
    if expiry is None:
        return missing
    horizon = np.datetime64(expiry.stream_time_ms - expiry.retention_ms, "ms")
    retention = f"retention is {duration_text(expiry.retention_ms)} and stream time {time_text(np.datetime64(expiry.stream_time_ms, 'ms'), 'Z')}"
    if window is not None and expiry.has_taken(parse_moment(window)):
        return f"the window from {window} of the store {view.store.name!r} has expired: {retention}"
    return missing if window else f"{missing}; windows that start up to {time_text(horizon, 'Z')} have expired: {retention}"


def _typed_key(view: StoreView, key: list[str]) -> dict[str, Any]:
    columns = list(view.store.key)
    if len(key) != len(columns):
        raise ConfigError(
            f"found {len(key)} values of a key; expected {len(columns)}: {', '.join(column.name for column in columns)}"
        )
    return {column.name: _typed(text, column) for text, column in zip(key, columns)}


def _typed(text: str, column: SchemaColumn) -> Any:
    try:
        return recast(pa.array([text]), column.arrow.type)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConfigError(f"the key column {column.name} is {column.type}; found {text!r}") from None


def _windows_of(view: StoreView, values: dict[str, Any]) -> pa.Table:
    table = view.to_arrow()
    for name, value in values.items():
        table = table.filter(pc.equal(table[name], pa.scalar(value, table.schema.field(name).type)))
    return table.sort_by("window_start")
