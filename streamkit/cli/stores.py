"""`streamkit store`: rows of an application's stores, and whether these are what their changelogs say."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

from streamkit.cli.applications import ApplicationArgument
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
from streamkit.names import WINDOW_START
from streamkit.plan.duration import duration_text
from streamkit.recast import recast
from streamkit.schema import SchemaColumn
from streamkit.state.hot_keys import load_of
from streamkit.state.layout import layout_of
from streamkit.state.view import StoreView, open_view, open_views

program = typer.Typer(help="Look into the stores of applications.", no_args_is_help=True, rich_markup_mode=None)

TABLE_ROWS = 20
StoreArgument = Annotated[str, typer.Argument(metavar="STORE", help="The store's name.", autocompletion=completion.stores)]


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
    app: ApplicationArgument,
    store: StoreArgument,
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
            table = view.windows(*values.values()) if len(values) == len(view.key) else _all_windows(view, values)
        else:
            table = view.find(**values, window_start=_moment(window))
        if not table.num_rows:
            raise ConfigError(_absence(view, key, window))
    if as_json:
        show_json(printed_rows(table))
        return
    show_table(table.column_names, [tuple(row.values()) for row in printed_rows(table)], thousands="")


@program.command("scan")
def scan_store(
    app: ApplicationArgument,
    store: StoreArgument,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            "--prefix",
            metavar="VALUE",
            help="Only rows whose first key column has this value; the next one by a second --prefix.",
        ),
    ] = None,
    starts_with: Annotated[
        str | None,
        typer.Option(
            "--starts-with", metavar="TEXT", help="Only rows whose key column behind the --prefix begins so; else the first."
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BOUND",
            help="Of windows, those that start then or later; else rows from this value of the first key column on.",
        ),
    ] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="BOUND", help="As --from, for those before it.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="N", min=1, help=f"Rows at most; {TABLE_ROWS} for a table, all otherwise.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show the rows of a store, or some of them.

    Some: by the beginning of their keys, by a range of keys, or by when their windows start. They are those of the last committed
    epoch, by windows, then by keys.
    """
    most = limit if as_json or limit is not None else TABLE_ROWS
    asked = None if most is None else most + 1
    with open_existing_log(log) as opened:
        view = open_view(opened, app, store)
        values = _typed_first(view, prefix or [])
        if first is None and before is None:
            has_prefix = values or starts_with is not None
            table = view.prefix(*values, starts_with=starts_with, limit=asked) if has_prefix else view.range(limit=asked)
        elif starts_with is not None or (values and not view.has_windows):
            raise ConfigError(
                "--from and --before go without --starts-with, and with --prefix only of windows; expected one of them"
            )
        elif view.has_windows:
            table = view.windows(*values, start=_moment(first), end=_moment(before), limit=asked)
        else:
            bounds = (None if bound is None else _typed_first(view, [bound])[0] for bound in (first, before))
            table = view.range(*bounds, limit=asked)
    rows = table if most is None else table.slice(0, most)
    if as_json:
        show_json(printed_rows(rows))
        return
    show_table(rows.column_names, [tuple(row.values()) for row in printed_rows(rows)], thousands="")
    if table.num_rows > rows.num_rows:
        print(f"There are more rows than these {rows.num_rows}: see --limit.", file=sys.stderr)


@program.command("count")
def count_rows(app: ApplicationArgument, store: StoreArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show how many rows a store has, as of the last committed epoch."""
    with open_existing_log(log) as opened:
        found = open_view(opened, app, store).count()
    show_json({"application": app, "store": store, "rows": found}) if as_json else print(found)


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
    Show which keys and key groups the newest changes are about.

    It looks at the newest 500,000 changes of each store; a key counts once in each epoch. A key group with more than four times an even
    share is hot. The busiest task is shown too: where one key has most of the changes, more tasks do not help.
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
    has_all = len(key) == len(view.store.key) and WINDOW_START not in view.store.key.names
    columns = list(view.store.key if has_all else view.key)
    if len(key) != len(columns):
        raise ConfigError(
            f"found {len(key)} values of a key; expected {len(columns)}: {', '.join(column.name for column in columns)}"
        )
    return {column.name: _typed(text, column) for text, column in zip(key, columns)}


def _typed_first(view: StoreView, values: list[str]) -> list[Any]:
    """The values of the first key columns."""
    columns = list(view.key)
    if len(values) > len(columns):
        raise ConfigError(
            f"found {len(values)} values of a key; expected {len(columns)} at most: {', '.join(column.name for column in columns)}"
        )
    return [_typed(text, column) for text, column in zip(values, columns, strict=False)]


def _moment(text: str | None) -> Any:
    """A moment as views take it: a text that has a fraction stays one, which may be finer than a datetime."""
    moment = None if text is None else parse_moment(text)
    return text if text is not None and ("." in text or "," in text) else moment


def _typed(text: str, column: SchemaColumn) -> Any:
    try:
        return recast(pa.array([text]), column.arrow.type)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConfigError(f"the key column {column.name} is {column.type}; found {text!r}") from None


def _all_windows(view: StoreView, values: dict[str, Any]) -> pa.Table:
    """The windows of a key that has more columns than users declared, as where a store retains duplicates."""
    own = [name for name in values if name not in view.key.names]
    table = view.windows(*(values[name] for name in view.key.names))
    for name in own:
        table = table.filter(pc.equal(table[name], pa.scalar(values[name], table.schema.field(name).type)))
    return table
